"""Text output of ``spectui models scan``: a table with notes."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.cells import cell_len
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from spectui.cli.drawing import drawn, is_ascii_only, page_width, width_of, wrapped
from spectui.cli.next_step import shell_line
from spectui.format import bytes_text, counted, percent_text
from spectui.models.facts import ModelFacts
from spectui.models.files import FoundModel
from spectui.models.ranking import GOOD_SHARE, DraftOption, read_share
from spectui.options.drafters import HIDDEN_STATE_KINDS, MTP_KIND
from spectui.tui.display import fit, visible


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """Results of a scan."""

    folders: tuple[Path, ...]
    n_ctx: int
    target: ModelFacts | None
    """The target; None if models are listed rather than ranked."""
    models: tuple[DraftOption, ...]
    """The most promising draft first; without a target, in their order on disk."""
    doubt: str | None
    """A warning about the target's memory; None if it fits, and without a target."""
    passed_over: tuple[str, ...]
    """A sentence for every path that could not be examined."""
    searched: str = ""
    """The words that a hub was searched for; empty for models of this machine."""
    fetch: Mapping[Path, str] = field(default_factory=dict)
    """The commands that fetch models of a hub, by their places there."""

    @property
    def fitting(self) -> tuple[DraftOption, ...]:
        """Drafts that no reason rules out."""
        return tuple(option for option in self.models if option.reason is None)

    @property
    def first(self) -> DraftOption | None:
        """The draft to try first; None without a target, or where none fits."""
        return self.fitting[0] if self.target is not None and self.fitting else None


def next_command(found: Findings) -> str:
    """Return the command that measures the recommended draft, or fetches it from a hub."""
    if found.target is None or found.first is None:
        raise ValueError("there is no draft to try")
    target, draft = str(found.target.path), str(found.first.model.path)
    if found.searched:
        return found.fetch[found.first.model.path]
    return shell_line(["spectui", "tune", "-m", target, "-md", draft, "-c", str(found.n_ctx)])


_MEASURE = "Measure what it brings:"
_ELSEWHERE = "Hugging Face's hub may have one:"
_N_PASSED_OVER = 10
"""Maximum number of sentences on files that are no models, of which a folder may hold thousands."""
_LEAST_NAME = 24
"""Width of names in cells: columns are dropped rather than narrow them further."""
_GAP = 2
_NONE = "–"
"""Sign for an unknown number. A column of nothing else is dropped."""

_Cells = Mapping[str, Callable[[DraftOption], str]]


def scan_view(found: Findings) -> str:
    """Draw all models that were found."""
    return "\n\n".join(filter(None, (*_models(found), _passed_over(found))))


def _models(found: Findings) -> Iterator[str]:
    if not found.models:
        yield wrapped(_nothing(found)) + _elsewhere(found)
    elif found.target is None:
        yield _models_table(found)
        yield _reasons("Cannot be used:", found)
    else:
        yield wrapped(f"Drafts for {shown(found.target.path.name)}")
        if found.doubt is not None:
            yield wrapped(f"note: {found.doubt}.")
        if found.fitting:
            yield _drafts_table(found, found.target)
        yield _advice(found)
        yield _reasons("Not for this target:", found)


def _nothing(found: Findings) -> str:
    if found.searched:
        return (
            f"The hub was searched for {shown(found.searched)}, and nothing that is smaller was "
            "found; n-gram drafters need no file: spectui tune tries them by itself."
        )
    what = "No GGUF model" if found.target is None else "No GGUF model but the target"
    if not found.folders:
        where = "none of the folders exists in which models usually lie"
        return f"{what} was found: {where}; give the folder of yours."
    places = ", ".join(shown(str(folder)) for folder in found.folders)
    return f"{what} was found in {places}; give the folder of yours."


def _advice(found: Findings) -> str:
    target, first = found.target, found.first
    if target is None or first is None:
        return wrapped(f"Of {counted(len(found.models), 'model')} none fits.") + _elsewhere(found)
    name = _names_of(found.models)[first.model.path]
    then = _MEASURE
    if found.searched:
        is_own = first.facts is not None and first.facts.draft_kind in HIDDEN_STATE_KINDS
        more = " --backend server" if is_own else ""
        then = f"Fetch it, and measure it with spectui tune{more} -md and the path that is printed:"
    lines = [wrapped(f"Try {name} first{_cost(target, first)} {then}"), next_command(found)]
    others = [found.fetch[one.model.path] for one in found.fitting[1:] if found.searched]
    return "\n".join([*lines, *(["", "The others:", *others] if others else [])])


def _elsewhere(found: Findings) -> str:
    """Where else a draft may be, below a sentence that says that there is none."""
    if found.target is None or found.searched:
        return ""
    command = shell_line(["spectui", "models", "find", "-m", str(found.target.path)])
    return f"\n\n{wrapped(_ELSEWHERE)}\n{command}"


def _cost(target: ModelFacts, draft: DraftOption) -> str:
    """The cost of a token of the draft, as far as bytes tell, as a continuation of its name."""
    share = read_share(target, draft.facts)
    if share is None:
        return "."
    small, large = GOOD_SHARE
    doubt = ""
    if share > large:
        doubt = " That is much for a draft: it pays only where nearly all of it is accepted."
    elif share < small:
        doubt = " That is little for a draft: it may seldom guess what the target says."
    return f": a token of it reads {percent_text(share, 1)} of what one of the target reads.{doubt}"


def _reasons(title: str, found: Findings) -> str:
    names = _names_of(found.models)
    unfit = (option for option in found.models if option.reason is not None)
    return _notes(
        title,
        [
            f"{names[option.model.path]}: "
            f"{shown((option.reason or '').removeprefix(f'{option.model.path} '))}"
            for option in unfit
        ],
    )


def _passed_over(found: Findings) -> str:
    sentences = [shown(reason) for reason in found.passed_over[:_N_PASSED_OVER]]
    n_more = len(found.passed_over) - len(sentences)
    more = [f"and {n_more} more; --json names all"] if n_more else []
    return _notes("Passed over:", [*sentences, *more])


def _notes(title: str, sentences: Sequence[str]) -> str:
    """Draw notes below a title; nothing if there are none."""
    if not sentences:
        return ""
    # Folded by cells, and paths anywhere: nothing is wider than the page.
    return drawn(title, *(Padding(Text(sentence), (0, 0, 0, 2)) for sentence in sentences))


def _models_table(found: Findings) -> str:
    """Draw all models that were found, with facts from their files."""
    return _table(found, found.models, _LISTED, _LEAST_LISTED)


def _drafts_table(found: Findings, target: ModelFacts) -> str:
    """Draw the drafts that fit, with what they cost."""
    return _table(found, found.fitting, _ranked(target), _LEAST_RANKED)


def _table(
    found: Findings, options: Sequence[DraftOption], cells: _Cells, least: Sequence[str]
) -> str:
    """Table of as many columns as leave room for distinct names; ``least`` are dropped first."""
    every, ellipsis = _names_of(found.models), "..." if is_ascii_only() else "…"
    names = {option.model.path: every[option.model.path] for option in options}
    wanted = min(_LEAST_NAME, max(map(cell_len, names.values())))
    for n_hidden in range(len(least) + 1):
        kept = {
            heading: cell
            for heading, cell in cells.items()
            if heading not in least[:n_hidden] and any(cell(one) != _NONE for one in options)
        }
        room = page_width() - width_of(_rows(options, kept, {}))
        fitted = {path: fit(name, room, ellipsis) for path, name in names.items()}
        if room >= wanted and len(set(fitted.values())) == len(names):
            break
    captions = {
        _READS: "reads: weights that a token reads, as a share of what one of the target reads",
        _MEMORY: f"memory: weights and cache at {counted(found.n_ctx, 'token')} of context",
    }
    told = [wrapped(text) for heading, text in captions.items() if heading in kept]
    return "\n".join((drawn(_rows(options, kept, fitted)), *told))


def _rows(options: Sequence[DraftOption], cells: _Cells, names: Mapping[Path, str]) -> Table:
    """Draw the rows; without ``names`` that column is but its gap."""
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, _GAP, 0, 0))
    table.add_column("model" if names else "", no_wrap=True)
    for heading in cells:
        table.add_column(heading, justify="left" if heading in _WORDS else "right", no_wrap=True)
    for option in options:
        row = (Text(names.get(option.model.path, "")), *(Text(c(option)) for c in cells.values()))
        table.add_row(*row, style="dim" if option.reason is not None else "")
    return table


def _names_of(options: Sequence[DraftOption]) -> dict[Path, str]:
    """Distinct display names; models of one name get as much of the path as differs."""
    parts = {option.model.path: _parts(option.model) for option in options}
    names: dict[Path, str] = {}
    for depth in range(1, max(map(len, parts.values()), default=0) + 1):
        tails = {path: whole[-depth:] for path, whole in parts.items()}
        n_alike = Counter(tails.values())
        for path, tail in tails.items():
            if n_alike[tail] == 1:
                names.setdefault(path, shown("/".join(tail)))
    return {path: names.get(path, shown(str(path))) for path in parts}


def _parts(model: FoundModel) -> tuple[str, ...]:
    return (*model.path.parent.parts, model.name)


def shown(text: str) -> str:
    """A name or sentence in characters that stdout may show."""
    return visible(text, ascii_only=is_ascii_only())


def _number(of: Callable[[ModelFacts], int]) -> Callable[[DraftOption], str]:
    return lambda option: str((option.facts and of(option.facts)) or _NONE)


def _memory(option: DraftOption) -> str:
    return _NONE if option.memory_bytes is None else bytes_text(option.memory_bytes)


def _percent(share: float | None) -> str:
    return percent_text(share, 1)


def _arch(option: DraftOption) -> str:
    facts = option.facts
    if facts is None:
        return _NONE
    return shown(f"{facts.arch}, MTP alone" if facts.draft_kind == MTP_KIND else facts.arch)


_READS, _MEMORY = "reads", "memory"
_BY_NAME = "by its name"
"""Heading of parameters and quantisation from a file's name, which may be wrong."""
_WORDS = frozenset({_BY_NAME, "arch"})
"""Headings of columns without numbers."""

_LISTED: _Cells = {
    "size": lambda option: bytes_text(option.model.size_bytes),
    _BY_NAME: lambda option: option.model.label or _NONE,
    "arch": _arch,
    "context": _number(lambda facts: facts.n_ctx_train),
    "layers": _number(lambda facts: facts.n_layers),
    "experts": _number(lambda facts: facts.n_experts),
    _MEMORY: _memory,
}
"""Functions for the cells under each heading."""
_LEAST_LISTED = (_BY_NAME, _MEMORY, "layers", "experts", "arch", "context")


def _ranked(target: ModelFacts) -> _Cells:
    return {
        _READS: lambda option: _percent(read_share(target, option.facts)),
        _MEMORY: _memory,
        "size": _LISTED["size"],
        _BY_NAME: _LISTED[_BY_NAME],
        "arch": _arch,
        "layers": _LISTED["layers"],
    }


_LEAST_RANKED = (_BY_NAME, "layers", "arch", "size", _MEMORY)
