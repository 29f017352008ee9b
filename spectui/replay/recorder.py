"""Recording of a draft: one pass along the output, with an excursion wherever the draft errs."""

from collections.abc import Callable, Sequence

from spectui.replay.trace import Chains, Tail
from spectui.speculative.decoder import draft_cap
from spectui.speculative.models import DraftModel, Outputs, SequenceModel
from spectui.speculative.mtp import longest_draft


def record_chains(
    model: DraftModel,
    prompt: Sequence[int],
    output: Sequence[int],
    *,
    depth: int,
    cancelled: Callable[[], bool] = lambda: False,
) -> Chains | None:
    """Ask a draft for its chain at every position of an output.

    Where its top token is right, the chain goes on as the next position's does; so only an error
    costs the decodes of a chain. With acceptance α that is 1 + (1 - α)(depth - 1) decodes of one
    token per token of output.

    Args:
        model: its cache holds a beginning of ``prompt``, possibly nothing. Afterwards it holds
            prompt and output.
        prompt: what the output continues.
        output: of the target.
        depth: longest draft that the chains shall answer for.
        cancelled: asked after every position; True ends the recording.

    Returns:
        The chains, None if cancelled.
    """
    lacking = prompt[model.n_past :]
    if lacking:
        model.decode(lacking, Outputs.LAST)
    tokens: list[int] = []
    probabilities: list[float] = []
    tails: list[Tail] = []
    for position, token in enumerate(output):
        if cancelled():
            return None
        # What the target's cache holds when a round begins here: all but the last token.
        n_past = model.n_past
        model.decode((token,), Outputs.LAST)
        top, probability = model.top()
        tokens.append(top)
        probabilities.append(_short(probability))
        if position + 1 == len(output) or top != output[position + 1]:
            cap = draft_cap(n_ctx=model.n_ctx, n_past=n_past, n_remaining=0)
            model.mark()
            tails.append(_tail(model, top, min(depth, cap) - 1))
            model.truncate(n_past + 1)
    return Chains(
        depth=depth,
        tokens=tuple(tokens),
        probabilities=tuple(probabilities),
        tails=tuple(tails),
    )


def record_own_chains(
    target: SequenceModel,
    model: DraftModel,
    output: Sequence[int],
    *,
    depth: int,
    n_layers: int,
    cancelled: Callable[[], bool] = lambda: False,
) -> Chains | None:
    """Ask a target's MTP layers for their chain at every position of an output.

    What they draft depends on the text alone, by way of the target's hidden states, so it is
    exactly what they draft in a generation. It takes one pass of the target, and a chain per token.

    Args:
        target: holds the prompt, and shows its states to ``model``.
        model: holds the prompt. Afterwards both hold the output as well, but for its last token.
        output: of the target.
        depth: longest draft that the chains shall answer for.
        n_layers: that draft.
        cancelled: asked after every position; True ends the recording.

    Returns:
        The chains, None if cancelled.
    """
    chains: list[Tail] = []
    longest = longest_draft(depth, n_layers)
    for position, token in enumerate(output):
        if cancelled():
            return None
        n_past = model.n_past
        model.mark()
        chains.append(_tail(model, token, min(longest, model.n_ctx - n_past)))
        model.truncate(n_past)
        if position + 1 < len(output):
            target.decode((token,), Outputs.NONE)
            model.decode((token,), Outputs.NONE)
    return Chains(
        depth=depth,
        tokens=tuple(chain.tokens[0] for chain in chains),
        probabilities=tuple(chain.probabilities[0] for chain in chains),
        tails=tuple(
            Tail(tokens=chain.tokens[1:], probabilities=chain.probabilities[1:]) for chain in chains
        ),
        mtp_layers=n_layers,
    )


def _tail(model: DraftModel, token: int, length: int) -> Tail:
    tokens: list[int] = []
    probabilities: list[float] = []
    for _ in range(length):
        model.decode((token,), Outputs.LAST)
        token, probability = model.top()
        tokens.append(token)
        probabilities.append(_short(probability))
    return Tail(tokens=tuple(tokens), probabilities=tuple(probabilities))


def _short(probability: float) -> float:
    """Nine digits name a number of single precision, and no two of them are named alike."""
    return float(f"{probability:.9g}")
