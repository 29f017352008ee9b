"""Reads prompts from ``.jsonl`` and ``.txt`` files; whatever is wrong is named by file and line."""

import codecs
from collections.abc import Iterable, Iterator
from importlib import resources
from pathlib import Path
from typing import NamedTuple

from spectui.errors import BadInputError
from spectui.prompts.jsonl import DEFAULT_CATEGORY, LINE_FORM, decode_line
from spectui.prompts.prompt import Prompt

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
    data = file.read_bytes()
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
