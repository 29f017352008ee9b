"""What a llama-server tells of a completion, as the engine would tell it. Pure."""

from spectui.engine.events import GenerationResult
from spectui.server import Completion
from spectui.speculative.counters import Counters, Detail
from spectui.speculative.decoder import Stop

_STOPS = {"eos": Stop.END_OF_GENERATION, "word": Stop.END_OF_GENERATION}


def result_of(done: Completion, n_prompt_tokens: int, *, redoes_rounds: bool) -> GenerationResult:
    """Take over what is told, and leave out what is not.

    Args:
        done: by the server.
        n_prompt_tokens: that it was sent.
        redoes_rounds: whether the target may redo a round, which then emits a token more; True
            where that is not known.
    """
    return GenerationResult(
        tokens=done.tokens,
        text=done.text,
        n_prompt_tokens=n_prompt_tokens,
        prompt_s=done.prompt_s,
        decode_s=done.predicted_s,
        native_s=None,
        counters=_counters(done, redoes_rounds=redoes_rounds),
        stop=_STOPS.get(done.stop, Stop.LENGTH),
    )


def _counters(done: Completion, *, redoes_rounds: bool) -> Counters:
    """Counts, and the number of rounds where it follows from them.

    A round emits what it accepted and one token more. A text that ends of itself may end inside a
    draft, whose accepted tokens are counted all the same.
    """
    n_rounds = len(done.tokens) - 1 - done.n_accepted
    is_known = done.n_drafted == 0 or (done.stop == "limit" and not redoes_rounds)
    if not is_known or n_rounds < 0:
        return Counters(n_drafted=done.n_drafted, n_accepted=done.n_accepted, detail=Detail.TOTALS)
    return Counters(
        n_rounds=n_rounds,
        n_drafted=done.n_drafted,
        n_accepted=done.n_accepted,
        detail=Detail.N_ROUNDS,
    )
