"""The prompts that measurements run on: the user's own files, or the built-in suite.

They are read from ``.jsonl`` and ``.txt`` files; what is wrong is named by file and line.
"""

import codecs
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import NamedTuple

from msgspec import UNSET, DecodeError, Struct, UnsetType, ValidationError
from msgspec.json import Decoder

from spectui.errors import BadInputError
from spectui.reading import LARGE_BYTES, read_file


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatMessage:
    """One turn of a conversation."""

    role: str
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """One input of a measurement: raw text, or messages for the model's chat template.

    Raises:
        ValueError: not exactly one of ``text`` and ``messages`` is given.
    """

    id: str
    category: str
    text: str | None = None
    """Fed to the model as it stands."""
    messages: tuple[ChatMessage, ...] = ()

    def __post_init__(self) -> None:
        if (self.text is None) == (not self.messages):
            raise ValueError(f"prompt {self.id!r} needs exactly one of text and messages")


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweredPrompt(Prompt):
    """A prompt of a chat, with the answer that is there already."""

    answer: str
    name: str
    """What the answer is called on screen."""
    model: str | None
    """Name of the model that wrote it, where the export has one."""


ROLES = ("system", "user", "assistant", "tool")
DEFAULT_CATEGORY = "user"
_ESCAPED = re.compile(r"\\u[dD][89a-fA-F]")
LINE_FORM = (
    'write one JSON object per line, {"id": ..., "category": ..., "prompt": ...} '
    'or {"id": ..., "category": ..., "messages": [{"role": ..., "content": ...}]}'
)


def decode_line(line: str, *, where: str, default_id: str) -> Prompt:
    """Return the prompt that ``line`` describes; ``where`` names the line in errors.

    Raises:
        BadInputError: the line is not a prompt.
    """
    try:
        fields = _DECODER.decode(line)
    except ValidationError as error:
        reason = str(error)
        raise BadInputError(f"{where}: {reason[0].lower()}{reason[1:]}; {LINE_FORM}") from error
    except DecodeError as error:
        reason = _HALF_PAIR if _has_half_pair(line) else str(error)
        raise BadInputError(f"{where}: invalid JSON ({reason}); {LINE_FORM}") from error
    if problem := _problem(fields):
        raise BadInputError(f"{where}: {problem}")
    return _to_prompt(fields, default_id)


_HALF_PAIR = r"a \ud800 to \udfff without its other half is no character"


def _has_half_pair(line: str) -> bool:
    """Whether that is what is wrong: msgspec takes such an escape for the end of the line."""
    if not _ESCAPED.search(line):
        return False
    try:
        text = json.dumps(json.loads(line), ensure_ascii=False)
    except (ValueError, RecursionError):
        return False
    return any("\ud800" <= character <= "\udfff" for character in text)


class _MessageFields(Struct, forbid_unknown_fields=True):
    role: str
    content: str


class _LineFields(Struct, forbid_unknown_fields=True):
    # UNSET rather than None: a null in the file is a wrong type, not a missing key.
    id: str | UnsetType = UNSET
    category: str | UnsetType = UNSET
    prompt: str | UnsetType = UNSET
    messages: list[_MessageFields] | UnsetType = UNSET


_DECODER = Decoder(_LineFields)


def _problem(fields: _LineFields) -> str | None:
    if "" in (fields.id, fields.category):
        return "id or category is empty; fill it in or leave it out"
    if fields.prompt is not UNSET and fields.messages is not UNSET:
        return "both prompt and messages are given; keep one of them"
    if fields.messages is not UNSET:
        return _messages_problem(fields.messages)
    if fields.prompt is UNSET:
        return f"neither prompt nor messages is given; {LINE_FORM}"
    return None if fields.prompt.strip() else "the prompt is empty; write its text or drop the line"


def _messages_problem(messages: list[_MessageFields]) -> str | None:
    if not messages:
        return "messages is empty; write at least one message or drop the line"
    for number, message in enumerate(messages, start=1):
        if message.role not in ROLES:
            return f"unknown role {message.role!r} in message {number}; use {', '.join(ROLES)}"
        if not message.content.strip():
            return f"message {number} is empty; write its content or drop the message"
    return None


def _to_prompt(fields: _LineFields, default_id: str) -> Prompt:
    messages = () if fields.messages is UNSET else fields.messages
    return Prompt(
        id=default_id if fields.id is UNSET else fields.id,
        category=DEFAULT_CATEGORY if fields.category is UNSET else fields.category,
        text=None if fields.prompt is UNSET else fields.prompt,
        messages=tuple(ChatMessage(role=m.role, content=m.content) for m in messages),
    )


_SUFFIXES = (".jsonl", ".txt")


def builtin_suite() -> tuple[Prompt, ...]:
    """Return the suite that comes with spectui.

    Its categories take turns, so that the first N prompts cover as many of them as N allows.
    """
    data = resources.files("spectui.prompts").joinpath("suite.jsonl").read_bytes()
    return _collect(_parse_jsonl(data, Path("suite.jsonl")))


def load_prompts(path: Path) -> tuple[Prompt, ...]:
    """Return the prompts of a ``.jsonl``, of a ``.txt``, or of a folder of them, sorted by name.

    Raises:
        BadInputError: there is nothing to read, or a line is bad; then no prompt is returned.
    """
    try:
        prompts = _collect(item for file in _prompt_files(path) for item in _parse_file(file))
    except OSError as error:
        raise BadInputError(
            f"cannot read the prompts in {error.filename or path} ({error.strerror}); "
            "check the path and its permissions"
        ) from error
    if not prompts:
        raise BadInputError(f"{path} contains no prompts; {LINE_FORM}")
    return prompts


class _Located(NamedTuple):
    where: str
    prompt: Prompt


def _prompt_files(path: Path) -> list[Path]:
    path.stat()  # a missing path is told as such, whatever its suffix
    if path.is_dir():
        # Folders only are left out, so that a dangling link is an error, not a lost prompt.
        files = [file for file in path.iterdir() if _has_suffix(file) and not file.is_dir()]
        if not files:
            raise BadInputError(f"{path} holds no .jsonl or .txt file; put prompts into it")
        return sorted(files)
    if not _has_suffix(path):
        raise BadInputError(
            f"{path} is not a prompt file; give a .jsonl, a .txt, or a folder of them"
        )
    return [path]


def _has_suffix(file: Path) -> bool:
    return file.suffix.lower() in _SUFFIXES


def _collect(items: Iterable[_Located]) -> tuple[Prompt, ...]:
    seen: dict[str, _Located] = {}
    for item in items:
        first = seen.setdefault(item.prompt.id, item)
        if first is not item:
            raise BadInputError(
                f"{item.where}: duplicate id {item.prompt.id!r}, used before in {first.where}; "
                "give every prompt an id of its own"
            )
    return tuple(item.prompt for item in seen.values())


def _parse_file(file: Path) -> Iterator[_Located]:
    data = read_file(file, LARGE_BYTES)
    return _parse_jsonl(data, file) if file.suffix.lower() == ".jsonl" else _parse_txt(data, file)


def _parse_txt(data: bytes, file: Path) -> Iterator[_Located]:
    # Line by line, so that bytes that are not UTF-8 are reported with their line.
    lines = data.removeprefix(codecs.BOM_UTF8).splitlines(keepends=True)
    text = "".join(_decode_utf8(line, f"{file}:{n}") for n, line in enumerate(lines, start=1))
    where = f"{file}:1"
    if not text.strip():
        raise BadInputError(f"{where}: the prompt is empty; write it into the file")
    yield _Located(where, Prompt(id=file.stem, category=DEFAULT_CATEGORY, text=text))


def _parse_jsonl(data: bytes, file: Path) -> Iterator[_Located]:
    # Not str.splitlines: JSON strings may contain the other line separators of Unicode.
    lines = data.removeprefix(codecs.BOM_UTF8).split(b"\n")
    for number, line in enumerate(lines, start=1):
        if line.strip():
            where = f"{file}:{number}"
            text, default_id = _decode_utf8(line, where), f"{file.stem}-{number}"
            yield _Located(where, decode_line(text, where=where, default_id=default_id))


def _decode_utf8(line: bytes, where: str) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise BadInputError(f"{where}: not UTF-8 ({error.reason}); save it as UTF-8") from error
