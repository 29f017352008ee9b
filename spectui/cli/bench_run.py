"""Steps of ``bench`` that all backends share: vary the prompts, measure, report."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from spectui.cli.bench_report import Benched, Telling, summary, table
from spectui.cli.documents.base import Json
from spectui.cli.documents.bench import bench_document, benches_document, without_counts
from spectui.cli.output import write_result
from spectui.cli.progress import Progress
from spectui.errors import CancelledError, HopelessError, SpectuiError, UsageError
from spectui.measure.backend import Backend
from spectui.measure.comparison import compare
from spectui.measure.measurer import Measurer
from spectui.measure.workload import Workload, with_length
from spectui.monitor.machine import Machine, this_machine
from spectui.options.setup import Schedule
from spectui.options.speculation import Speculation

REMEMBERS = (
    "llama-server's n-gram drafters remember earlier requests, so that later prompts may draft "
    "from what was generated before"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kinds:
    """Temperatures, prompt lengths and repeats to measure."""

    temps: Sequence[float]
    lengths: Sequence[int]
    """Lengths of prompts in tokens; empty for unchanged prompts."""
    repeats: int

    @property
    def n(self) -> int:
        """Number of combinations of temperature and length."""
        return len(self.temps) * max(1, len(self.lengths))

    def of(self, workload: Workload, n_ctx: int, *, remedy: str = "raise -c") -> list[Workload]:
        """The prompts with every temperature and length.

        Args:
            workload: the prompts with the first of them.
            n_ctx: tokens that there is room for.
            remedy: advice for prompts that do not fit.

        Raises:
            UsageError: a length does not fit.
        """
        return [
            _varied(workload, temp, length, n_ctx=n_ctx, remedy=remedy)
            for temp, length in product(self.temps, self.lengths or (None,))
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchRun:
    """Results of a benchmark and the configuration that they belong to."""

    speculation: Speculation
    schedule: Schedule
    target: Json
    draft: Json
    backend: Json
    config: Json = field(default_factory=dict)
    """Fields that replace those of the setting in the document."""
    alteration: str | None
    """How the target was altered, in a sentence; None if it was not."""
    found: Sequence[Benched]
    is_sweep: bool
    """Whether several temperatures or lengths were asked for."""
    notes: tuple[str, ...] = ()
    """Further remarks."""
    telling: Telling = field(default_factory=Telling)


def _varied(
    workload: Workload, temp: float, length: int | None, *, n_ctx: int, remedy: str
) -> Workload:
    workload = replace(workload, sampling=replace(workload.sampling, temp=temp))
    if length is None:
        return workload
    if length + workload.n_predict + 1 > n_ctx:
        raise UsageError(
            f"--prompt-length {length} and {workload.n_predict} tokens to predict do not fit in a "
            f"context of {n_ctx}; {remedy}"
        )
    return with_length(workload, length)


def measure(
    decoding: Backend,
    workloads: Sequence[Workload],
    speculation: Speculation,
    schedule: Schedule,
    progress: Progress,
    *,
    repeats: int,
) -> tuple[list[Benched], BaseException | None]:
    """Return the measurements, and the error that ended them early if there are any by then."""
    found: list[Benched] = []
    for workload in workloads:
        try:
            result = compare(
                decoding,
                workload,
                Measurer(decoding, workload, schedule),
                speculation,
                repeats=repeats,
                on_pair=progress.on_pair,
            )
        except (KeyboardInterrupt, SpectuiError) as error:
            if not found or isinstance(error, HopelessError):
                raise
            return found, error
        found.append(Benched(workload=workload, result=result))
        if result.ended is not None:
            return found, result.ended
    return found, None


def report(run: BenchRun, json_path: str | None) -> None:
    """Print the results and write the document."""
    machine = this_machine()
    documents = [_document(run, one, machine) for one in run.found]
    if run.is_sweep:
        document, text = benches_document(documents, machine), table(run.found, run.telling)
    else:
        text = summary(run.found[0].result, run.alteration, run.telling)
        document = documents[0]
    text = "\n".join((text, *(f"NOTE: {note}." for note in run.notes)))
    write_result(document, text, json_path)


def _document(run: BenchRun, one: Benched, machine: Machine) -> Json:
    found = bench_document(
        one.result,
        machine=machine,
        target=run.target,
        draft=run.draft,
        workload=one.workload,
        speculation=run.speculation,
        schedule=run.schedule,
    )
    if run.telling.untold is not None:
        found = without_counts(found, run.telling.untold)
    config = {**found["config"], **run.config}
    return {**found, "config": config, **run.backend, "notes": list(run.notes)}


def raise_ended(found: Sequence[Benched], ended: BaseException | None) -> None:
    """Raise the error that ended the measurement, once the results are printed.

    Raises:
        CancelledError: the measurement was interrupted.
    """
    if isinstance(ended, KeyboardInterrupt | CancelledError):
        n_pairs = sum(len(one.result.pairs) for one in found)
        raise CancelledError(
            f"interrupted after {n_pairs} measurements, which are shown above; "
            "run the command again for all"
        )
    if ended is not None:
        raise ended
