"""Runs ``spectui models``: what is here and what the hub has, as drafts; the demo models."""

import os
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from spectui.cli.models import Demo, Find, Scan
from spectui.cli.output import check_writable, say
from spectui.cli.page import is_ascii_only, next_lines, write_result
from spectui.cli.progress import open_progress
from spectui.demo import DemoModel, ensure_demo_models
from spectui.display import visible
from spectui.documents import Json, fields_of, or_reason
from spectui.errors import BadInputError, HubError, UsageError
from spectui.format import NONE, bytes_text, counted, percent_text
from spectui.llama.architectures import inspect_header, inspect_pair
from spectui.measure.backend import header
from spectui.models import files
from spectui.models.candidates import HubModel, Origin, Repository, candidates, choose_file
from spectui.models.facts import ModelFacts, check_is_target
from spectui.models.files import FoundModel, expand_home, usual_folders
from spectui.models.pairs import Header, compare_headers, header_of
from spectui.models.ranking import GOOD_SHARE, DraftOption, look_at, needed_memory, rank, read_share
from spectui.monitor.machine import this_machine
from spectui.options.drafters import MTP_KIND
from spectui.page import Page, Paragraph, Part, Table, Words
from spectui.paths import text_of
from spectui.settings import read_settings

if TYPE_CHECKING:
    from spectui.models.hub import Hub

_MOST_OF_HUB = 8
"""Maximum number of repositories that are looked into, the most promising first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Findings:
    """Models of a machine or of a hub, with a target seen as its drafts."""

    n_ctx: int
    target: ModelFacts | None
    models: tuple[DraftOption, ...]
    """The most promising draft first; without a target, in their order on disk."""
    nothing: str
    """Sentence where there are none."""
    passed_over: tuple[str, ...] = ()
    """A sentence for every path that could not be examined."""
    fetch: Mapping[Path, str] | None = None
    """The commands that fetch models of a hub, by their places there; None for this machine."""

    @property
    def fitting(self) -> tuple[DraftOption, ...]:
        """Models that no reason rules out."""
        return tuple(option for option in self.models if option.reason is None)

    @property
    def command(self) -> str | None:
        """The command that measures the best draft, or fetches it; None where there is none."""
        if self.target is None or not self.fitting:
            return None
        path = self.fitting[0].model.path
        if self.fetch is not None:
            return self.fetch[path]
        pair = ["-m", str(self.target.path), "-md", str(path)]
        return shlex.join(["spectui", "tune", *pair, "-c", str(self.n_ctx)])


_N_PASSED_OVER = 10
"""Maximum number of sentences on files that are no models, of which a folder may hold thousands."""

_Cells = Mapping[str, Callable[[DraftOption], str]]


def _page(found: _Findings) -> Page:
    """All models that were found."""
    groups: list[list[Part]]
    if not found.models:
        groups = [[Paragraph(found.nothing)], _elsewhere(found)]
    elif found.target is None:
        groups = [
            [_model_table(found, found.models, _LISTED), _memory_note(found)],
            _reasons("Cannot be used:", found),
        ]
    else:
        groups = [
            [Paragraph(f"Drafts for {shown(found.target.path.name)}")],
            _ranking(found, found.target),
            _next_command(found),
            _reasons("Not for this target:", found),
        ]
    sentences = [shown(reason) for reason in found.passed_over[:_N_PASSED_OVER]]
    if len(found.passed_over) > _N_PASSED_OVER:
        sentences.append(f"and {len(found.passed_over) - _N_PASSED_OVER} more; --json names all")
    groups.append(_notes("Passed over:", sentences))
    return [part for group in groups if group for part in ("", *group)][1:]


def _next_command(found: _Findings) -> list[Part]:
    if found.command is None:
        none = Paragraph(f"Of {counted(len(found.models), 'model')} none fits.")
        return [none, *_elsewhere(found)]
    if found.fetch is None:
        return [Paragraph("Next: measure what the first one brings:"), f"  {found.command}"]
    then = "Next: fetch one, and measure it with spectui tune -md and the path that is printed:"
    return [Paragraph(then), *(f"  {found.fetch[one.model.path]}" for one in found.fitting)]


def _elsewhere(found: _Findings) -> list[Part]:
    """Where else a draft may be, below a sentence that says that there is none."""
    if found.target is None or found.fetch is not None:
        return []
    words = ["spectui", "models", "find", "-m", str(found.target.path)]
    return next_lines("look for one on Hugging Face's hub", words)


def _reasons(title: str, found: _Findings) -> list[Part]:
    names = _names(found.models)
    return _notes(
        title,
        [
            f"{names[one.model.path]}: {shown(one.reason.removeprefix(f'{one.model.path} '))}"
            for one in found.models
            if one.reason is not None
        ],
    )


def _notes(title: str, sentences: Sequence[str]) -> list[Part]:
    """Notes below a title; nothing if there are none."""
    notes = (Paragraph(one, first="  ", indent="  ") for one in sentences)
    return [title, *notes] if sentences else []


def _model_table(found: _Findings, options: Sequence[DraftOption], cells: _Cells) -> Table:
    """Models with facts from their files, or with what they cost."""
    names = _names(found.models)
    # A column of unknown numbers alone is dropped.
    kept = {head: cell for head, cell in cells.items() if any(cell(one) != NONE for one in options)}
    return Table(
        (
            Words("model"),
            *(Words(head, is_whole=True) if head == _ARCH else head for head in kept),
        ),
        [(names[one.model.path], *(cell(one) for cell in kept.values())) for one in options],
        row_styles=["dim" if one.reason is not None else "" for one in options],
    )


def _names(options: Iterable[DraftOption]) -> dict[Path, str]:
    """Names to show; the path of a model whose name another one has."""
    n_alike = Counter(one.model.name for one in options)
    return {
        one.model.path: shown(
            one.model.name if n_alike[one.model.name] == 1 else str(one.model.path)
        )
        for one in options
    }


def shown(text: str) -> str:
    """A name or sentence in characters that stdout may show."""
    return visible(text, ascii_only=is_ascii_only())


def _arch(option: DraftOption) -> str:
    facts = option.facts
    if facts is None:
        return NONE
    return shown(f"{facts.arch}, MTP alone" if facts.draft_kind == MTP_KIND else facts.arch)


_READS, _MEMORY, _ARCH = "reads", "memory", "arch"
_LISTED: _Cells = {
    "size": lambda option: bytes_text(option.model.size_bytes),
    _ARCH: _arch,
    "context": lambda option: (
        f"{option.facts.n_ctx_train:,}" if option.facts and option.facts.n_ctx_train else NONE
    ),
    _MEMORY: lambda option: (
        NONE if option.memory_bytes is None else bytes_text(option.memory_bytes)
    ),
}
"""Functions for the cells under each heading."""


def _ranking(found: _Findings, target: ModelFacts) -> list[Part]:
    """The drafts that fit, with what their columns mean."""
    if not found.fitting:
        return []
    cells = {_READS: lambda option: percent_text(read_share(target, option.facts))}
    cells |= {head: _LISTED[head] for head in (_MEMORY, "size", _ARCH)}
    low, high = (percent_text(share) for share in GOOD_SHARE)
    reads = Paragraph(
        "reads: weights that a token reads, as a share of what one of the target reads; "
        f"{low} to {high} is promising"
    )
    return [_model_table(found, found.fitting, cells), reads, _memory_note(found)]


def _memory_note(found: _Findings) -> Paragraph:
    return Paragraph(f"memory: weights and cache at {counted(found.n_ctx, 'token')} of context")


def scan(request: Scan) -> None:
    """Search for models, rank them for a target if one is given, and print.

    Raises:
        BadInputError: a folder does not exist, or the target cannot be used.
    """
    target = request.target
    check_writable(request.json_path, (target,))
    for folder in request.folders:
        _check_folder(folder)
    facts = None if target is None else _read_target(target)
    own = map(expand_home, read_settings().model_folders)
    with open_progress(quiet=request.quiet) as progress:
        folders = request.folders or (*own, *usual_folders())
        found = _search(folders, facts, request.n_ctx, progress.say)
    write_result(_document(found), _page(found), request.json_path, quiet=request.quiet)


def _look_into(repository: Repository, hub: "Hub", target: Header, n_ctx: int) -> DraftOption:
    """Choose a file of a repository and look at its header beside the target's."""
    model, reason, facts = None, "has no model that could draft", target.facts
    try:
        models = hub.models(repository.name)
        own_bytes = facts.read_bytes_per_token or facts.size_bytes
        model = choose_file(repository, models, own_bytes)
    except HubError as error:
        reason = str(error).removeprefix(f"repository {repository.name}: ")
    if model is None:
        path = Path(repository.name)
        unknown = FoundModel(path=path, name=path.name, size_bytes=0)
        return DraftOption(model=unknown, facts=None, reason=reason, memory_bytes=None)
    compare = partial(compare_headers, target, read=lambda _: hub.header(model), here=False)
    return look_at(facts, model, compare, n_ctx)


def find(request: Find) -> None:
    """Ask the hub for drafts of a target, look at their headers, and print them, ranked.

    Raises:
        BadInputError: the target cannot be used.
        HubError: the hub cannot be reached, or fails.
        UsageError: ``huggingface_hub`` is not installed.
    """
    target = request.target
    check_writable(request.json_path, (target,))
    own = header_of(target)
    check_is_target(target, own.gguf)
    try:
        from spectui.models.hub import Hub
    except ModuleNotFoundError as error:
        raise UsageError(
            "huggingface_hub, which asks the hub, is not installed; install spectui with its extra "
            "hub, or huggingface_hub beside it"
        ) from error
    hub = Hub()
    origin, facts = Origin.of(own.gguf, target.name), own.facts
    with open_progress(quiet=request.quiet) as progress:
        progress.say(f"asking the hub for drafts of {shown(origin.names[-1])}")
        # Of a mixture of experts a token reads a small part.
        share = (facts.read_bytes_per_token or facts.size_bytes) / max(facts.size_bytes, 1)
        listed = candidates(origin, share * facts.n_params, hub.search, _MOST_OF_HUB)
        options = []
        for number, repository in enumerate(listed, start=1):
            progress.say(f"reading {shown(repository.name)} ({number} of {len(listed)})")
            options.append(_look_into(repository, hub, own, request.n_ctx))
    searched = ", ".join(dict.fromkeys((*origin.names, *origin.families)))
    found = _Findings(
        n_ctx=request.n_ctx,
        target=facts,
        models=rank(facts, options),
        nothing=f"The hub was searched for {shown(searched)}, and nothing that is smaller was "
        "found; n-gram drafters need no file: spectui tune tries them by itself.",
        fetch={
            model.path: shlex.join(model.fetch_words)
            for model in (option.model for option in options)
            if isinstance(model, HubModel)
        },
    )
    write_result(_document(found), _page(found), request.json_path, quiet=request.quiet)


def build_demo(request: Demo) -> None:
    """Build the demo models and print their paths."""
    with open_progress(quiet=request.quiet) as progress:
        built = ensure_demo_models(tuple(DemoModel), on_progress=progress.on_demo)
    for model, path in built.items():
        say(f"{model}\t{path}")


def _check_folder(folder: Path) -> None:
    """Refuse a path that cannot be searched for models.

    Raises:
        BadInputError: there is no such folder.
    """
    if not os.path.isdir(folder):  # noqa: PTH112 - Path.is_dir raises on a forbidden parent
        what = " is no folder" if os.path.exists(folder) else ": no such folder"  # noqa: PTH110
        raise BadInputError(f"{folder}{what}; give a folder of GGUF models")


def _read_target(path: Path) -> ModelFacts:
    """Facts of a target.

    Raises:
        BadInputError: it cannot be read, or cannot continue a text.
    """
    found = inspect_header(path)
    if found.facts is None or found.reason is not None:
        raise BadInputError(found.reason or f"{path} cannot be read; give another model")
    return found.facts


def _search(
    folders: tuple[Path, ...], target: ModelFacts | None, n_ctx: int, say_now: Callable[[str], None]
) -> _Findings:
    say_now(f"looking for models in {counted(len(folders), 'folder')}")
    disk = files.Scan(folders)
    models: list[DraftOption] = []
    for model in disk:
        say_now(f"reading {shown(model.name)} ({len(models) + 1})")
        if target is None:
            models.append(_describe(model, n_ctx))
        elif not (model.path.exists() and model.path.samefile(target.path)):
            models.append(look_at(target, model, partial(inspect_pair, target.path), n_ctx))
    places = ", ".join(shown(str(folder)) for folder in folders)
    but = "" if target is None else " but the target"
    return _Findings(
        n_ctx=n_ctx,
        target=target,
        models=tuple(models) if target is None else rank(target, models),
        nothing=f"No GGUF model{but} was found in {places or 'the usual folders'}; give yours.",
        passed_over=tuple(disk.reasons),
    )


def _describe(model: FoundModel, n_ctx: int) -> DraftOption:
    """Describe a model by its header, without a target."""
    reason, facts = model.damage, None
    if reason is None:
        inspected = inspect_header(model.path)
        reason, facts = inspected.reason, inspected.facts
    memory_bytes = needed_memory(model, facts, n_ctx)
    return DraftOption(model=model, facts=facts, reason=reason, memory_bytes=memory_bytes)


def _document(found: _Findings) -> Json:
    """``spectui.models/1``.

    ``models`` is what was found, with ``target`` the best draft first. ``reason`` says why a model
    cannot be used, with ``target`` why not as its draft; null where nothing speaks against it.
    """
    target = found.target
    none = "there is no target" if target is None else "no model fits the target"
    return {
        **header("models", this_machine()),
        "n_ctx": found.n_ctx,
        **or_reason("target", target and _target_document(target), "none was given with -m"),
        "models": [_option_document(option, found) for option in found.models],
        "passed_over": [text_of(reason) for reason in found.passed_over],
        **or_reason("command", found.command, none),
    }


_NO_WEIGHTS = "there are no weights in the file"


def _target_document(facts: ModelFacts) -> Json:
    return {"path": text_of(str(facts.path)), "size_bytes": facts.file_bytes, **_facts(facts)}


def _option_document(option: DraftOption, found: _Findings) -> Json:
    model, facts = option.model, option.facts
    unread = text_of(f"it was not read: {option.reason}")
    uncounted = unread if facts is None else "one number per token does not tell its cache"
    document: Json = {
        "path": text_of(str(model.path)),
        "name": text_of(model.name),
        "size_bytes": model.size_bytes,
        **or_reason("facts", facts and _facts(facts), unread),
        **or_reason("memory_bytes", option.memory_bytes, uncounted),
        "reason": None if option.reason is None else text_of(option.reason),
    }
    if found.fetch is not None:
        not_fetched = "no file of the repository could be chosen"
        document |= or_reason("fetch", found.fetch.get(model.path), not_fetched)
    if found.target is not None:
        why = unread if facts is None else _NO_WEIGHTS
        document |= or_reason("read_share_of_target", read_share(found.target, facts), why)
    return document


def _facts(facts: ModelFacts) -> Json:
    document: Json = {
        "arch": facts.arch,
        "general_name": text_of(facts.name),
        "n_experts": facts.n_experts,
        **fields_of(facts, "its layers differ, or it has no attention", "kv_bytes_per_token"),
        **fields_of(facts, _NO_WEIGHTS, "read_bytes_per_token"),
        **({} if facts.draft_kind is None else {"drafts_as": facts.draft_kind}),
    }
    for name in ("n_params", "n_layers", "n_ctx_train", "n_vocab"):
        document |= or_reason(name, getattr(facts, name) or None, "the file does not say")
    return document
