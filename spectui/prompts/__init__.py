"""The prompts that measurements run on: the user's own files, or the built-in suite.

``forms.py`` has the forms that are read; what is wrong is named by file and line.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from spectui.errors import BadInputError
from spectui.prompts.forms import LINE_FORM, SUFFIXES, TEXTS, FileReader, Located
from spectui.prompts.prompt import AnsweredPrompt, ChatMessage, Prompt
from spectui.reading import LARGE_BYTES, read_file

__all__ = [
    "AnsweredPrompt",
    "ChatMessage",
    "Prompt",
    "PromptFile",
    "builtin_suite",
    "load_prompts",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptFile:
    """The prompts of a file or of a folder."""

    prompts: tuple[Prompt, ...]
    notes: tuple[str, ...] = ()
    """By file: what was taken of it and what was passed over, where that is not all."""


def builtin_suite() -> tuple[Prompt, ...]:
    """Return the suite that comes with spectui.

    Its categories take turns, so that the first N prompts cover as many of them as N allows.
    """
    data = resources.files("spectui.prompts").joinpath("suite.jsonl").read_bytes()
    return _with_own_ids(FileReader(Path("suite.jsonl")).read(data))


def load_prompts(path: Path) -> PromptFile:
    """Read the prompts of a file, or of a folder of files, sorted by name.

    Raises:
        BadInputError: there is nothing to read, or a line is bad; then no prompt is returned.
    """
    located: list[Located] = []
    notes: list[str] = []
    try:
        for file in _prompt_files(path):
            reader = FileReader(file)
            found = reader.read(read_file(file, LARGE_BYTES))
            located += found
            notes += filter(None, [reader.note(len(found))])
    except OSError as error:
        raise BadInputError(
            f"cannot read the prompts in {error.filename or path} ({error.strerror}); "
            "check the path and its permissions"
        ) from error
    if not located:
        raise BadInputError(f"{path} contains no prompts; {LINE_FORM}")
    return PromptFile(prompts=_with_own_ids(located), notes=tuple(notes))


def _prompt_files(path: Path) -> list[Path]:
    path.stat()  # a missing path is told as such, whatever its suffix
    if path.is_dir():
        # Folders only are left out, so that a dangling link is an error, not a lost prompt.
        files = [
            file for file in path.iterdir() if file.suffix.lower() in SUFFIXES and not file.is_dir()
        ]
        if not files:
            raise BadInputError(f"{path} holds no {', '.join(SUFFIXES)} file; put prompts into it")
        return sorted(files)
    if path.suffix.lower() not in {*SUFFIXES, *TEXTS}:
        kinds = ", ".join(dict.fromkeys((*SUFFIXES, *TEXTS)))
        raise BadInputError(f"{path} is not a prompt file; give a {kinds}, or a folder of them")
    return [path]


def _with_own_ids(located: Iterable[Located]) -> tuple[Prompt, ...]:
    """The prompts.

    Raises:
        BadInputError: two have the same id.
    """
    seen: dict[str, Located] = {}
    for item in located:
        first = seen.setdefault(item.prompt.id, item)
        if first is not item:
            raise BadInputError(
                f"{item.where}: duplicate id {item.prompt.id!r}, used before in {first.where}; "
                "give every prompt an id of its own"
            )
    return tuple(item.prompt for item in seen.values())
