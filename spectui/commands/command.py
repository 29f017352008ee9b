"""A parsed command of llama-server: its start, and its options by position and by name."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from spectui.commands.finding import Edits, Finding
from spectui.commands.home import own_path, shell_word, shell_words
from spectui.commands.items import Item, divide, words_of
from spectui.commands.renames import BY_LAYERS, BY_SWITCH, DRAFTS, MODEL_KINDS, NONE
from spectui.commands.server_options import canonical, former_names, new_names
from spectui.errors import BadInputError
from spectui.options.drafters import MTP_KIND
from spectui.options.option import Dialect
from spectui.secret import hidden

ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
LAYERS = frozenset({"gpu-layers", "gpu-layers-draft"})

_UNIFIED = ("serve",)
"""Words after a program that holds the server among others."""
_WITH_DRAFT = (*DRAFTS, "fim-qwen-7b-spec", "fim-qwen-14b-spec")
"""Options that name a draft, and switches that stand for one of the hub."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """The way a program is started, independent of its arguments."""

    environment: tuple[tuple[str, str], ...] = ()
    """Variables that the command sets, without those that stand for options."""
    program: tuple[str, ...] = ("llama-server",)
    """Words that start the program, including wrappers."""

    @property
    def wrappers(self) -> tuple[str, ...]:
        """Words before the program, such as ``numactl`` and its options."""
        return self.program[: -2 if self.program[-1:] == _UNIFIED else -1]

    @property
    def text(self) -> str:
        """The start as one line for a POSIX shell."""
        assignments = (f"{name}={shell_word(value)}" for name, value in self.environment)
        return " ".join((*assignments, *map(shell_word, self.program)))

    def running(self, program: str | None) -> "Start":
        """This start with another program; None keeps the program."""
        return self if program is None else replace(self, program=(*self.wrappers, program))


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerCommand:
    """One command that starts llama-server."""

    start: Start = Start()
    """Its variables, and its program after any wrappers."""
    items: tuple[Item, ...] = ()
    """Variables that stand for options, then the arguments, which override them."""
    is_old: bool = False
    """Whether the defaults are those of builds before spring 2026, judged by the original names:
    those that were removed, or ik_llama.cpp's."""
    inside: "ServerCommand | None" = None
    """The same command as seen inside its container; None without one. This one has the host's
    paths, as far as the host has the files."""
    image: str = ""
    """The image of its container; empty without one."""
    known_as: str | None = None
    """The name that clients know from the command's own file; None without one."""
    is_section: bool = False
    """Whether it comes from a section of a models preset file, by which the router finds models."""
    beside: tuple[str, ...] = ()
    """Settings in its file that are not options of llama-server."""
    draft_tensors: frozenset[str] | None = None
    """Names of the draft's tensors; None where its file was not read."""
    draft_kind: str | None = None
    """The kind of the draft's file in ``--spec-type``; None also for an ordinary draft model."""
    remarks: tuple[Finding, ...] = ()
    """Findings of the reader of its file."""
    secrets: tuple[str, ...] = ()
    """Options and variables whose values were hidden when the command was read."""

    @classmethod
    def of(cls, items: Iterable[Item]) -> "ServerCommand":
        """A command of these options, whose names tell how old it is."""
        found = tuple(items)
        return cls(items=found, is_old=_is_old(found))

    def discreet(self) -> "ServerCommand":
        """The command with its secrets hidden, so that nothing stores or prints them."""
        cover = _Cover()
        return replace(
            self,
            items=tuple(map(cover.item, self.items)),
            start=Start(
                program=tuple(map(cover.word, self.start.program)),
                environment=tuple((n, cover.value(n, v)) for n, v in self.start.environment),
            ),
            remarks=tuple(one.without(cover.texts) for one in self.remarks),
            inside=None if self.inside is None else self.inside.discreet(),
            secrets=tuple(dict.fromkeys(cover.names)),
        )

    @property
    def ahead(self) -> tuple[str, ...]:
        """All words before the arguments, with variables as assignments."""
        start = self.start
        return (*(f"{name}={value}" for name, value in start.environment), *start.program)

    @property
    def arguments(self) -> tuple[str, ...]:
        """All words, variables as arguments."""
        return words_of(self.items)

    @property
    def text(self) -> str:
        """The command as one line that a POSIX shell splits back into these words."""
        return " ".join((self.start.text, *shell_words(self.items)))

    @property
    def files(self) -> tuple[Path, ...]:
        """Files of its models, where spectui would open them."""
        values = (self.value(name) for name in ("model", "model-draft"))
        return tuple(Path(own_path(value)) for value in values if value)

    def check_values(self) -> None:
        """Make sure that every option has its values.

        Raises:
            BadInputError: one lacks some.
        """
        for item in self.items:
            if item.n_missing:
                raise BadInputError(f"{item.text} lacks its value; write it after the option")

    def edited(self, edits: Edits) -> "ServerCommand":
        """The command after ``edits``."""
        items: list[Item] = []
        for at, item in enumerate(self.items):
            items += [item] if at not in edits else divide(edits[at])
        return replace(self, items=(*items, *divide(edits.get(None, ()))))

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
        found = self.last(*_WITH_DRAFT)
        return found is not None and found[1].values != ("",)

    @property
    def kinds(self) -> tuple[str, ...]:
        """All kinds in ``--spec-type``, across repeats of the option; without ``none``."""
        named: list[str] = []
        for _at, item in self.all("spec-type", "spec-default", BY_SWITCH):
            if item.name == "spec-type":
                kinds = item.value.partition(":")[0].replace("_", "-").split(",")
                named += [] if NONE in kinds else kinds
            elif not item.is_negation:
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


class _Cover:
    """Hides the secrets of a command, and records the replacement of each."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.texts: list[tuple[str, str]] = []
        """Each secret, and its replacement."""

    def value(self, name: str, value: str, flag: str | None = None) -> str:
        """The value of a variable, or of an option by its name in the command and its flag."""
        shown = hidden(flag or name, value)
        if shown != value:
            self.names.append(name)
            self.texts.append((value, shown))
        return shown

    def word(self, word: str) -> str:
        """A word before the arguments, which may be an assignment."""
        found = ASSIGNMENT.fullmatch(word)
        if found is None:
            return hidden("", word)
        return f"{found[1]}={self.value(found[1], found[2])}"

    def item(self, item: Item) -> Item:
        """An option with its values."""
        values = tuple(self.value(item.shown, value, item.flag) for value in item.values)
        if values == item.values:
            return item
        is_one = len(item.words) == 1
        words = (f"{item.flag}={values[0]}",) if is_one else (item.flag, *values)
        return replace(item, values=values, words=words)


def _is_old(items: tuple[Item, ...]) -> bool:
    """Whether the command has removed names or ik_llama.cpp's, and no newer ones of llama.cpp."""
    shown = {canonical(item.shown) for item in items}
    kinds = {kind for item in items if item.name == "spec-type" for kind in item.value.split(",")}
    is_new = kinds & MODEL_KINDS or shown & new_names()
    return not is_new and (bool(shown & former_names()) or any(map(_is_of_ik, items)))


def _is_of_ik(item: Item) -> bool:
    """Whether the item configures drafting as in ik_llama.cpp, whose defaults never changed."""
    if item.name == "spec-type":
        return ":" in item.value
    server = item.server
    # ik_llama.cpp's server also takes what llama.cpp's other programs do.
    if server is None or not server.is_harmless:
        return False
    return server.known_to(item.spelling) == {Dialect.IK} and not item.is_negation
