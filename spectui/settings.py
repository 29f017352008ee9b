"""The user's ``config.toml``: look, keys, what is kept. Unknown keys are errors."""

from pathlib import Path

import msgspec

from spectui.errors import BadInputError
from spectui.files import SMALL_BYTES, read_file
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
        """Check what the types do not tell."""
        if not _MIN_HZ <= self.monitor_hz <= _MAX_HZ:
            raise ValueError(f"monitor_hz must be {_MIN_HZ} to {_MAX_HZ}")


_MIN_HZ, _MAX_HZ = 0.2, 10.0


def settings_path() -> Path:
    """Path of the user's settings."""
    return config_dir() / "config.toml"


def read_settings() -> Settings:
    """Read the user's settings; defaults where there is no file.

    Raises:
        BadInputError: the file is no TOML, or says something that there is not.
    """
    path = settings_path()
    return _decoded(path, _content(path))


def _content(path: Path) -> bytes:
    try:
        return read_file(path, SMALL_BYTES)
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise BadInputError(
            f"{path} cannot be read ({error.strerror}); make it readable or delete it"
        ) from error


def _decoded(path: Path, content: bytes) -> Settings:
    try:
        return msgspec.toml.decode(content, type=Settings)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        if "unknown field `isolate`" in str(error):
            reason = "isolate is gone, as the models always have a process of their own"
            raise BadInputError(f"{path}: {reason}; delete the line") from error
        raise BadInputError(f"{path}: {error}; correct it or delete it") from error
