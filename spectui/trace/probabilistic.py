"""Sampled drafts that are verified by rejection, replayed on a text that the target has sampled.

With ``--spec-draft-sampling probabilistic`` llama-server draws each token of a draft from q, what
the samplers of the request leave of the draft's distribution, and keeps it with probability
min(1, p / q), where p is the same of the target's. In place of the first that is not kept it draws
from what q falls short of p (Leviathan et al. 2023, arXiv 2211.17192, algorithm 1;
``common_sampler_sample_and_accept_n_rejection``). So all text is the target's own.
Conversely, a token x of a text that the target has sampled was an accepted one with probability
min(1, q(x) / p(x)). The expected number of rounds that begin at each token, and of tokens that they
accept, follows exactly; no draft has to be run.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spectui.documents import Json, Known, fields_of
from spectui.speculative.models import Rollback
from spectui.trace.costs import Costs, Prices, Vector
from spectui.trace.record import Chains, Recording
from spectui.trace.replay import Rounds, off_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """A draft whose tokens are sampled, with drafts of one length."""

    draft: str
    draft_max: int
    speedup: float
    """Predicted, over off."""
    n_drafted: float
    """Expected on the recorded prompts; so are the accepted ones."""
    n_accepted: float

    @property
    def acceptance_rate(self) -> float:
        """Accepted / drafted."""
        return self.n_accepted / self.n_drafted

    def document(self) -> Json:
        """The forecast as JSON."""
        return fields_of(self, "", "draft", "draft_max", "speedup", "acceptance_rate")


NOT_SAMPLED = Known[Sampled](None, "probabilities of sampled text were not recorded")


def best_sampled(
    recordings: Sequence[Recording], draft: str, costs: Costs, off: Costs
) -> Sampled | None:
    """The length of sampled drafts that is predicted to be fastest, ``draft_p_min`` being 0.

    Args:
        recordings: with the chains of the draft.
        draft: its name.
        costs: of rounds with it.
        off: costs that include the target alone.

    Returns:
        None where the recordings lack probabilities: the target takes the most probable token, its
        text was written elsewhere, it has to redo rounds, or MTP layers draft, whose hidden states
        are not the text's.
    """
    longest = min((one.chains[draft].longest for one in recordings), default=0)
    if not longest or not all(_is_known(one, one.chains[draft]) for one in recordings):
        return None
    prices = costs.prices(longest)
    # [longest, 3]: seconds, drafted and accepted.
    sums = sum(replay_sampled(one, one.chains[draft], prices) for one in recordings)
    totals = np.asarray(sums)
    best = int(totals[:, 0].argmin())
    seconds, drafted, accepted = totals[best].tolist()
    if not drafted:
        return None
    return Sampled(
        draft=draft,
        draft_max=best + 1,
        speedup=off_seconds(recordings, off) / seconds,
        n_drafted=drafted,
        n_accepted=accepted,
    )


def _is_known(recording: Recording, chains: Chains) -> bool:
    is_sampled = len(recording.probabilities) == len(recording.output) == len(chains.of_output)
    return is_sampled and not chains.mtp_layers and recording.rollback is Rollback.TRUNCATE


def replay_sampled(recording: Recording, chains: Chains, prices: Prices) -> Vector:
    """Expected seconds, drafted and accepted tokens: [longest, 3], from drafts of one token on."""
    rounds, survival = Rounds(recording, chains), _survival(recording, chains)
    return np.array([_expected(rounds, survival, n, prices) for n in range(1, chains.longest + 1)])


def _survival(recording: Recording, chains: Chains) -> Vector:
    """[n_output, longest + 1]: that the next n tokens of the text are accepted, n from 0 on."""
    n = len(recording.output)
    # The chance of the first token after a position belongs to the output token behind it.
    kept = np.minimum(1.0, np.array(chains.of_output[:-1]) / np.array(recording.probabilities[1:]))
    found = np.zeros((n, chains.longest + 1))
    found[:, 0] = 1.0
    for length in range(1, min(chains.longest, n - 1) + 1):
        found[: n - length, length] = found[: n - length, length - 1] * kept[length - 1 :]
    return found


def _expected(rounds: Rounds, survival: Vector, longest: int, prices: Prices) -> Vector:
    """Expected seconds, drafted and accepted tokens of drafts of one length."""
    n = len(survival)
    begins = np.zeros(n + longest + 1)
    begins[0] = 1.0
    found = np.zeros(3)
    for position in range(n - 1):
        drafted = min(longest, rounds.bounds(position)[0])
        lasting = survival[position, : drafted + 1]
        # [drafted + 1]: that so many are accepted.
        ends = -np.diff(lasting, append=0.0)
        accepted = np.arange(drafted + 1) @ ends
        price = prices.at(rounds.n_past(position))
        # A cache that just forgets is as soon done, however much was accepted.
        seconds = price.seconds(drafted, drafted, 0, accepted + 1, 1.0 - lasting[-1])
        begins[position + 1 : position + drafted + 2] += begins[position] * ends
        found += begins[position] * np.array([seconds, drafted, accepted])
    return found
