"""Results of ``spectui models scan``: models, or drafts for a target, with remarks."""

import os
import shlex
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from spectui.engine.inspection import inspect_header
from spectui.models.facts import ModelFacts
from spectui.models.files import FoundModel
from spectui.models.ranking import DraftOption, needed_memory, unloadable


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """Results of a scan until it ended or was interrupted."""

    folders: tuple[Path, ...]
    n_ctx: int
    target: ModelFacts | None
    """The target; None if models are listed rather than ranked."""
    models: tuple[DraftOption, ...]
    """The most promising draft first; without a target, in their order on disk."""
    doubt: str | None
    """A warning about the target's memory; None if it fits, and without a target."""
    links: tuple[tuple[Path, ...], ...]
    """Paths to the same files; the first of each group is that of a listed model."""
    passed_over: tuple[str, ...]
    """A sentence for every path that could not be examined."""
    interrupted: bool

    @property
    def fitting(self) -> tuple[DraftOption, ...]:
        """Drafts that no reason rules out."""
        return tuple(option for option in self.models if option.reason is None)

    @property
    def first(self) -> DraftOption | None:
        """The draft to try first; None without a target, or where none fits."""
        return self.fitting[0] if self.target is not None and self.fitting else None

    @property
    def copies(self) -> tuple[tuple[FoundModel, ...], ...]:
        """Models that agree in the names and sizes of their files: most likely copies."""
        alike: dict[tuple[str, int], list[FoundModel]] = defaultdict(list)
        for option in self.models:
            alike[option.model.path.name, option.model.size_bytes].append(option.model)
        return tuple(tuple(models) for models in alike.values() if len(models) > 1)


def look_at(model: FoundModel, n_ctx: int) -> DraftOption:
    """Describe a model by its header, without a target."""
    reason, facts = unloadable(model), None
    if reason is None:
        told = inspect_header(model.path)
        reason, facts = told.reason, told.facts
    memory_bytes = needed_memory(model, facts, n_ctx)
    return DraftOption(model=model, facts=facts, reason=reason, memory_bytes=memory_bytes)


def tune_command(found: Findings) -> str:
    """Return the command that measures the recommended draft."""
    if found.target is None or found.first is None:
        raise ValueError("there is no draft to try")
    target, draft = str(found.target.path), str(found.first.model.path)
    return shell_line(["spectui", "tune", "-m", target, "-md", draft, "-c", str(found.n_ctx)])


def shell_line(words: Iterable[str]) -> str:
    r"""Quote ``words`` for a shell, in printable characters.

    What a terminal would obey, and bytes that are no text, are written as ``$'\x1b'``, which bash
    and zsh read.
    """
    return " ".join(map(_quoted, words))


def _quoted(word: str) -> str:
    if word.isprintable():
        return shlex.quote(word)
    printable = (chr(byte) if _is_plain(byte) else f"\\x{byte:02x}" for byte in os.fsencode(word))
    return f"$'{''.join(printable)}'"


def _is_plain(byte: int) -> bool:
    return chr(byte).isascii() and chr(byte).isprintable() and chr(byte) not in "'\\"
