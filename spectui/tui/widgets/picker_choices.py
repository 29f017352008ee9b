"""What the picker offers and what was chosen."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentPair:
    """A pair of an earlier session."""

    target: Path
    draft: Path | None
    when: datetime
    n_turns: int
    said: str = ""
    """First line of the chat."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairChoice:
    """Two files; without a draft the target runs alone."""

    target: Path
    draft: Path | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PresetChoice:
    """A preset by its name."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoChoice:
    """The demo models, to be built if they are not there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentChoice:
    """A pair of an earlier session."""

    recent: RecentPair


Choice = PairChoice | PresetChoice | DemoChoice | RecentChoice
