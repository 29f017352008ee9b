"""Reads the user's ``config.toml``: look, keys, stored data. Unknown keys are errors."""

from pathlib import Path

import msgspec

from spectui.files import read_toml
from spectui.paths import config_dir


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Contents of ``config.toml``."""

    theme: str = "spectui-dark"
    """A name of the command palette's themes."""
    ascii: bool = False
    """Draw with ASCII characters only."""
    keep_sessions: bool = True
    """Store transcripts, so that they can be taken up again."""
    record_chats: bool = True
    """Let the draft go along every answer, in memory, so that what-if can replay it."""
    monitor_hz: float = 4.0
    """Readings of the machine per second, 0.2 to 10."""
    model_folders: list[str] = []
    """Further folders in which to look for models."""
    keys: dict[str, str] = {}
    """Keys by the id of an action, as the help screen lists them: ``"live.stop" = "escape"``."""

    def __post_init__(self) -> None:
        """Check ranges, which the types do not express.

        Raises:
            ValueError: ``monitor_hz`` is out of range.
        """
        if not _MIN_HZ <= self.monitor_hz <= _MAX_HZ:
            raise ValueError(f"monitor_hz must be {_MIN_HZ} to {_MAX_HZ}")


_MIN_HZ, _MAX_HZ = 0.2, 10.0


def settings_path() -> Path:
    """Path of the user's settings."""
    return config_dir() / "config.toml"


def read_settings() -> Settings:
    """Read the user's settings; defaults where there is no file.

    Raises:
        BadInputError: the file is no TOML, or has unknown keys or invalid values.
    """
    path = settings_path()
    if not path.exists():
        return Settings()
    return read_toml(path, Settings, other="a file that can be read, or delete it", advice=_advice)


def _advice(problem: str) -> str:
    if "unknown field `isolate`" in problem:
        return "the models always have a process of their own; delete the line"
    return "correct it or delete it"
