"""The report as one row of a table that many people share: facts alone, nothing private."""

from dataclasses import replace
from pathlib import PurePath

from spectui.commands.launch import placement_text
from spectui.format import rate_text
from spectui.models.files import quantisation
from spectui.report.commands import public
from spectui.report.content import Content
from spectui.report.markdown import escaped
from spectui.report.summary import head_of
from spectui.report.words import file_name, interval_text, label_of, short

_UNKNOWN = "–"


def render_row(content: Content) -> str:
    """Render the row, below the lines of the table's head."""
    cells = _cells(content)
    lines = (
        list(cells),
        ["---"] * len(cells),
        [escaped(one or _UNKNOWN) for one in cells.values()],
    )
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _cells(content: Content) -> dict[str, str | None]:
    """Cells by the head of their column; None for what the study does not keep."""
    document, gain = content.document, content.gain
    used = None if content.best is None else content.best.draft
    draft = next((one for one in document.drafts or () if used and one.name == used), None)
    names = [file_name(one) for one in (document.target, draft) if one is not None]
    quants = [quantisation(PurePath(name).stem) or _UNKNOWN for name in names]
    off, on = content.rates or (None, None)
    interval = None if gain is None else interval_text(gain.interval)
    return {
        "GPU": _hardware(content),
        "model": " + ".join(names) or None,
        "quant": " + ".join(quants) or None,
        "placement": _placement(content),
        "off, tokens/s": rate_text(off),
        "on, tokens/s": rate_text(on),
        "speedup (95 %)": None if gain is None else f"{head_of(content).gain} ({interval})",
        "setting": None if content.best is None else label_of(content.best),
    }


def _hardware(content: Content) -> str | None:
    """The GPUs; the processor where there are none."""
    machine = content.document.machine
    if machine is None:
        return None
    return ", ".join(map(short, machine.gpus[:8] or (f"none: {machine.cpu}",)))


def _placement(content: Content) -> str | None:
    """llama-server's options for where the target lies; None where they are its defaults."""
    outcome = content.source.outcome
    if outcome is None:
        return None
    return short(placement_text(replace(outcome, target=public(outcome.target)))) or None
