"""A command as items, accessible by position and by name."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from spectui.commands.items import Given, divide
from spectui.commands.reader import NEW
from spectui.commands.server_options import canonical
from spectui.commands.sources.files import ASSIGNMENT
from spectui.commands.sources.source import INI, Source
from spectui.options.drafters import HIDDEN_STATE_KINDS, MODEL_KIND, MTP_KIND


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """Words that replace one item, or are appended to all."""

    at: int | None
    """Index of the item; None for the end."""
    words: tuple[str, ...]
    """The new words; empty to remove the item."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """Facts from headers, as far as rules need them; None if the file was not read."""

    target_tensors: frozenset[str] | None = None
    """Names of the target's tensors."""
    draft_tensors: frozenset[str] | None = None
    draft_kind: str | None = None
    """Name of the draft's kind in ``--spec-type``; None also for an ordinary draft model."""


_DRAFTS = ("model-draft", "spec-draft-hf", "fim-qwen-7b-spec", "fim-qwen-14b-spec")
_NO_KIND = "none"
BY_LAYERS = frozenset({MTP_KIND, "mtp"})
"""Kinds that draft with the target's own layers."""
BY_SWITCH = "multi-token-prediction"
"""Name of ik_llama.cpp's switch for them."""
_OLD_NAMES = frozenset(
    {"--draft", "--draft-n", "--draft-max", "--draft-min", "--draft-n-min", "--no-mmap", "--mlock"}
    | {"-cd", "--ctx-size-draft", "--spec-replace", "LLAMA_ARG_DRAFT_MAX", "LLAMA_ARG_DRAFT_MIN"}
    | {"LLAMA_ARG_MODEL_DRAFT", "LLAMA_ARG_DRAFT_P_MIN"}
)
_NEW_KINDS = frozenset({MODEL_KIND, MTP_KIND, *HIDDEN_STATE_KINDS})
"""Kinds of ``--spec-type`` since spring 2026."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One option with its values, or a variable that stands for it."""

    given: Given
    variable: str | None = None

    @property
    def shown(self) -> str:
        """The option's spelling in the command."""
        return self.given.flag if self.variable is None else self.variable

    @property
    def name(self) -> str:
        """One name for all its spellings."""
        return self.given.name

    @property
    def value(self) -> str:
        """The last value; empty for a switch."""
        return self.given.values[-1] if self.given.values else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """The words before the arguments, and the arguments as items."""

    prelude: tuple[str, ...] = ("llama-server",)
    items: tuple[Item, ...] = ()
    is_old: bool = False
    """Whether the defaults are those of builds before spring 2026, judged by the original names:
    those that were removed, or ik_llama.cpp's."""
    is_contained: bool = False
    """Whether the command was taken out of a container."""
    is_section: bool = False
    """Whether it is of a models preset file, whose router may find the model by the section's
    name."""
    known: Known = field(default_factory=Known)
    """Facts from its files."""

    @classmethod
    def of(cls, source: Source) -> "Command":
        """Divide a source into items.

        Raises:
            BadInputError: an option lacks its value, or a variable is unknown.
        """
        variables = (
            Item(given=given, variable=assigned.variable)
            for assigned in source.assigned()
            for given in divide(assigned.words)
        )
        arguments = (Item(given=given) for given in divide(source.words))
        items = (*variables, *arguments)
        return cls(
            prelude=source.start,
            items=items,
            is_old=_is_old(items),
            is_contained=source.is_contained,
            is_section=any(entry.format == INI for entry in source.entries),
        )

    @property
    def arguments(self) -> tuple[str, ...]:
        """All words, variables as arguments."""
        return tuple(word for item in self.items for word in item.given.words)

    @property
    def text(self) -> str:
        """The command as one line that a POSIX shell splits back into these words."""
        return " ".join([*map(_quoted, self.prelude), *map(shlex.quote, self.arguments)])

    def edited(self, edits: Sequence[Edit]) -> "Command":
        """The command after ``edits``, of which no two concern the same item."""
        by_place = {edit.at: edit.words for edit in edits if edit.at is not None}
        items: list[Item] = []
        for at, item in enumerate(self.items):
            items += [item] if at not in by_place else _items(by_place[at])
        items += [i for edit in edits if edit.at is None for i in _items(edit.words)]
        return replace(self, items=tuple(items))

    def all(self, *names: str) -> Iterator[tuple[int, Item]]:
        """Yield the items with one of these names, with their positions."""
        return ((at, item) for at, item in enumerate(self.items) if item.name in names)

    def last(self, *names: str) -> tuple[int, Item] | None:
        """The effective item among those with one of these names."""
        return max(self.all(*names), default=None, key=lambda found: found[0])

    def has(self, *names: str) -> bool:
        """Whether any of these options is given."""
        return self.last(*names) is not None

    def value(self, *names: str) -> str | None:
        """The effective value of an option."""
        found = self.last(*names)
        return None if found is None else found[1].value

    def number(self, *names: str) -> float | None:
        """The effective value as a number; None if it is not a number."""
        text = self.value(*names)
        try:
            return None if text is None else float(text)
        except ValueError:
            return None

    @property
    def has_draft(self) -> bool:
        """Whether a draft model is given, as a file or from the hub."""
        return self.has(*_DRAFTS)

    @property
    def kinds(self) -> tuple[str, ...]:
        """All kinds in ``--spec-type``, across repeats of the option; without ``none``."""
        named: list[str] = []
        for _at, item in self.all("spec-type", "spec-default", BY_SWITCH):
            if item.name == "spec-type":
                kinds = item.value.partition(":")[0].split(",")
                named += [] if _NO_KIND in kinds else kinds
            elif not is_negation(item):
                named.append("ngram-mod" if item.name == "spec-default" else MTP_KIND)
        return tuple(dict.fromkeys(named))

    @property
    def drafts_with_model(self) -> bool:
        """Whether a draft model or the target's MTP layers draft, or are meant to."""
        kinds = self.kinds
        if any(kind in BY_LAYERS for kind in kinds):
            return True
        is_asked = any(kind.startswith("draft") for kind in kinds)
        return self.has_draft and (is_asked or not self.has("spec-type", "spec-default"))


def is_negation(item: Item) -> bool:
    """Whether the option switches something off."""
    return item.given.flag.startswith(("-no-", "--no-"))


def _is_old(items: Sequence[Item]) -> bool:
    """Whether the command has removed names, and no newer ones."""
    if any(_is_of_ik(item) for item in items):
        return True
    shown = {canonical(item.shown) for item in items}
    kinds = {kind for item in items if item.name == "spec-type" for kind in item.value.split(",")}
    is_new = kinds & _NEW_KINDS or any(NEW.match(name) for name in shown)
    return bool(shown & _OLD_NAMES) and not is_new


def _is_of_ik(item: Item) -> bool:
    """Whether the item drafts in ik_llama.cpp's form, whose defaults never changed."""
    if item.name == "spec-type":
        return ":" in item.value
    return item.name == BY_SWITCH and not is_negation(item)


def _items(words: Sequence[str]) -> list[Item]:
    return [Item(given=given) for given in divide(words)]


def _quoted(word: str) -> str:
    """Quote a word before the arguments; of an assignment, only the value may be quoted."""
    match = ASSIGNMENT.fullmatch(word)
    return shlex.quote(word) if match is None else f"{match[1]}={shlex.quote(match[2])}"
