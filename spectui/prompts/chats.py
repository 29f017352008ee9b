"""Reads exports of chats as prompts with their existing answers.

A file is recognised by its shape: Open WebUI, LM Studio, the page of llama-server, SillyTavern,
ShareGPT, and logs of OpenAI-style requests with their answers. Each reader converts its form into a
title and messages with ``role`` and ``content`` as in OpenAI's interface. Of several branches the
one that the user sees is read.

Reasoning is part of what a model writes, and is no part of a prompt that follows. Where an export
keeps it apart, it stands before the answer in ``<think>`` and ``</think>``, as most models write
it; a model that writes it otherwise is not recognised by these few tokens alone.
"""

import html
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, zip_longest
from pathlib import Path
from typing import NamedTuple

from spectui.errors import BadInputError
from spectui.files import LARGE_BYTES, read_file, unreadable
from spectui.prompts.prompt import AnsweredPrompt, ChatMessage
from spectui.prompts.records import (
    Json,
    beyond_text,
    decoded,
    read_records,
    role_of,
    rows_of,
    text_of,
    unwrapped,
)

CATEGORY = "chats"
"""Category of these prompts."""
REPEATED = "to the same prompt"
"""Why an answer is left out where another one is taken."""
UNKNOWN = "in no known form"
"""Why an entry of a file is left out where others are chats."""
OTHER_FILES = "files of a folder that are no exports of chats"
_KNOWN_FORMS = (
    "spectui reads the JSON of Open WebUI, LM Studio, llama-server's page, SillyTavern and "
    "ShareGPT, and logs of OpenAI-style requests with their answers"
)
_SUFFIXES = (".json", ".jsonl")
"""Files of a folder that are read."""
_Chat = tuple[str, list[Json]]
"""Title, and messages."""
_REASONING = re.compile(r"\s*<think>(.*?)</think>\s*", re.DOTALL)
_DETAILS = re.compile(
    r'<details type="reasoning".*?>\s*(?:<summary>.*?</summary>)?(.*?)</details>\s*', re.DOTALL
)
"""Reasoning as Open WebUI keeps it: quoted, with HTML's entities."""
_REASONING_FIELDS = ("reasoning_content", "reasoningContent", "reasoning", "thinking")
"""Fields in which exports store reasoning."""
_DAMAGE = (AttributeError, IndexError, KeyError, TypeError, ValueError, RecursionError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chats:
    """Prompts of chats with their answers."""

    prompts: tuple[AnsweredPrompt, ...]
    """One answer of each chat after the other."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Number of answers and of other entries that were left out, by reason."""


def load_chats(paths: Sequence[Path]) -> Chats:
    """Read the answers of exports, files or folders of them.

    Raises:
        BadInputError: one cannot be read, or is no such export, or there is no answer in any.
    """
    left_out, damaged = Counter[str](), list[str]()
    chats: list[list[AnsweredPrompt]] = []
    try:
        for file in chain.from_iterable(map(_files, paths)):
            own = _parts_of(_records(file), left_out)
            if not own and file in paths:
                raise BadInputError(f"{file} is no export of chats; {_KNOWN_FORMS}")
            left_out[OTHER_FILES] += not own
            for number, (form, part) in enumerate(own, start=1):
                beside = Counter[str]()
                try:
                    chats += [
                        list(_answers(len(chats) + n, title, messages, beside))
                        for n, (title, messages) in enumerate(form.read(part), start=1)
                    ]
                    left_out += beside
                except _DAMAGE:
                    damaged.append(f"chat {number} of {file.name}")
    except OSError as error:
        raise unreadable(error.filename, error, "give an export of chats, or a folder") from error
    if damaged:
        left_out[f"damaged, the first {damaged[0]}"] = len(damaged)
    every = [one for row in zip_longest(*chats) for one in row if one is not None]
    found: dict[tuple[object, ...], AnsweredPrompt] = {}
    for one in every:
        # A log has the beginning of a chat again in each request.
        found.setdefault((one.messages, one.answer), one)
    if not found:
        reasons = reasons_text(left_out)
        answer = f"answer with text alone ({reasons})" if reasons else "answer"
        raise BadInputError(
            f"{', '.join(map(str, paths))}: there is no {answer} in it; give other chats"
        )
    left_out[REPEATED] += len(every) - len(found)
    return Chats(prompts=tuple(found.values()), left_out=+left_out)


def reasons_text(left_out: Mapping[str, int]) -> str:
    """Numbers of entries that were left out, with reasons, as a list; empty for none."""
    return ", ".join(f"{n} {why}" for why, n in left_out.items() if n)


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = [
        file
        for file in path.rglob("*")
        if file.suffix.lower() in _SUFFIXES
        and not any(part.startswith(".") for part in file.relative_to(path).parts)
    ]
    if not files:
        raise BadInputError(f"{path} holds no {' or '.join(_SUFFIXES)} file; put exports into it")
    return sorted(files)


def _records(file: Path) -> list[object]:
    """The values of a file: of its list, of its lines, or the file itself."""
    remedy = f"export the chats again: {_KNOWN_FORMS}"
    text = decoded(read_file(file, LARGE_BYTES), file)
    return [one.value for one in read_records(text, file, remedy)]


def _parts_of(
    records: Sequence[object], left_out: Counter[str]
) -> list[tuple["_Form", list[Json]]]:
    """The entries of each chat of a file, with their form; empty for another file.

    Entries that are of none are counted in ``left_out``.
    """
    found: list[tuple[_Form, list[Json]]] = []
    n_unknown = 0
    for one in records:
        if not isinstance(one, dict) or (form := _form_of(one)) is None:
            n_unknown += 1
        elif found and found[-1][0] is form and form.goes_on(one):
            found[-1][1].append(one)
        else:
            found.append((form, [one]))
    left_out[UNKNOWN] += n_unknown if found else 0
    return found


def _sillytavern(records: Sequence[Json]) -> list[_Chat]:
    """Chat of a file of lines: ``is_user`` and ``mes``, behind a header."""
    messages = [
        {
            "role": "user" if one["is_user"] else "assistant",
            "content": one["mes"],
            "reasoning_content": (extra := one.get("extra") or {}).get("reasoning"),
            "model": extra.get("model"),
            "files": extra.get("image") or extra.get("media") or extra.get("files"),
        }
        for one in records
        # Messages that it marks as the system's are hidden from the model.
        if "mes" in one and not one.get("is_system")
    ]
    title = next((one["character_name"] for one in records if "character_name" in one), "")
    return [(title, messages)] if messages else []


def _llama_server(records: Sequence[Json]) -> list[_Chat]:
    """Chats of llama-server's page: lines behind one of type ``session``, or ``conv`` objects."""
    found: list[tuple[Json, list[Json]]] = []
    for one in records:
        if one.get("type") == "session":
            found.append((one, []))
        elif "conv" in one:
            found.append((one["conv"], one["messages"]))
        elif found:
            found[-1][1].append(one["message"])
    return [
        (conv.get("name") or "", _path({m["id"]: m for m in messages}, conv.get("currNode") or ""))
        for conv, messages in found
    ]


def _open_webui(records: Sequence[Json]) -> list[_Chat]:
    """Chats with ``chat.history``, a tree of messages, or with ``chat.messages``."""
    found = []
    for one in (record["chat"] for record in records):
        history = one.get("history") or {}
        tree = history.get("messages")
        messages = _path(tree, history.get("currentId") or "") if tree else one["messages"]
        system = (one.get("params") or {}).get("system") or one.get("system")
        found.append((one.get("title") or "", _with_system(system, messages)))
    return found


def _lm_studio(records: Sequence[Json]) -> list[_Chat]:
    """Chats whose messages have ``versions``; an answer's is made of steps."""
    found = []
    for one in records:
        fields = (one.get("perChatPredictionConfig") or {}).get("fields") or []
        own = [f["value"] for f in fields if f.get("key") == "llm.prediction.systemPrompt"]
        system = next(iter(own), one.get("systemPrompt"))
        chosen = [row["versions"][row.get("currentlySelected") or 0] for row in one["messages"]]
        messages = [_version_message(version) for version in chosen]
        found.append((one.get("name") or "", _with_system(system, messages)))
    return found


def _version_message(version: Json) -> Json:
    """Message of a version: its content, or that of its steps."""
    blocks = [one for one in version.get("steps") or [version] if one.get("content")]
    thinking = [one for one in blocks if (one.get("style") or {}).get("type") == "thinking"]
    tools = [one for one in version.get("steps") or () if one.get("type") == "toolStatus"]
    return {
        "role": version["role"],
        "content": [part for one in blocks if one not in thinking for part in one["content"]],
        "reasoning_content": "".join(part["text"] for one in thinking for part in one["content"]),
        "model": next((one["genInfo"]["identifier"] for one in blocks if "genInfo" in one), None),
        "tool_calls": tools,
    }


def _requests(records: Sequence[Json]) -> list[_Chat]:
    """Conversations, as of ShareGPT; requests, with ``choices`` beside them or in ``response``."""
    found = []
    for one in records:
        request, response = unwrapped(one, "request", "body"), unwrapped(one, "response", "body")
        rows = rows_of(request) or []
        model = response.get("model") or request.get("model")
        answers = [choice["message"] for choice in (response.get("choices") or [])[:1]]
        title = str(one.get("id") or "")
        found.append((title, [{"model": model, **row} for row in (*rows, *answers)]))
    return found


def _path(tree: dict[str, Json], leaf: str) -> list[Json]:
    """Messages from the root of a tree to ``leaf``, or to the last one of all."""
    found: list[Json] = []
    name = leaf if leaf in tree else next(reversed(tree), "")
    while name in tree and tree[name] not in found:
        found.insert(0, tree[name])
        name = found[0].get("parentId") or found[0].get("parent") or ""
    return found


def _with_system(system: object, messages: list[Json]) -> list[Json]:
    """Messages behind a system prompt, if there is one."""
    return [{"role": "system", "content": system}, *messages] if system else messages


def _answers(
    number: int, title: str, messages: Sequence[Json], left_out: Counter[str]
) -> Iterator[AnsweredPrompt]:
    """Each answer of a chat, with what stands before it; others are counted in ``left_out``."""
    before: list[ChatMessage] = []
    problem, n = None, 0
    for one in messages:
        problem = problem or _problem(one)
        role = role_of(one)
        reasoning, visible = _split_reasoning(text_of(one))
        if role == "assistant":
            n += 1
            has_question = any(message.role == "user" for message in before)
            why = problem or (None if visible else "without text")
            why = why or (None if has_question else "without a question")
            if why is None:
                kept = next((one[name] for name in _REASONING_FIELDS if one.get(name)), reasoning)
                chat = f"chat {title!r}" if title else f"chat {number}"
                yield AnsweredPrompt(
                    id=f"chat-{number}-{n}",
                    category=CATEGORY,
                    messages=tuple(before),
                    answer=f"<think>\n{kept.strip()}\n</think>\n\n{visible}" if kept else visible,
                    name=f"{chat}, answer {n}",
                    model=one.get("model"),
                )
            else:
                left_out[why] += 1
        if visible:
            before.append(ChatMessage(role=str(role), content=visible))


def _problem(message: Json) -> str | None:
    """Why no prompt can be made of a chat from this message on; None where one can."""
    if role_of(message) == "tool" or '<details type="tool_calls"' in text_of(message):
        return "with tools"
    beyond = beyond_text(message)
    if beyond is None and (message.get("files") or message.get("extra")):
        beyond = "images or files"
    return beyond and f"with {beyond}"


def _split_reasoning(text: str) -> tuple[str, str]:
    """Reasoning at the beginning of a text, and the rest."""
    if (found := _DETAILS.match(text)) is not None:
        lines = html.unescape(found[1]).strip().split("\n")
        return "\n".join(line.removeprefix(">").removeprefix(" ") for line in lines), text[
            found.end() :
        ].strip()
    found = _REASONING.match(text)
    return ("", text.strip()) if found is None else (found[1], text[found.end() :].strip())


_HEADER = frozenset({"character_name", "chat_metadata"})
"""Keys of SillyTavern's first line."""


class _Form(NamedTuple):
    """A form of chats."""

    takes: Callable[[Json], bool]
    """Whether an entry of a file is of this form."""
    read: Callable[[Sequence[Json]], list[_Chat]]
    goes_on: Callable[[Json], bool] = lambda _one: False
    """Whether an entry belongs to the chat of the one before it."""


_FORMS = (
    _Form(
        lambda one: {"mes", "is_user"} <= one.keys() or bool(_HEADER & one.keys()),
        _sillytavern,
        lambda _one: True,
    ),
    _Form(
        lambda one: (
            "conv" in one
            or one.get("type") == "session"
            or (one.get("type") == "message" and isinstance(one.get("message"), dict))
        ),
        _llama_server,
        lambda one: one.get("type") == "message",
    ),
    _Form(lambda one: isinstance(one.get("chat"), dict), _open_webui),
    _Form(lambda one: any("versions" in row for row in one.get("messages") or ()), _lm_studio),
    _Form(lambda one: rows_of(unwrapped(one, "request", "body")) is not None, _requests),
)
"""The most particular first."""


def _form_of(entry: Json) -> _Form | None:
    """The form of an entry of a file; None for an unknown one."""
    with suppress(*_DAMAGE):
        return next((form for form in _FORMS if form.takes(entry)), None)
    return None
