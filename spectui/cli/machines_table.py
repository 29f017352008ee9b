"""The table of the machines that share a study."""

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from spectui.cli.drawing import drawn
from spectui.format import rate_text
from spectui.tune.studies.machines import MachineResult
from spectui.verify.comparison import gain_text


def machine_lines(machines: Sequence[MachineResult]) -> list[str]:
    """The table, with an empty line behind it; nothing for one machine."""
    if not machines:
        return []
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("machine", "placement"):
        table.add_column(heading, overflow="fold", min_width=len(heading))
    table.add_column("off", justify="right", no_wrap=True)
    table.add_column("best setting", overflow="fold", min_width=len("best setting"))
    table.add_column("tokens/s", justify="right", no_wrap=True)
    table.add_column("gain", no_wrap=True)
    table.add_column("date", no_wrap=True)
    table.add_column("study", overflow="fold", min_width=len("study"))
    for one in machines:
        table.add_row(
            Text(one.machine or "-"),
            Text(one.placement or "-"),
            rate_text(one.off_tokens_per_s),
            Text(one.best or "none confirmed"),
            rate_text(one.tokens_per_s),
            "-" if one.speedup is None else gain_text(one.speedup),
            f"{one.ended.astimezone():%Y-%m-%d}",
            Text(one.study),
        )
    return [drawn(table), ""]
