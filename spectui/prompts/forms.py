"""Reads the prompts of one file, in the usual forms, and notes what it used and what it ignored."""

import csv
import io
from collections.abc import Iterator
from itertools import chain, repeat
from pathlib import Path
from typing import Any, NoReturn

from spectui.errors import BadInputError
from spectui.files import LARGE_BYTES
from spectui.format import counted, first_of
from spectui.prompts.prompt import ChatMessage, Prompt
from spectui.prompts.records import (
    CONVERSATIONS,
    INSTRUCTING,
    ROLES,
    Json,
    Record,
    beyond_text,
    decoded,
    read_records,
    role_of,
    text_of,
    unwrapped,
)

SUFFIXES = (".jsonl", ".json", ".csv", ".txt")
"""Files of a folder that are read."""
TEXTS = (".txt", ".md")
"""Files that are one prompt as they stand."""
LINE_FORM = (
    'write one JSON object per line, {"prompt": ...} or '
    '{"messages": [{"role": ..., "content": ...}]}'
)
DEFAULT_CATEGORY = "user"
_FORMS = (*CONVERSATIONS, "turns", "prompt")
"""Keys of prompts; of several, the first is taken."""
_IDS = ("id", "question_id", "task_id", "custom_id")
ENVELOPES = ("request", "body")
"""Keys of the request in a log and in a batch."""
_MESSAGE_KEYS = frozenset({"role", "from", "content", "value"})
_MOST_NAMED = 6
"""Most keys that a note names."""
_SEPARATORS = "\x1f,;\t"
"""Between the columns of a CSV; the first, which no text has, where there is one column."""
_HALF_PAIR = r"a \ud800 to \udfff without its other half is no character"


class FileReader:
    """Reads a file, and records which parts it used, ignored and left out."""

    def __init__(self, file: Path) -> None:
        """Read nothing yet."""
        self._file = file
        self._used: dict[str, None] = {}
        self._ignored: dict[str, None] = {}
        self._left_out: list[str] = []

    def read(self, data: bytes) -> list[Prompt]:
        """The prompts.

        Raises:
            BadInputError: a line is no prompt, or none is text alone.
        """
        suffix = self._file.suffix.lower()
        text = decoded(data, self._file)
        if suffix in TEXTS:
            return [self._whole(text)]
        records = _rows(text, self._file) if suffix == ".csv" else read_records(text, self._file)
        found = [prompt for one in records if (prompt := self._prompt(one))]
        if self._left_out and not found:
            raise BadInputError(f"{self._left_out[0]}; give questions of text alone")
        return found

    def note(self, n_prompts: int) -> str | None:
        """Clause on the prompts that were taken and passed over; None where all were taken."""
        notes = [*self._used]
        if self._ignored:
            notes.append(f"passed over: {first_of([*self._ignored], _MOST_NAMED)}")
        if self._left_out:
            notes.append(f"{len(self._left_out)} left out, the first {self._left_out[0]}")
        head = f"{counted(n_prompts, 'prompt')} of {self._file.name}"
        return f"{head}: {'; '.join(notes)}" if notes else None

    def _whole(self, text: str) -> Prompt:
        if not text.strip():
            _refuse(f"{self._file}:1", "the prompt is empty; write it into the file")
        n_lines = len(text.strip().split("\n"))
        if n_lines > 1:
            note = f"its {n_lines} lines are one (for several, one per line in a .jsonl)"
            self._used[note] = None
        return Prompt(id=self._file.stem, category=DEFAULT_CATEGORY, text=text)

    def _prompt(self, record: Record) -> Prompt | None:
        """The prompt of a record; None where it has no question of text, which the note says."""
        where, value = record.where, record.value
        fields = {"prompt": value} if isinstance(value, str) else value
        if not isinstance(fields, dict):
            _refuse(where, f"neither an object nor text; {LINE_FORM}")
        request = unwrapped(fields, *ENVELOPES)
        form = next((name for name in _FORMS if isinstance(request.get(name), list)), "prompt")
        content = request.get(form)
        if not isinstance(content, str | list):
            keys = ", ".join(request) or "no keys"
            why = f"{form} is no text" if form in request else f"no prompt among {keys}"
            _refuse(where, f"{why}; {LINE_FORM}")
        if isinstance(content, str) and not content.strip():
            self._left_out.append(f"{where}: the prompt is empty")
            return None
        outer = () if request is fields else fields
        known = {form, *ENVELOPES, *_IDS, "category"}
        self._ignored.update(dict.fromkeys(key for key in (*outer, *request) if key not in known))
        messages = self._messages(where, form, content) if isinstance(content, list) else ()
        if not messages and isinstance(content, list):
            return None
        either = {**request, **fields}
        names = (str(either[key]) for key in _IDS if isinstance(either.get(key), str | int))
        prompt = Prompt(
            id=next(filter(None, names), f"{self._file.stem}-{record.number}"),
            category=str(either.get("category") or DEFAULT_CATEGORY),
            text=content if isinstance(content, str) else None,
            messages=messages,
        )
        _check_characters(where, prompt)
        return prompt

    def _messages(self, where: str, form: str, rows: list[Any]) -> tuple[ChatMessage, ...]:
        """The conversation up to its last question; empty where there is none of text alone."""
        if form == "turns":
            if len(rows) > 1:
                self._used["the first of turns"] = None
            rows = [{"role": "user", "content": one} for one in rows[:1]]
        while rows and isinstance(rows[-1], dict) and role_of(rows[-1]) == "assistant":
            rows = rows[:-1]
            self._used["without the last answer"] = None
        numbered = [*enumerate(rows, start=1)]
        problem = next(filter(None, (_problem(where, n, row) for n, row in numbered)), None)
        messages = [] if problem else [self._message(where, n, row) for n, row in numbered]
        found = tuple(one for one in messages if one is not None)
        if any(one.role == "user" for one in found):
            return found
        self._left_out.append(f"{where}: {problem or 'no question'}")
        return ()

    def _message(self, where: str, n: int, row: Json) -> ChatMessage | None:
        """A message; None for an empty one of the system's."""
        self._ignored.update(dict.fromkeys(key for key in row if key not in _MESSAGE_KEYS))
        role, text = role_of(row), text_of(row)
        if role not in ROLES:
            _refuse(where, f"unknown role {role!r} in message {n}; use {', '.join(ROLES)}")
        if text.strip():
            return ChatMessage(role=str(role), content=text)
        self._used["without empty system messages"] = None
        return None


def _problem(where: str, n: int, row: Json) -> str | None:
    """Why a conversation with this message is left out; None where it is not.

    Raises:
        BadInputError: it is no message.
    """
    try:
        text, beyond = text_of(row), beyond_text(row)
    except (AttributeError, TypeError):
        _refuse(where, f"message {n} is none of role and text; {LINE_FORM}")
    if beyond is not None:
        return f"message {n} has {beyond}"
    return None if text.strip() or role_of(row) in INSTRUCTING else f"message {n} is empty"


def _rows(text: str, file: Path) -> Iterator[Record]:
    """Rows of a CSV with a column ``prompt``, as objects; its header shows what separates them.

    Raises:
        BadInputError: it has no such column, or a row is no CSV.
    """
    line = 1
    header = text.partition("\n")[0]
    separator = max(_SEPARATORS, key=header.count)
    csv.field_size_limit(LARGE_BYTES)
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    try:
        names = [name.strip().lower() for name in next(rows, [])]
        if "prompt" not in names:
            _refuse(f"{file}:1", f"no column prompt among {', '.join(names)}; name one so")
        line = rows.line_num + 1
        for row in rows:
            where, line = f"{file}:{line}", rows.line_num + 1
            if any(row[len(names) :]):
                what = f"{len(row)} cells in {counted(len(names), 'column')}"
                _refuse(where, f"{what}; put quotes around text with {separator!r} in it")
            if row:
                cells = chain(row, repeat(""))
                yield Record(where, line - 1, dict(zip(names, cells, strict=False)))
    except csv.Error as error:
        _refuse(
            f"{file}:{line}",
            f"the row that begins here is no CSV ({error}); mend its quotes, or write JSONL",
        )


def _check_characters(where: str, prompt: Prompt) -> None:
    texts = (prompt.text or "", *(message.content for message in prompt.messages))
    try:
        "".join((prompt.id, prompt.category, *texts)).encode()
    except UnicodeEncodeError:
        _refuse(where, f"{_HALF_PAIR}; mend or drop the line")


def _refuse(where: str, why: str) -> NoReturn:
    raise BadInputError(f"{where}: {why}")
