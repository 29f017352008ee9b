"""Runs ``spectui models scan`` and ``demo``: the search, its document, and its page."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from spectui.cli.models import Demo, Scan
from spectui.cli.output import check_writable, say, write_result
from spectui.cli.page import is_ascii_only, page_text, shell_line
from spectui.cli.progress import Progress, open_progress
from spectui.demo import DemoModel, ensure_demo_models
from spectui.display import visible
from spectui.doctor.drafts import DraftSearch, check_folder, is_same, or_why_not
from spectui.documents import Json, fields_of, or_reason
from spectui.format import bytes_text, counted, percent_text
from spectui.llama.architectures import inspect_header, inspect_pair
from spectui.measure.backend import header
from spectui.models import files
from spectui.models.facts import ModelFacts
from spectui.models.files import FoundModel, expand_home, usual_folders
from spectui.models.gguf import check_file
from spectui.models.ranking import GOOD_SHARE, DraftOption, needed_memory, rank, read_share
from spectui.monitor.machine import Machine, this_machine
from spectui.options.drafters import HIDDEN_STATE_KINDS, MTP_KIND
from spectui.page import Page, Paragraph, Part, Table, Words
from spectui.paths import text_of
from spectui.settings import read_settings


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
_NONE = "–"
"""Sign for an unknown number. A column of nothing else is dropped."""

_Cells = Mapping[str, Callable[[DraftOption], str]]


def scan_page(found: Findings) -> Page:
    """All models that were found."""
    groups = [group for group in (*_models(found), _passed_over(found)) if group]
    return [part for group in groups for part in ("", *group)][1:]


def _models(found: Findings) -> Iterator[list[Part]]:
    if not found.models:
        yield [Paragraph(_nothing(found))]
        yield _elsewhere(found)
    elif found.target is None:
        yield [_table(found, found.models, _LISTED, _LEAST_LISTED)]
        yield _reasons("Cannot be used:", found)
    else:
        yield [Paragraph(f"Drafts for {shown(found.target.path.name)}")]
        if found.doubt is not None:
            yield [Paragraph(f"note: {found.doubt}.")]
        if found.fitting:
            yield [_table(found, found.fitting, _ranked(found.target), _LEAST_RANKED)]
        yield from _advice(found)
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


def _advice(found: Findings) -> Iterator[list[Part]]:
    target, first = found.target, found.first
    if target is None or first is None:
        yield [Paragraph(f"Of {counted(len(found.models), 'model')} none fits.")]
        yield _elsewhere(found)
        return
    name = _names_of(found.models)[first.model.path]
    then = _MEASURE
    if found.searched:
        is_own = first.facts is not None and first.facts.draft_kind in HIDDEN_STATE_KINDS
        more = " --backend server" if is_own else ""
        then = f"Fetch it, and measure it with spectui tune{more} -md and the path that is printed:"
    yield [Paragraph(f"Try {name} first{_cost(target, first)} {then}"), next_command(found)]
    others = [found.fetch[one.model.path] for one in found.fitting[1:] if found.searched]
    yield ["The others:", *others] if others else []


def _elsewhere(found: Findings) -> list[Part]:
    """Where else a draft may be, below a sentence that says that there is none."""
    if found.target is None or found.searched:
        return []
    command = shell_line(["spectui", "models", "find", "-m", str(found.target.path)])
    return [Paragraph(_ELSEWHERE), command]


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


def _reasons(title: str, found: Findings) -> list[Part]:
    names = _names_of(found.models)
    return _notes(
        title,
        [
            f"{names[one.model.path]}: {shown(one.reason.removeprefix(f'{one.model.path} '))}"
            for one in found.models
            if one.reason is not None
        ],
    )


def _passed_over(found: Findings) -> list[Part]:
    sentences = [shown(reason) for reason in found.passed_over[:_N_PASSED_OVER]]
    n_more = len(found.passed_over) - len(sentences)
    more = [f"and {n_more} more; --json names all"] if n_more else []
    return _notes("Passed over:", [*sentences, *more])


def _notes(title: str, sentences: Sequence[str]) -> list[Part]:
    """Notes below a title; nothing if there are none."""
    notes = (Paragraph(one, first="  ", breaks_words=True) for one in sentences)
    return [title, *notes] if sentences else []


def _table(
    found: Findings, options: Sequence[DraftOption], cells: _Cells, least: Sequence[str]
) -> Table:
    """Models with facts from their files, or with what they cost; ``least`` goes first."""
    names = _names_of(found.models)
    kept = {
        head: cell for head, cell in cells.items() if any(cell(one) != _NONE for one in options)
    }
    return Table(
        (
            Words("model", is_cut=True),
            *(Words(head, is_whole=True) if head in _WORDS else head for head in kept),
        ),
        [(names[one.model.path], *(cell(one) for cell in kept.values())) for one in options],
        row_styles=["dim" if one.reason is not None else "" for one in options],
        leaving=dict.fromkeys(least, _LEAST_NAME),
        captions={
            _READS: "reads: weights that a token reads, as a share of what one of the target reads",
            _MEMORY: f"memory: weights and cache at {counted(found.n_ctx, 'token')} of context",
        },
    )


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


def scan(request: Scan) -> None:
    """Search for models, rank them for a target if one is given, and print.

    Raises:
        BadInputError: a folder does not exist, or the target cannot be used.
    """
    target = request.target
    check_writable(request.json_path, (target,))
    for folder in request.folders:
        check_folder(folder, str(folder))
    if target is not None:
        check_file(target)
    places = request.folders or _usual()
    with open_progress(quiet=request.quiet) as progress:
        progress.say(f"looking for models in {counted(len(places), 'folder')}")
        found = _search(places, target, request.n_ctx, progress)
    write_result(
        models_document(found, this_machine()), page_text(scan_page(found)), request.json_path
    )


def build_demo(request: Demo) -> None:
    """Build the demo models and print their paths."""
    with open_progress(quiet=request.quiet) as progress:
        built = ensure_demo_models(
            tuple(DemoModel), seed=request.seed, on_progress=progress.on_demo
        )
    for model, path in built.items():
        say(f"{model}\t{path}")


def _usual() -> tuple[Path, ...]:
    return (*map(expand_home, read_settings().model_folders), *usual_folders())


def _search(
    folders: tuple[Path, ...], target: Path | None, n_ctx: int, progress: Progress
) -> Findings:
    disk = files.Scan(folders)
    search = None if target is None else DraftSearch(inspect_pair, target, n_ctx=n_ctx)
    look = partial(_look_at, n_ctx=n_ctx) if search is None else search.look_at
    others = (model for model in disk if target is None or not is_same(model, target))
    models = []
    for number, model in enumerate(others, start=1):
        progress.say(f"reading {shown(model.name)} ({number})")
        models.append(or_why_not(look, model))
    return Findings(
        folders=folders,
        n_ctx=n_ctx,
        target=None if search is None else search.target,
        doubt=None if search is None else search.doubt,
        models=tuple(models) if search is None else rank(search.target, models),
        passed_over=tuple(disk.reasons),
    )


def _look_at(model: FoundModel, *, n_ctx: int) -> DraftOption:
    """Describe a model by its header, without a target."""
    reason, facts = model.damage, None
    if reason is None:
        told = inspect_header(model.path)
        reason, facts = told.reason, told.facts
    memory_bytes = needed_memory(model, facts, n_ctx)
    return DraftOption(model=model, facts=facts, reason=reason, memory_bytes=memory_bytes)


def models_document(found: Findings, machine: Machine) -> Json:
    """``spectui.models/1``.

    ``models`` is what was found, with ``target`` the best draft first. ``reason`` says why a model
    cannot be used, with ``target`` why not as its draft; null where nothing speaks against it.
    The target's ``doubt`` says that its weights have no room in memory.
    """
    target, first = found.target, found.first
    return {
        **header("models", machine),
        "folders": [_path(folder) for folder in found.folders],
        "n_ctx": found.n_ctx,
        **or_reason("target", target and _target(target, found.doubt), "none was given with -m"),
        "models": [_model(option, found) for option in found.models],
        "passed_over": [text_of(reason) for reason in found.passed_over],
        **or_reason("first", first and _path(first.model.path), _without_first(found)),
        **or_reason("command", first and next_command(found), _without_first(found)),
    }


def _without_first(found: Findings) -> str:
    if found.target is None:
        return "there is no target to find a draft for"
    return "no model fits the target" if found.models else "there is no other model"


_NO_WEIGHTS = "there are no weights in the file"


def _target(facts: ModelFacts, doubt: str | None) -> Json:
    known = {"path": _path(facts.path), "size_bytes": facts.file_bytes, "doubt": doubt}
    return {**known, **_facts(facts)}


def _model(option: DraftOption, found: Findings) -> Json:
    model, facts = option.model, option.facts
    unread = text_of(f"it was not read: {option.reason}")
    uncounted = unread if facts is None else "one number per token does not tell its cache"
    document: Json = {
        "path": _path(model.path),
        "name": text_of(model.name),
        "label": text_of(model.label),
        "size_bytes": model.size_bytes,
        "n_shards": model.n_shards,
        "missing": list(map(text_of, model.missing)),
        "cut": list(map(text_of, model.cut)),
        **or_reason("facts", facts and _facts(facts), unread),
        **or_reason("memory_bytes", option.memory_bytes, uncounted),
        "reason": None if option.reason is None else text_of(option.reason),
    }
    if found.searched:
        not_fetched = "no file of the repository could be chosen"
        document |= or_reason("fetch", found.fetch.get(model.path), not_fetched)
    if found.target is not None:
        document["compatible"] = option.reason is None
        why = unread if facts is None else _NO_WEIGHTS
        document |= or_reason("read_share_of_target", read_share(found.target, facts), why)
    return document


def _facts(facts: ModelFacts) -> Json:
    document: Json = {
        "arch": facts.arch,
        "general_name": text_of(facts.name),
        "n_experts": facts.n_experts,
        **or_reason("n_params", facts.n_params or None, _NO_WEIGHTS),
        **fields_of(facts, "its layers differ, or it has no attention", "kv_bytes_per_token"),
        **fields_of(facts, _NO_WEIGHTS, "read_bytes_per_token"),
        **({} if facts.draft_kind is None else {"drafts_as": facts.draft_kind}),
    }
    for name in ("n_layers", "n_ctx_train", "n_vocab"):
        document |= or_reason(name, getattr(facts, name) or None, "the file does not say")
    return document


def _path(path: Path) -> str:
    return text_of(str(path))
