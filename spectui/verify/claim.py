"""A setting to be verified, with what was promised of it, and by which study. Pure."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from spectui.measure.arm import Arm
from spectui.measure.promise import Case, Promise
from spectui.prompts import Prompt


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
class Claim:
    """The promise of a study, and the prompts to hold it against."""

    promise: Promise
    prompts: tuple[Prompt, ...]
    study: str
    """Name of the study."""
    changed: datetime | None = None
    """End of the study; None while it runs."""
    advice: Advice | None = None
    """None if it has not advised anything."""

    @property
    def case(self) -> Case:
        """The setting, beside off."""
        return self.promise.case

    @property
    def subject(self) -> str:
        """The setting and its study, in a line."""
        case, changed = self.case, self.changed
        draft = case.speculation.own.label if case.draft is None else case.draft.path.stem
        setting = Arm(draft=draft, speculation=case.speculation).label
        when = "" if changed is None else f" ({changed.astimezone():%Y-%m-%d %H:%M})"
        return f"study {self.study}{when}: {setting}{_SAID[self.advice]}"
