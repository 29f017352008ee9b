"""Measurement of a running server as it is, without a comparison."""

from collections.abc import Callable
from dataclasses import dataclass, field

from spectui.engine.events import GenerationResult
from spectui.errors import BadInputError, CancelledError, ServerError
from spectui.speculative.counters import Counters
from spectui.tune.measurement import Measurer, throughput, total_counters
from spectui.tune.workload import WorkItem, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """One continued prompt."""

    item: WorkItem
    result: GenerationResult


@dataclass(frozen=True, slots=True, kw_only=True)
class AloneResult:
    """Measurement of the target alone."""

    done: tuple[Done, ...]
    ended: BaseException | None = field(default=None, compare=False)
    """Reason for an early end."""

    @property
    def tokens_per_s(self) -> float | None:
        """Throughput over all prompts together."""
        return throughput([one.result for one in self.done])

    @property
    def counters(self) -> Counters:
        """Counters of all prompts together."""
        return total_counters([one.result for one in self.done])


def run_alone(
    workload: Workload, measurer: Measurer, *, repeats: int, on_done: Callable[[Done], None]
) -> AloneResult:
    """Continue every prompt ``repeats`` times.

    An interrupt after the first prompt, or a server that fails, ends it early, with what was
    measured.

    Raises:
        BadInputError: no prompt made it decode anything.
    """
    done: list[Done] = []
    ended: BaseException | None = None
    try:
        for item in workload.items * repeats:
            done.append(Done(item=item, result=measurer.decode(item, None)))
            on_done(done[-1])
    except (KeyboardInterrupt, CancelledError, ServerError) as error:
        if not done:
            raise
        ended = error
    if ended is None and not any(one.result.n_decoded for one in done):
        raise BadInputError(
            "the model ended every answer at once, so there is no decoding to measure; "
            "use other prompts or --ignore-eos"
        )
    return AloneResult(done=tuple(done), ended=ended)
