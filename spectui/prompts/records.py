"""Reads the JSON values of a file with prompts or chats, and messages in several spellings.

Requests of OpenAI's interface, alone, in a batch or in a log, and ShareGPT's conversations.
"""

import codecs
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from spectui.errors import BadInputError

Json = dict[str, Any]
CONVERSATIONS = ("messages", "conversations", "conversation")
"""Keys of lists of messages."""
INSTRUCTING = ("system", "developer")
"""Roles of instructions, which llama-server treats alike."""
ROLES = (*INSTRUCTING, "user", "assistant", "tool")
_SPELLINGS = {"human": "user", **dict.fromkeys(("gpt", "bing", "chatgpt"), "assistant")}
_TEXTS = frozenset({"text", "input_text", "output_text"})
"""Types of content parts that are text."""
_ONE_VALUE = re.compile(r"\s*(?:\[|\{[ \t\r]*\n)")
"""Beginning of a file that is one value, not one on each line."""
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class Record(NamedTuple):
    """One value of a file."""

    where: str
    """File and line, or file and item of its array."""
    number: int
    """Number of that line or item."""
    value: object


def decoded(data: bytes, file: Path) -> str:
    """Text of a file in UTF-8, or in UTF-16 behind its mark.

    Raises:
        BadInputError: it is neither.
    """
    name = "UTF-16" if data.startswith(_UTF16) else "UTF-8"
    try:
        return data.decode("utf-16" if name == "UTF-16" else "utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise BadInputError(
            f"{file}:{line}: not {name} ({error.reason}); save it as UTF-8"
        ) from error


def read_records(text: str, file: Path, remedy: str = "mend or drop the line") -> Iterator[Record]:
    """Values of a JSON array, of the lines of JSONL, or the only one of the file.

    Args:
        text: content of the file.
        file: its path.
        remedy: what to do where it is no JSON.

    Raises:
        BadInputError: a value is no JSON.
    """
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        if _ONE_VALUE.match(text):
            _parsed(text, file, 1, remedy)
        # Not str.splitlines: JSON strings may contain the other line separators of Unicode.
        for number, line in enumerate(text.split("\n"), start=1):
            if line.strip():
                yield Record(f"{file}:{number}", number, _parsed(line, file, number, remedy))
        return
    if isinstance(whole, list):
        for number, one in enumerate(whole, start=1):
            yield Record(f"{file}, item {number}", number, one)
    else:
        number = text.count("\n", 0, len(text) - len(text.lstrip())) + 1
        yield Record(f"{file}:{number}", number, whole)


def _parsed(text: str, file: Path, line: int, remedy: str) -> object:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        where = f"{file}:{line + error.lineno - 1}"
        raise BadInputError(
            f"{where}: invalid JSON ({error.msg}: column {error.colno}); {remedy}"
        ) from error
    except (ValueError, RecursionError) as error:
        raise BadInputError(
            f"{file}:{line}: invalid JSON (nested too deeply, or a number too long); {remedy}"
        ) from error


def unwrapped(record: Json, *names: str) -> Json:
    """Value of a record under ``names``, each below the one before, as far as they are there."""
    for name in names:
        inner = record.get(name)
        record = inner if isinstance(inner, dict) else record
    return record


def rows_of(request: Json) -> list[Any] | None:
    """The messages of a request; None without any."""
    return next((request[one] for one in CONVERSATIONS if isinstance(request.get(one), list)), None)


def role_of(message: Mapping[str, Any]) -> object:
    """One of ``ROLES``, or any other value of the field."""
    name = message.get("role", message.get("from"))
    return _SPELLINGS.get(name, name) if isinstance(name, str) else name


def text_of(message: Mapping[str, Any]) -> str:
    """Text of a message, its parts joined as llama-server joins them."""
    content = message.get("content", message.get("value")) or ""
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text") or "" for part in content)


def beyond_text(message: Mapping[str, Any]) -> str | None:
    """Content of a message besides text; None for nothing."""
    if any(message.get(name) for name in ("tool_calls", "toolCalls", "function_call")):
        return "tools"
    content = message.get("content")
    kinds = {part.get("type") for part in content} if isinstance(content, list) else set()
    return "images or files" if kinds - _TEXTS else None
