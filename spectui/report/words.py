"""Words and numbers of reports."""

from spectui.format import times_text
from spectui.measure.arm import Arm
from spectui.report.document import ModelPart

_LABEL = 120


def label_of(arm: Arm | None) -> str:
    """A setting in a label's length."""
    return "unknown setting" if arm is None else short(arm.label)


def short(text: str, most: int = _LABEL) -> str:
    """A text of others in a label's length."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def interval_text(interval: tuple[float, float] | None) -> str:
    """Ends of an interval of speedups, or that there is none."""
    return "no interval" if interval is None else " to ".join(map(times_text, interval))


def file_name(model: ModelPart) -> str:
    """Name of a model's file, without its folder."""
    return short(model.path.replace("\\", "/").rpartition("/")[2])
