"""Describes in a line what is verified: the setting and its study. Pure."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from spectui.measure.arm import Arm
from spectui.measure.promise import Case


class Advice(StrEnum):
    """A study's advice on the setting that it confirmed."""

    USE = "use it"
    OFF = "leave speculation off"
    OTHER = "another setting"


_SAID = {
    None: "",
    Advice.USE: ", which it advised",
    Advice.OFF: (
        ". It advised to leave speculation off: this is the best that it measured, and what it "
        "measured of it stands for the promise"
    ),
    Advice.OTHER: ". It advised another setting: this is the one that it measured best",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The study that made a promise."""

    study: str
    changed: datetime | None = None
    """End of the study; None while it runs."""
    advice: Advice | None = None
    """None if it has not advised anything."""


def subject(case: Case, origin: Origin | None) -> str:
    """Describe what is verified."""
    if origin is None:
        return f"setting: {setting_text(case)}"
    when = "" if origin.changed is None else f" ({origin.changed.astimezone():%Y-%m-%d %H:%M})"
    return f"study {origin.study}{when}: {setting_text(case)}{_SAID[origin.advice]}"


def setting_text(case: Case) -> str:
    """Name the drafter and its setting."""
    draft = case.speculation.own.label if case.draft is None else case.draft.path.stem
    return Arm(draft=draft, speculation=case.speculation).label
