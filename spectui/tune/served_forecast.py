"""Forecasts of draft lengths through a llama-server: two starts a draft, and none for a setting.

A streamed answer has the drafted and accepted tokens of each round, and its time. Output
does not depend on drafts, so that one answer with long drafts holds the rounds of every shorter
length: a draft agrees with the text up to the same places, whatever its length. A round of a length
costs what it costs where nothing is accepted (``--spec-synth-rates 0,0,...``): there an answer of n
tokens has rounds that draft n - 2, n - 3, ..., 0, since no more is drafted than is wanted.
"""

import statistics
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from spectui.engine.commands import Generate
from spectui.errors import DoesNotFitError, HopelessError, ServerError
from spectui.measure.arm import Arm
from spectui.measure.server_backend import ServerBackend
from spectui.measure.servers import SYNTHETIC_RATES
from spectui.measure.statistics import MIN_PROMPTS
from spectui.measure.workload import WorkItem, Workload
from spectui.options.drafters import MTP_KIND, DraftSimple
from spectui.options.speculation import Speculation
from spectui.server.binary import ServerBinary
from spectui.server.replies import Round
from spectui.trace.replay import N_PARTS, Parts, part_ends
from spectui.tune.forecast import Answers, Forecast, Outlook
from spectui.tune.space import SearchSpace
from spectui.tune.tracing import COSTS_SHARE, MOST_SHARE, TEXT_SHARE, never

_TURNS = 6
"""Answers of which every length's price is the median."""
_FEWEST_TURNS = 3
"""As many where there is no time for more."""
_LONG_ROUND = 2.0
"""Cost of a mean round of those whose prices are measured, in tokens of the target; roughly."""


Turn = tuple[Sequence[Round], Sequence[Round]]
"""Rounds of the target alone, and those of which nothing was accepted, close in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One answer by a server with the longest drafts."""

    rounds: tuple[Round, ...]
    longest: int
    """Tokens of its drafts, as far as so many were wanted."""
    n_wanted: int
    """Tokens that were wanted behind the first one, which comes with the prompt."""


def replayed(answer: Answer, longest: int, prices: Mapping[int, float]) -> Parts:
    """Count the rounds that drafts of ``longest`` tokens take for an answer: [n_parts].

    Args:
        answer: of drafts that are at least as long.
        longest: tokens of a draft, as far as so many are wanted.
        prices: cost of a round by its drafted tokens, 0 included, in tokens of the target alone,
            which stand for the seconds.
    """
    found = np.zeros((4, N_PARTS))
    ends = part_ends(sum(one.n_emitted for one in answer.rounds))
    n_emitted = 0
    for n_tokens in _stretches(answer):
        end = n_emitted + n_tokens
        while n_emitted < end:
            drafted = max(0, min(longest, answer.n_wanted - n_emitted - 1))
            accepted = min(drafted, end - n_emitted - 1)
            part = bisect_right(ends, n_emitted)
            found[:, part] += (accepted + 1, drafted, accepted, prices[drafted])
            n_emitted += accepted + 1
    return Parts(*found)


def _stretches(answer: Answer) -> Iterator[int]:
    """Numbers of tokens up to each one that the draft did not predict, that one included.

    A draft of the longest kind that was accepted as a whole is taken to continue rightly.
    """
    before = 0
    for one in answer.rounds:
        before += one.n_emitted
        if one.n_accepted < answer.longest:
            yield before
            before = 0
    if before:
        yield before


def prices_of(turns: Sequence[Turn], longest: int) -> dict[int, float]:
    """Cost of a round by its drafted tokens, in tokens of the target alone.

    Args:
        turns: medians are taken over them. A length that none shows lies between its neighbours.
        longest: drafted tokens of the longest rounds.
    """
    found: dict[int, list[float]] = {}
    for off, ladder in turns:
        token_s = _token_s(off)
        for one in ladder:
            found.setdefault(one.n_drafted, []).append(one.seconds / token_s)
    lengths = sorted(found)
    costs = [statistics.median(found[n]) for n in lengths]
    return {n: float(np.interp(n, lengths, costs)) for n in range(longest + 1)}


def off_token_s(turns: Sequence[Turn]) -> float:
    """Seconds of a token of the target alone."""
    return statistics.median(_token_s(off) for off, _ladder in turns)


def _token_s(off: Sequence[Round]) -> float:
    return statistics.median(one.seconds / one.n_emitted for one in off)


def why_unforecast(
    space: SearchSpace, binary: ServerBinary, *, n_slots: int, redoes_rounds: bool
) -> str | None:
    """Return why draft lengths cannot be forecast through a server; None where they can."""
    others = [one for one in space.drafts if one == MTP_KIND or space.layers_of(one)]
    others += [name for name, _kind in space.readers]
    if not space.drafts:
        return "n-gram drafters are not forecast through llama-server"
    if others:
        return f"{others[0]} drafts to its full length even where fewer tokens are wanted"
    if SYNTHETIC_RATES not in binary.reader.flags:
        return f"{binary.path} has no {SYNTHETIC_RATES}, with which a server shows what rounds cost"
    if n_slots > 1:
        return "rounds of several slots share their batches"
    if redoes_rounds:
        return "llama-server may have to redo rounds of this target, which changes their number"
    return None


@dataclass(eq=False)
class ServedForecaster:
    """Forecasts every length of each draft, with ``draft_p_min`` 0.

    As ``Forecaster``; what an earlier run of the study has found is measured again, since the
    machine may have changed.
    """

    not_kept = None

    workload: Workload
    """Prompts to answer, of all categories in turn."""
    backend: ServerBackend
    """Llama-servers."""
    space: SearchSpace
    """Space whose drafts are forecast."""

    def __post_init__(self) -> None:
        self._on_event: Callable[[str], None] = lambda _event: None
        self._is_over: Callable[[float], bool] = never
        self._answered: tuple[WorkItem, ...] = ()
        """Prompts that the forecasts are of."""

    @property
    def prompts(self) -> tuple[tuple[str, str], ...]:
        """Names and categories of the answered prompts."""
        return tuple((one.id, one.category) for one in self._answered)

    def n_steps(self, n_prompts: int) -> int:
        """Number of events that ``run`` emits, at most."""
        return len(self.space.drafts) * (n_prompts + _TURNS)

    def seconds(
        self, n_prompts: int, n_tokens: int, tokens_per_s: float, prompt_token_s: float
    ) -> float:
        """Estimate for ``run``, with few turns; arguments as those of ``Forecaster``."""
        backend, items = self.backend, self.workload.items
        reading_s = prompt_token_s * sum(len(item.tokens) for item in items) / max(len(items), 1)
        ladder_s = (1 + _LONG_ROUND) * (self.space.max_draft + 1) / tokens_per_s
        starts_s = (2 if backend.n_beside_off else 3) * backend.move_s
        answers_s = n_prompts * (n_tokens / tokens_per_s + reading_s)
        turns_s = _FEWEST_TURNS * (ladder_s + 2 * reading_s)
        return len(self.space.drafts) * (starts_s + answers_s + turns_s)

    def run(
        self,
        n_prompts: int,
        n_tokens: int,
        on_event: Callable[[str], None],
        is_over: Callable[[float], bool] = never,
    ) -> Outlook:
        """Measure rounds, answer the prompts with the longest drafts, and replay every length.

        Arguments as those of ``Forecaster``.

        Raises:
            KeyboardInterrupt: it was stopped.
            ServerError: no draft could be measured; the last one's reason.
        """
        self._on_event = on_event
        self._is_over = is_over
        self._answered = ()
        workload = replace(self.workload.first(n_prompts), n_predict=n_tokens)
        found, error = list[Forecast](), None
        for draft in self.space.drafts:
            self.backend.load(draft)
            try:
                found += self._lengths(workload, draft)
            except HopelessError:
                raise
            except (DoesNotFitError, ServerError) as problem:
                error = problem
                on_event(f"left out {draft}: {error}")
        if error is not None and not found:
            raise ServerError(str(error)) from error
        return Outlook(forecasts=tuple(sorted(found, key=lambda one: -one.speedup)), costs={})

    def _lengths(self, workload: Workload, draft: str) -> list[Forecast]:
        """Forecast the lengths of the loaded draft that pay if all is accepted, or the shortest.

        None where no prompt is answered.
        """
        lengths = sorted(self.space.grid(draft).draft_max)
        # No round drafts more than is wanted behind the first token and the one that follows.
        most = max(1, workload.n_predict - 2)
        turns = self._turns(workload, draft, min(lengths[-1], most))
        prices, token_s = prices_of(turns, min(lengths[-1], most)), off_token_s(turns)
        paying = [n for n in lengths if n + 1 > prices[min(n, most)]] or lengths[:1]
        answers = self._answers(workload, draft, min(paying[-1], most))
        if not any(one.rounds for one in answers):
            return []
        return [
            _forecast(draft, n, [replayed(one, n, prices) for one in answers], token_s)
            for n in paying
        ]

    def _answers(self, workload: Workload, draft: str, longest: int) -> list[Answer]:
        """Answers to the prompts, for each draft to the same."""
        found = list[Answer]()
        for item in self._answered or workload.items:
            if found and not self._answered and self._ends(len(found)):
                break
            rounds = self._rounds(workload, item, longest)
            n_tokens = sum(one.n_emitted for one in rounds)
            seconds = sum(one.seconds for one in rounds)
            self._on_event(f"{item.id}: {draft} along {n_tokens} tokens in {seconds:.1f} s")
            found.append(Answer(rounds=rounds, longest=longest, n_wanted=workload.n_predict - 1))
        self._answered = workload.items[: len(found)]
        return found

    def _ends(self, n_answers: int) -> bool:
        """Whether so many answers have to do."""
        is_over = self._is_over
        return is_over(MOST_SHARE) or (n_answers >= MIN_PROMPTS and is_over(TEXT_SHARE))

    def _turns(self, workload: Workload, draft: str, longest: int) -> list[Turn]:
        """Measure rounds of every length, in turn with the target alone if both servers fit."""
        sampling = replace(workload.sampling, ignore_eos=True)
        workload = replace(workload, n_predict=longest + 2, sampling=sampling)
        items = [workload.items[n % len(workload.items)] for n in range(_TURNS)]
        rates = SYNTHETIC_RATES, ",".join(["0"] * longest)
        ladders, alone = list[Sequence[Round]](), list[Sequence[Round]]()
        for n, item in enumerate(items):
            if n >= _FEWEST_TURNS and self._is_over(COSTS_SHARE):
                break
            ladders.append(self._rounds(workload, item, longest, *rates))
            if self.backend.n_beside_off:
                alone.append(self._rounds(workload, item, None))
            self._on_event(f"{item.id}: measured rounds of every length with {draft}")
        for item in items[len(alone) : len(ladders)]:
            alone.append(self._rounds(workload, item, None))
        totals = {
            (sum(one.n_drafted for one in rounds), sum(one.n_accepted for one in rounds))
            for rounds in ladders
        }
        if totals != {(longest * (longest + 1) // 2, 0)}:
            raise ServerError(
                f"llama-server does not draft {longest}, {longest - 1}, ... 0 tokens, none of them "
                f"accepted, with {SYNTHETIC_RATES}"
            )
        return list(zip(alone, ladders, strict=True))

    def _rounds(
        self, workload: Workload, item: WorkItem, longest: int | None, *arguments: str
    ) -> tuple[Round, ...]:
        command = Generate(
            prompt=item.tokens,
            n_predict=workload.n_predict,
            sampling=workload.sampling_of(item),
            speculation=None if longest is None else _speculation(longest),
        )
        return self.backend.rounds(command, *arguments)

    taken = ()
    """Nothing is recorded."""

    def recall(self, _n_prompts: int, _n_tokens: int) -> None:
        """Return None: nothing is kept."""

    def forecast(self, _arm: Arm) -> None:
        """Return None: other settings than those of ``run`` have no forecast."""


def _speculation(longest: int) -> Speculation:
    return Speculation(DraftSimple(draft_max=longest, draft_min=0, draft_p_min=0.0))


def _forecast(draft: str, longest: int, each: Sequence[Parts], token_s: float) -> Forecast:
    tokens, drafted, accepted, cost = np.stack(each, axis=1)
    return Forecast(
        arm=Arm(draft=draft, speculation=_speculation(longest)),
        speedup=float(tokens.sum() / cost.sum()),
        n_drafted=round(drafted.sum()),
        n_accepted=round(accepted.sum()),
        answers=Answers(tokens, drafted, accepted, cost * token_s, tokens * token_s),
    )
