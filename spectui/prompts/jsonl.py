"""One line of a prompts file: decoding, defaults, and what can be wrong with it."""

import json
import re

from msgspec import UNSET, DecodeError, Struct, UnsetType, ValidationError
from msgspec.json import Decoder

from spectui.errors import BadInputError
from spectui.prompts.prompt import ChatMessage, Prompt

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
