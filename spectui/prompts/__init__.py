"""The prompts that measurements run on: the user's own files, or the built-in suite.

``forms.py`` has the forms that are read; errors name file and line.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path

from spectui.errors import BadInputError
from spectui.files import LARGE_BYTES, read_file, unreadable
from spectui.prompts.forms import LINE_FORM, SUFFIXES, TEXTS, FileReader
from spectui.prompts.prompt import AnsweredPrompt, ChatMessage, Prompt

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
    """Clauses on files of which not everything was used."""


def builtin_suite() -> tuple[Prompt, ...]:
    """Return the suite that comes with spectui.

    Its categories take turns, so that the first N prompts cover as many of them as N allows.
    """
    data = resources.files("spectui.prompts").joinpath("suite.jsonl").read_bytes()
    return tuple(FileReader(Path("suite.jsonl")).read(data))


def load_prompts(path: Path) -> PromptFile:
    """Read the prompts of a file, or of a folder of files, sorted by name.

    Raises:
        BadInputError: there is nothing to read, or a line is bad; then no prompt is returned.
    """
    prompts: list[Prompt] = []
    notes: list[str] = []
    try:
        for file in _prompt_files(path):
            reader = FileReader(file)
            found = reader.read(read_file(file, LARGE_BYTES))
            prompts += found
            notes += filter(None, [reader.note(len(found))])
    except OSError as error:
        raise unreadable(
            error.filename or path, error, "give a file or a folder of prompts"
        ) from error
    if not prompts:
        raise BadInputError(f"{path} contains no prompts; {LINE_FORM}")
    return PromptFile(prompts=_with_own_ids(prompts), notes=tuple(notes))


def _prompt_files(path: Path) -> list[Path]:
    path.stat()  # a missing path is reported as missing, whatever its suffix
    if path.is_dir():
        # Folders only are left out, so that a dangling link is an error, not a lost prompt.
        files = [
            file
            for file in path.iterdir()
            if file.suffix.lower() in SUFFIXES and file.name[0] != "." and not file.is_dir()
        ]
        if not files:
            raise BadInputError(f"{path} holds no {', '.join(SUFFIXES)} file; put prompts into it")
        return sorted(files)
    if path.suffix.lower() not in {*SUFFIXES, *TEXTS}:
        kinds = ", ".join(dict.fromkeys((*SUFFIXES, *TEXTS)))
        raise BadInputError(f"{path} is not a prompt file; give a {kinds}, or a folder of them")
    return [path]


def _with_own_ids(prompts: Iterable[Prompt]) -> tuple[Prompt, ...]:
    """The prompts; an id that stood before gets a number: ``81``, ``81-2``."""
    found: dict[str, Prompt] = {}
    n_seen = Counter[str]()
    for prompt in prompts:
        name = prompt.id
        while name in found:
            n_seen[prompt.id] += 1
            name = f"{prompt.id}-{n_seen[prompt.id] + 1}"
        found[name] = replace(prompt, id=name)
    return tuple(found.values())
