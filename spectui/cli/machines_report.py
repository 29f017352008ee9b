"""Table of what each machine has measured of a study."""

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from spectui.cli.drawing import drawn
from spectui.format import rate_text, times_text
from spectui.measure.statistics import Speedup
from spectui.tune.studies.machines import MachineResult

_NAME_WIDTH = 8


def machines_table(machines: Sequence[MachineResult]) -> str:
    """A row for each machine of a study and of its groups."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    # Names come first: rich would take their width away for a long setting.
    table.add_column("study", overflow="fold", min_width=_NAME_WIDTH)
    table.add_column("machine", overflow="fold", min_width=_NAME_WIDTH)
    for heading in ("trials", "off tokens/s", "best in its trial"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("best", overflow="fold")
    for row in machines:
        table.add_row(
            Text(row.study),
            Text(row.host),
            str(row.n_trials),
            rate_text(row.off_tokens_per_s),
            "-" if row.speedup is None else _speedup_text(row.speedup),
            Text("-" if row.best is None else row.best.label),
        )
    return drawn(table)


def _speedup_text(speedup: Speedup) -> str:
    """The speedup with its interval; a trial's, which no race has confirmed."""
    if speedup.low is None or speedup.high is None:
        return times_text(speedup.estimate)
    half = (speedup.high - speedup.low) / 2
    return f"{times_text(speedup.estimate)} ±{half:.2f}"
