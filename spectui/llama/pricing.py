"""Price of a batch with one llama.cpp library, in a process that loads that library alone.

The library is half of a verdict: what a batch of drafted tokens costs beside a single one depends
on what of the processor a library was built for.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from spectui.children import Child, ProtocolError, parent_channel
from spectui.documents import Known
from spectui.errors import SpectuiError
from spectui.llama.context import Context
from spectui.llama.library import Library, handed_down
from spectui.llama.model import Model
from spectui.llama.planned import PlanRequest, Refused
from spectui.speculative.models import Outputs

LENGTHS = (1, 4)
"""Tokens of the batches: the target alone, and three drafted tokens beside the bonus token."""
_N_TIMES = 9
_N_PAST = 64
"""Tokens before the first batch."""
_LONGEST_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPrices:
    """Seconds of a batch, each the median of nine."""

    seconds: tuple[float, ...]
    """By ``LENGTHS``."""

    @property
    def verify_cost(self) -> float:
        """V(4): how much longer four tokens take than one."""
        return self.seconds[-1] / self.seconds[0]


def prices(
    libraries: Sequence[Library], request: PlanRequest, say: Callable[[str], None]
) -> Mapping[Library, Known[BatchPrices]]:
    """Measure the libraries in turn, twice, each in a process of its own.

    The model is loaded by one at a time. Of both times the lower price counts: what else runs on
    the machine only adds to it.

    Args:
        libraries: those that can be used.
        request: the target that they load.
        say: is told what goes on.
    """
    found: dict[Library, list[Known[BatchPrices]]] = {one: [] for one in libraries}
    for one in [*libraries, *reversed(libraries)]:
        say(f"timing batches with {one}")
        found[one].append(_price(one, request))
    return {one: _lower(known) for one, known in found.items()}


def _lower(known: Sequence[Known[BatchPrices]]) -> Known[BatchPrices]:
    values = [one.value for one in known if one.value is not None]
    if not values:
        return known[0]
    seconds = tuple(map(min, zip(*(one.seconds for one in values), strict=True)))
    return Known(value=BatchPrices(seconds=seconds))


def _price(library: Library, request: PlanRequest) -> Known[BatchPrices]:
    with Child(__name__, (BatchPrices, Refused), variables=handed_down(library)) as child:
        try:
            child.channel.send(request)
            if not child.channel.poll(_LONGEST_S):
                return Known(value=None, reason=f"no answer within {_LONGEST_S:g} s")
            answer: BatchPrices | Refused = child.channel.receive()
        except (EOFError, OSError, ProtocolError):
            return Known(value=None, reason=f"it ended its process ({child.end()})")
    if isinstance(answer, Refused):
        return Known(value=None, reason=str(answer.error))
    return Known(value=answer)


def _measured(request: PlanRequest) -> BatchPrices:
    with (
        Model(request.target) as model,
        Context(model, request.context, max_outputs=max(LENGTHS)) as decoder,
    ):
        # Any tokens: what a batch costs hardly depends on its text.
        text = [at % model.vocabulary.n_tokens for at in range(_N_PAST)]
        decoder.decode(text, Outputs.LAST)
        taken: dict[int, list[float]] = {length: [] for length in LENGTHS}
        # The first of each is warm-up.
        for _ in range(_N_TIMES + 1):
            for length in LENGTHS:
                before = decoder.native_s
                decoder.decode(text[:length], Outputs.ALL)
                taken[length].append(decoder.native_s - before)
    return BatchPrices(
        seconds=tuple(statistics.median(taken[length][1:]) for length in LENGTHS),
    )


def main() -> None:
    """Answer one request."""
    with parent_channel((PlanRequest,)) as channel, suppress(EOFError):
        request: PlanRequest = channel.receive()
        try:
            channel.send(_measured(request))
        except SpectuiError as error:
            channel.send(Refused(error=error))


if __name__ == "__main__":
    main()
