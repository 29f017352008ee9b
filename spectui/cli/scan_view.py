"""What ``spectui models scan`` prints: tables as wide as the terminal, sentences below them."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from rich.cells import cell_len
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from spectui.cli.drawing import drawn, is_ascii_only, page_width, width_of, wrapped
from spectui.cli.findings import Findings
from spectui.cli.shell import tune_command
from spectui.models.files import FoundModel
from spectui.models.ranking import GOOD_SHARE, DraftOption, ModelFacts
from spectui.models.sizes import bytes_text, counted
from spectui.tui.text.names import fit, visible

_LEAST_NAME = 24
"""Cells of a name below which a column is left out."""
_GAP = 2
_NONE = "–"
"""Where a number is not known. A column of nothing else is left out."""

_Cells = Mapping[str, Callable[[DraftOption], str]]


def scan_view(found: Findings) -> str:
    """Draw all that was found."""
    return "\n\n".join(filter(None, (*_models(found), _copies(found), _passed_over(found))))


def _models(found: Findings) -> Iterator[str]:
    if not found.models:
        yield wrapped(_nothing(found))
    elif found.target is None:
        yield _table(found, found.models, _LISTED, _LEAST_LISTED)
        yield _reasons("Cannot be used:", found)
    else:
        yield wrapped(f"Drafts for {_shown(found.target.path.name)}")
        if found.fitting:
            yield _table(found, found.fitting, _ranked(found.target), _LEAST_RANKED)
        yield _advice(found)
        yield _reasons("Not for this target:", found)


def _nothing(found: Findings) -> str:
    if found.interrupted:
        return "Interrupted before a model was read."
    what = "No GGUF model" if found.target is None else "No GGUF model but the target"
    if not found.folders:
        where = "none of the folders exists in which models usually lie"
        return f"{what} was found: {where}; give the folder of yours."
    places = ", ".join(_shown(str(folder)) for folder in found.folders)
    return f"{what} was found in {places}; give the folder of yours."


def _advice(found: Findings) -> str:
    target, first = found.target, found.first
    if target is None or first is None:
        return wrapped(f"Of {counted(len(found.models), 'model')} none fits.")
    share = first.model.size_bytes / target.size_bytes
    small, large = GOOD_SHARE
    doubt = ""
    if share > large:
        doubt = " That is much for a draft: it pays only where nearly all of it is accepted."
    elif share < small:
        doubt = " That is little for a draft: it may seldom guess what the target says."
    name = _names(found.models)[first.model.path]
    sentence = f"Try {name} first, {share:.1%} of the target's size.{doubt} Measure what it brings:"
    return f"{wrapped(sentence)}\n{tune_command(found)}"


def _reasons(title: str, found: Findings) -> str:
    names = _names(found.models)
    unfit = (option for option in found.models if option.reason is not None)
    return _notes(
        title,
        [
            f"{names[option.model.path]}: "
            f"{_shown((option.reason or '').removeprefix(f'{option.model.path} '))}"
            for option in unfit
        ],
    )


def _copies(found: Findings) -> str:
    groups = (", ".join(_shown(str(model.path)) for model in models) for models in found.copies)
    return _notes("Equal in name and size, most likely copies:", tuple(groups))


def _passed_over(found: Findings) -> str:
    return _notes("Passed over:", [_shown(reason) for reason in found.passed_over])


def _notes(title: str, sentences: Sequence[str]) -> str:
    """Draw sentences below a title; nothing without any."""
    if not sentences:
        return ""
    # Folded by cells, and paths anywhere: nothing is wider than the page.
    return drawn(title, *(Padding(Text(sentence), (0, 0, 0, 2)) for sentence in sentences))


def _table(
    found: Findings, options: Sequence[DraftOption], cells: _Cells, least: Sequence[str]
) -> str:
    """As many columns as leave room to tell the names apart, the ``least`` ones left out first."""
    every, ellipsis = _names(found.models), "..." if is_ascii_only() else "…"
    names = {option.model.path: every[option.model.path] for option in options}
    wanted = min(_LEAST_NAME, max(map(cell_len, names.values())))
    for n_hidden in range(len(least) + 1):
        shown = {
            heading: cell
            for heading, cell in cells.items()
            if heading not in least[:n_hidden] and any(cell(one) != _NONE for one in options)
        }
        room = page_width() - width_of(_rows(options, shown, {}))
        fitted = {path: fit(name, room, ellipsis) for path, name in names.items()}
        if room >= wanted and len(set(fitted.values())) == len(names):
            break
    caption = wrapped(f"memory: weights and cache at {counted(found.n_ctx, 'token')} of context")
    return "\n".join((drawn(_rows(options, shown, fitted)), *([caption] * (_MEMORY in shown))))


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


def _names(options: Sequence[DraftOption]) -> dict[Path, str]:
    """Call models by their names; where several share one, by as much of the path as differs."""
    parts = {option.model.path: _parts(option.model) for option in options}
    names: dict[Path, str] = {}
    for depth in range(1, max(map(len, parts.values()), default=0) + 1):
        tails = {path: whole[-depth:] for path, whole in parts.items()}
        n_alike = Counter(tails.values())
        for path, tail in tails.items():
            if n_alike[tail] == 1:
                names.setdefault(path, _shown("/".join(tail)))
    return {path: names.get(path, _shown(str(path))) for path in parts}


def _parts(model: FoundModel) -> tuple[str, ...]:
    return (*model.path.parent.parts, model.name)


def _shown(text: str) -> str:
    return visible(text, ascii_only=is_ascii_only())


def _number(of: Callable[[ModelFacts], int]) -> Callable[[DraftOption], str]:
    return lambda option: str((option.facts and of(option.facts)) or _NONE)


def _memory(option: DraftOption) -> str:
    return _NONE if option.memory_bytes is None else bytes_text(option.memory_bytes)


def _arch(option: DraftOption) -> str:
    return _shown(option.facts.arch) if option.facts else _NONE


_MEMORY = "memory"
_WORDS = frozenset({"parameters, quant", "arch"})
"""Headings of columns that are no numbers."""

_LISTED: _Cells = {
    "size": lambda option: bytes_text(option.model.size_bytes),
    "parameters, quant": lambda option: option.model.label or _NONE,
    "arch": _arch,
    "context": _number(lambda facts: facts.n_ctx_train),
    "layers": _number(lambda facts: facts.n_layers),
    "experts": _number(lambda facts: facts.n_experts),
    _MEMORY: _memory,
}
"""What stands under a heading."""
_LEAST_LISTED = ("parameters, quant", _MEMORY, "layers", "experts", "arch", "context")


def _ranked(target: ModelFacts) -> _Cells:
    return {
        "share": lambda option: f"{option.model.size_bytes / target.size_bytes:.1%}",
        _MEMORY: _memory,
        "size": _LISTED["size"],
        "parameters, quant": _LISTED["parameters, quant"],
        "arch": _arch,
        "layers": _LISTED["layers"],
    }


_LEAST_RANKED = ("parameters, quant", "layers", "arch", "size", _MEMORY)
