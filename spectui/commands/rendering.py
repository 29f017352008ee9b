"""The chat template of a command and what it is given, as llama-server reads them."""

import json
from collections.abc import Sequence
from pathlib import Path

from spectui.commands.items import Item, divide
from spectui.commands.server_options import FALSE, TRUE, canonical
from spectui.errors import BadInputError
from spectui.files import SMALL_BYTES, read_file
from spectui.options.rendering import Rendering


def rendering_of(words: Sequence[str]) -> Rendering:
    """How a server with these arguments makes prompts of conversations.

    Raises:
        BadInputError: a template cannot be read, or its arguments are no JSON object.
    """
    items = [*divide(words)]
    return Rendering(template=_template(items), arguments=json.dumps(_arguments(items)))


def _template(items: Sequence[Item]) -> str | None:
    template, is_jinja = None, True
    for item in items:
        match item.name:
            case "chat-template":
                template = item.value
            case "chat-template-file":
                template = _content(item)
            case "jinja":
                is_jinja = canonical(item.flag) == "--jinja"
    # A name of llama.cpp's own list is looked up without Jinja alone.
    return template if is_jinja or "{" in (template or "") else None


def _arguments(items: Sequence[Item]) -> dict[str, object]:
    found: dict[str, object] = {}
    for item in items:
        match item.name, item.value:
            case "chat-template-kwargs", _:
                found |= _object(item)
            case "reasoning", value if value in TRUE | FALSE:
                found["enable_thinking"] = value in TRUE
            case "reasoning-effort", "default":
                found.pop("reasoning_effort", None)
            case "reasoning-effort", value:
                found["reasoning_effort"] = value
            case "reasoning-preserve", _:
                found["preserve_reasoning"] = canonical(item.flag) == "--reasoning-preserve"
    return found


def _content(item: Item) -> str:
    try:
        return read_file(Path(item.value), SMALL_BYTES).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInputError(
            f"cannot read the chat template of {item.text} ({error}); check the path and its text"
        ) from error


def _object(item: Item) -> dict[str, object]:
    try:
        found = json.loads(item.value)
    except (ValueError, RecursionError) as error:
        raise BadInputError(f"{item.text} is no JSON ({error}); write an object") from error
    if not isinstance(found, dict):
        raise BadInputError(f"{item.text} is no object; write one in braces")
    return found
