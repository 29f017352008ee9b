"""The report as one row of a table that many people share: facts alone, nothing private."""

from pathlib import PurePath

from spectui.models.files import quantisation
from spectui.report.content import Content
from spectui.report.document import ModelPart
from spectui.report.markdown import escaped
from spectui.report.summary import speedup_text
from spectui.report.words import file_name, interval_text, short, temperature_text

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
    found = content.document
    models = [one for one in (found.target, _draft(content)) if one is not None]
    return {
        "models": " + ".join(map(file_name, models)) or None,
        "quantisation": " + ".join(map(_quantisation, models)) or None,
        "machine": _machine(content),
        "setting": None if content.setting is None else short(content.setting),
        "speedup (95 %)": _gain(content),
        "prompts": _prompts(content),
        "sampling": None if found.config is None else temperature_text(found.config.temp),
        "versions": _versions(content),
        "date": None if content.ended is None else f"{content.ended:%Y-%m-%d}",
    }


def _draft(content: Content) -> ModelPart | None:
    used = None if content.best is None else content.best.draft
    drafts = content.document.drafts or ()
    return next((one for one in drafts if used is not None and one.name == used), None)


def _quantisation(model: ModelPart) -> str:
    return quantisation(PurePath(file_name(model)).stem) or _UNKNOWN


def _machine(content: Content) -> str | None:
    machine = content.document.machine
    if machine is None:
        return None
    return ", ".join(map(short, (f"{machine.cpu} ({machine.n_cores} cores)", *machine.gpus[:8])))


def _gain(content: Content) -> str | None:
    gain = content.gain
    if gain is None:
        return None
    return f"{speedup_text(content)} ({interval_text(gain.low, gain.high)})"


def _prompts(content: Content) -> str | None:
    gain, promise, config = content.gain, content.source.promise, content.document.config
    if gain is None:
        return None
    told = str(gain.n_prompts)
    if promise is not None:
        told += " of a chat" if promise.is_chat else " own" if promise.prompts else " of the suite"
    return told if config is None else f"{told}, {config.n_predict} tokens each"


def _versions(content: Content) -> str | None:
    found = content.document
    told = [] if found.spectui is None else [f"spectui {found.spectui}"]
    if found.server is not None:
        told.append(f"llama-server {found.server.version or ''}".strip())
    elif found.engine is not None:
        told.append(f"llama.cpp {found.engine.llama_cpp}")
    return ", ".join(map(short, told)) or None
