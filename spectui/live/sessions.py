"""Sessions of the interactive screen, written line by line as they happen, and read back.

A session is a file of JSON lines in the user's data folder: a header, then what happened. A kill
at any moment costs at most the line that was being written.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from io import FileIO
from itertools import chain, count
from pathlib import Path
from typing import Literal

import msgspec

from spectui.errors import BadInputError
from spectui.files import LARGE_BYTES, append, open_private, read_file, unreadable
from spectui.options.setup import ContextOptions, ModelOptions, SamplingConfig
from spectui.options.speculation import Speculation
from spectui.options.stored import check_schema, schema_of, speculation_from_flat
from spectui.paths import data_dir, ensure_dir

_SCHEMA: Literal["spectui.session/1"] = "spectui.session/1"
_STAMP = "%Y%m%dT%H%M%S"
"""When a session began, as the name of its file begins."""


class LoadOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options with which the models of a session were loaded."""

    target: ModelOptions
    draft: ModelOptions | None
    context: ContextOptions
    extra: tuple[str, ...]
    """Arguments of the user's own command that spectui does not know."""
    sampling: SamplingConfig | None = None
    """How tokens were chosen as the session began; None in files of earlier versions."""


class Header(msgspec.Struct, frozen=True, kw_only=True, tag="session", tag_field="kind"):
    """The first line: which pair, under which options."""

    schema: Literal["spectui.session/1"] = _SCHEMA
    started: datetime
    target: str
    draft: str | None
    load: LoadOptions | None = None
    """None in files of earlier versions."""


class UserTurn(msgspec.Struct, frozen=True, kw_only=True, tag="user", tag_field="kind"):
    """A message of the user."""

    text: str


class AnswerPart(msgspec.Struct, frozen=True, kw_only=True, tag="answer", tag_field="kind"):
    """A piece of the model's answer; consecutive parts are one answer."""

    text: str
    drafted: tuple[tuple[int, int], ...]
    """(start, end) of the parts of ``text`` that the draft produced, in characters."""


class AnswerEnd(msgspec.Struct, frozen=True, kw_only=True, tag="end", tag_field="kind"):
    """The answer is complete, or was stopped."""

    note: str
    """Note as it stands below the answer."""
    n_decoded: int | None = None
    """Tokens that ``decode_s`` paid for, None where the answer failed."""
    decode_s: float | None = None


class SettingsChange(msgspec.Struct, frozen=True, kw_only=True, tag="settings", tag_field="kind"):
    """Change of the drafting settings from here on."""

    speculation: Speculation | None
    """None for off."""


Entry = UserTurn | AnswerPart | AnswerEnd | SettingsChange
_Line = Header | Entry


def _read_path(kind: type, value: object) -> object:
    return Path(str(value)) if kind is Path else value


_encoder = msgspec.json.Encoder(enc_hook=str)


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """A stored session."""

    path: Path
    header: Header
    entries: tuple[Entry, ...]

    @property
    def prompts(self) -> tuple[str, ...]:
        """Messages of the user, oldest first."""
        return tuple(entry.text for entry in self.entries if isinstance(entry, UserTurn))

    @property
    def settings(self) -> SettingsChange | None:
        """The last settings; None where none were stored."""
        found = [entry for entry in self.entries if isinstance(entry, SettingsChange)]
        return found[-1] if found else None


class SessionLog:
    """Writes one session. Nothing is written before its first entry."""

    def __init__(self, header: Header, folder: Path | None = None) -> None:
        """Prepare a file in ``folder``, by default the user's."""
        self._header = header
        self._folder = folder or sessions_folder()
        self._file: FileIO | None = None
        self.path: Path | None = None

    def append(self, entry: Entry) -> None:
        """Write ``entry`` at once.

        Raises:
            BadInputError: the folder or the file cannot be written.
        """
        line = _encoder.encode(entry) + b"\n"
        try:
            file = self._open()
            if not os.fstat(file.fileno()).st_size:
                line = _encoder.encode(self._header) + b"\n" + line
            append(file, line)
        except OSError as error:
            raise BadInputError(
                f"the session cannot be stored in {self._folder} ({error.strerror}); make room "
                "there, or set keep_sessions = false"
            ) from error

    def _open(self) -> FileIO:
        if self._file is None:
            ensure_dir(self._folder)
            self.path, descriptor = self._new_file()
            # Without a buffer, of which closing would write again what has no room.
            self._file = FileIO(descriptor, "ab")
        return self._file

    def _new_file(self) -> tuple[Path, int]:
        """A file of this session alone: containers share process ids, and clocks are set back."""
        stem = f"{self._header.started:{_STAMP}}-{os.getpid()}"
        for name in chain((stem,), (f"{stem}-{n}" for n in count(2))):
            path = self._folder / f"{name}.jsonl"
            with suppress(FileExistsError):
                return path, open_private(path, os.O_WRONLY | os.O_APPEND | os.O_EXCL)
        raise AssertionError

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            # ``append`` has reported what had no room.
            with suppress(OSError):
                self._file.close()
            self._file = None


def sessions_folder() -> Path:
    """Folder in which sessions are stored."""
    return data_dir() / "sessions"


def read_session(path: Path) -> Session:
    """Read one session; a last line that was cut off is left out.

    Raises:
        BadInputError: unreadable, of a newer spectui, or no session.
    """
    try:
        first, *lines = read_file(path, LARGE_BYTES).splitlines()
        kept = msgspec.json.decode(first)
        if (schema := schema_of(kept)) is not None:
            check_schema(schema, _SCHEMA, str(path), what="session", advice="delete it")
        header = msgspec.convert(kept, Header, dec_hook=_read_path)
    except OSError as error:
        raise unreadable(path, error, "choose another session") from error
    except (ValueError, msgspec.MsgspecError, RecursionError) as error:
        raise BadInputError(f"{path} is no session of spectui's ({error}); delete it") from error
    return Session(path=path, header=header, entries=tuple(_entries(lines)))


def _entries(lines: list[bytes]) -> Iterator[Entry]:
    for line in lines:
        try:
            entry = _decode(line)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            # Cut off by a kill, or damaged: what follows cannot be trusted.
            return
        if not isinstance(entry, Header):
            yield entry


def _decode(line: bytes) -> _Line:
    kept = msgspec.json.decode(line)
    if isinstance(kept, dict) and kept.get("kind") == "settings" and "speculation" not in kept:
        # Earlier versions.
        is_off = kept.get("draft_max") is None
        speculation = None if is_off else speculation_from_flat(kept)
        kept = {"kind": "settings", "speculation": speculation}
    line_of: _Line = msgspec.convert(kept, _Line, dec_hook=_read_path)
    return line_of


def recent_sessions(n: int, folder: Path | None = None) -> tuple[Session, ...]:
    """Return the last ``n`` sessions that can be read, newest first."""
    found: list[Session] = []
    present = f"{now():{_STAMP}}~"
    paths = (folder or sessions_folder()).glob("*.jsonl")
    # A session that a wrong clock dates in the future is not the newest for ever.
    for path in sorted(paths, key=lambda path: (path.name < present, path.name), reverse=True):
        if len(found) == n:
            break
        try:
            found.append(read_session(path))
        except BadInputError:
            # One damaged file must not keep the others from being offered.
            continue
    return tuple(found)


def earlier_prompts(sessions: Sequence[Session]) -> tuple[str, ...]:
    """Return the user's messages in ``sessions``, the newest of which comes first.

    The oldest prompt comes first, and what was said several times stands where it was said last: a
    conversation that is taken up again is stored again, too.
    """
    newest_first = (text for session in sessions for text in reversed(session.prompts))
    return tuple(reversed(dict.fromkeys(newest_first)))


def now() -> datetime:
    """Time of a header."""
    return datetime.now(UTC)
