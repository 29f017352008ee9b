"""Report of ``spectui bench --server-url`` on a single server."""

from collections.abc import Sequence
from dataclasses import dataclass

from spectui.cli.documents.base import Json
from spectui.cli.documents.bench import benches_document, without_counts
from spectui.cli.documents.running import NO_BASELINE, alone_document
from spectui.cli.drawing import wrapped
from spectui.cli.output import write_result
from spectui.format import percent_text
from spectui.measure.comparison import AloneResult
from spectui.measure.workload import Workload
from spectui.monitor.machine import this_machine
from spectui.server.watch.sample import ServerFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class AloneRun:
    """Results of a single server."""

    facts: ServerFacts
    backend: Json
    found: Sequence[tuple[Workload, AloneResult]]
    is_sweep: bool
    """Whether several temperatures or lengths were asked for."""
    untold: str | None
    """Reason why the number of drafted tokens is unknown; None if it is known."""

    @property
    def ended(self) -> BaseException | None:
        """The error that ended the measurement early; None if it completed."""
        return self.found[-1][1].ended


def report_alone(run: AloneRun, json_path: str | None) -> None:
    """Print the results and write the document."""
    machine = this_machine()
    documents = [
        alone_document(result, workload, run.facts, run.backend, machine)
        for workload, result in run.found
    ]
    if run.untold is not None:
        documents = [without_counts(one, run.untold) for one in documents]
    lines: list[str] = []
    for workload, result in run.found:
        if run.is_sweep:
            lines.append(_heading(workload))
        lines += _summary(result, run.untold)
    lines += ["", wrapped(f"No speedup: {NO_BASELINE}.")]
    document = benches_document(documents, machine) if run.is_sweep else documents[0]
    write_result(document, "\n".join(lines), json_path)


def _heading(workload: Workload) -> str:
    length = workload.prompt_length
    prompts = "" if length is None else f", prompts of {length} tokens"
    return f"temp {workload.sampling.temp:g}{prompts}"


def _summary(result: AloneResult, untold: str | None) -> list[str]:
    counters = result.counters
    rate = counters.acceptance_rate
    drafted = (
        "nothing was drafted"
        if rate is None
        else f"{percent_text(rate, 1)} ({counters.n_accepted} of {counters.n_drafted})"
    )
    speed = result.tokens_per_s
    return [
        f"speed       {'–' if speed is None else f'{speed:.2f}'} tokens/s",
        f"acceptance  {untold or drafted}",
    ]
