"""The setup to export: a pair of models, the drafting options, and the user's other options."""

from dataclasses import dataclass, field
from pathlib import Path

from spectui.export.accepted import Accepted
from spectui.export.command import server_arguments
from spectui.export.launch import Launch, printable
from spectui.export.rewriting.items import Command, Item
from spectui.export.rewriting.reader import Reader
from spectui.export.rewriting.rewrite import Rewritten, rewritten
from spectui.export.starting import Start
from spectui.export.words import Given, divide
from spectui.options.dialect import Dialect
from spectui.options.drafters import NGRAMS, DrafterSetting, DraftSimple, numbers_of
from spectui.options.setup import Setup
from spectui.options.speculation import Speculation

_ALWAYS = frozenset(
    {
        *("model", "model-draft", "spec-type"),
        *(one.option for one in numbers_of(DraftSimple)),
        # Written only where the dialect would take the target's instead.
        *("cache-type-k-draft", "cache-type-v-draft"),
    }
)
"""Options that are always written, since their defaults changed between versions."""
_STANDS_FOR = {"load-mode": "no-mmap", "override-tensor": "n-cpu-moe"}
"""Options that a dialect uses in place of one that it lacks."""
_NGRAM_DEFAULTS = {
    one.option: one.argument(one.default) for drafter in NGRAMS for one in numbers_of(drafter)
}
_LAYERS = frozenset({"gpu-layers", "gpu-layers-draft"})
"""Options that remain in the user's own arguments for a value that is no number: ``auto``."""

OFF = "speculation off: no speculative flag is written"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportSetup(Setup):
    """The setup of one llama-server to start.

    Without ``speculation`` nothing speculative is written, whatever ``draft`` and ``extra`` are.
    """

    name: str
    """Name for formats that hold several models."""
    has_gpu: bool = True
    """Whether llama.cpp has a GPU on this machine."""
    start: Start = field(default_factory=Start)
    """The words before the arguments."""
    program: str | None = None
    """Program to start instead of that of ``start``."""
    accepted: Accepted | None = None
    """Options that the program takes; None for all of its dialect."""
    given: frozenset[str] | None = None
    """Options that a command gave, by name: others stay unwritten at their defaults. None: all."""

    def launch(self, dialect: Dialect) -> Launch:
        """The launch of a llama-server of that dialect with this setup.

        Raises:
            BadInputError: the dialect or the program has no words for it.
        """
        start = self.start.running(self.program)
        return Launch(
            name=self.name,
            program=start.program,
            environment=start.environment,
            arguments=tuple(self.arguments(dialect)),
            comments=(*self.comments(), *self._missing(dialect)),
            dialect=dialect,
            accepted=self.accepted,
            has_gpu=self.has_gpu,
            document=self._document(),
        )

    def _document(self) -> dict[str, object]:
        target, draft = self.target, self.used_draft
        document: dict[str, object] = {
            "target": str(target.path),
            "draft": None if draft is None else str(draft.path),
            "speculation": None if self.speculation is None else told(self.speculation),
        }
        if self.speculation is None:
            document |= {"draft_reason": OFF, "speculation_reason": OFF}
        elif not self.speculation.needs_draft:
            document["draft_reason"] = f"{self.speculation.own.kind} needs no draft model"
        return document

    def arguments(self, dialect: Dialect) -> list[str]:
        """All arguments, without the program's name.

        Raises:
            BadInputError: the dialect or the program has no words for it.
        """
        own = server_arguments(
            self.target, self.draft, self.context, self.speculation, dialect=dialect
        )
        if self.given is not None:
            own = [w for given in divide(own) if _is_wanted(given, self.given) for w in given.words]
        said = {given.name for given in divide(self.kept_extra())} & _LAYERS
        own = [w for given in divide(own) if given.name not in said for w in given.words]
        words = self._rewritten(own, dialect).command.arguments
        return list(words) if self.accepted is None else self.accepted.spelled(words)

    def _rewritten(self, own: list[str], dialect: Dialect) -> Rewritten:
        """All arguments in the dialect's words, including the user's own."""
        flags = None if self.accepted is None else self.accepted.flags
        written, extra = list(divide(own)), divide(self.kept_extra())
        items = tuple(Item(given=given) for given in (*written, *extra))
        reader = Reader(dialect=dialect, accepted=flags)
        return rewritten(Command(items=items), reader, start=len(written))

    def _missing(self, dialect: Dialect) -> tuple[str, ...]:
        dropped = self._rewritten([], dialect).dropped
        left_out = printable(" ".join(item.given.flag for item in dropped))
        return (f"left out, since {dialect} has no such option: {left_out}",) if dropped else ()

    def kept_extra(self) -> tuple[str, ...]:
        """The user's own arguments; when speculation is off, without their drafting options."""
        dropped = self._dropped()
        return tuple(w for g in divide(self.extra) if g not in dropped for w in g.words)

    def comments(self) -> tuple[str, ...]:
        """Remarks for readers of the export, one printable line each."""
        if self.speculation is not None:
            return ()
        left_out = " ".join(given.flag for given in self._dropped())
        lines = [OFF, f"left out of your own arguments: {left_out}"] if left_out else [OFF]
        return tuple(map(printable, lines))

    def files(self) -> tuple[Path, ...]:
        """Files that the setup reads."""
        return tuple(options.path for options in self.models)

    def _dropped(self) -> tuple[Given, ...]:
        if self.speculation is not None:
            return ()
        return tuple(given for given in divide(self.extra) if given.is_speculative)


def _is_wanted(written: Given, given: frozenset[str]) -> bool:
    name = "" if written.option is None else written.option.name
    if name in _NGRAM_DEFAULTS and written.values != (_NGRAM_DEFAULTS[name],):
        # What the server would not do of itself.
        return True
    return not given.isdisjoint({name, _STANDS_FOR.get(name, name)}) or name in _ALWAYS


def told(speculation: Speculation) -> dict[str, object]:
    """A setting for the JSON of an export."""
    *ahead, own = map(_drafter, speculation.chain)
    return {**own, "ahead": ahead} if ahead else own


def _drafter(drafter: DrafterSetting) -> dict[str, object]:
    return {"kind": drafter.label, **drafter.numbers}
