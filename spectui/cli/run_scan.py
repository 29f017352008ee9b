"""Runs ``spectui models scan`` with parsed options."""

from functools import partial
from pathlib import Path

from spectui.cli.drafts import DraftSearch, check_folder, is_same, or_why_not
from spectui.cli.models import Demo, Scan
from spectui.cli.output import check_writable, say, write_result
from spectui.cli.progress import Progress, open_progress
from spectui.cli.scan_view import Findings, next_command, scan_view, shown
from spectui.demo import DemoModel, ensure_demo_models
from spectui.documents import Json, or_reason
from spectui.format import counted
from spectui.llama.architectures import inspect_header, inspect_pair
from spectui.measure.backend import header
from spectui.models import files
from spectui.models.facts import ModelFacts
from spectui.models.files import FoundModel, expand_home, usual_folders
from spectui.models.gguf import check_file
from spectui.models.ranking import DraftOption, needed_memory, rank, read_share
from spectui.monitor.machine import Machine, this_machine
from spectui.paths import text_of
from spectui.settings import read_settings

_NOT_SAID = "the file does not say"
_NO_CACHE = "its layers differ, or it has no attention"
_NO_WEIGHTS = "there are no weights in the file"


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
    write_result(models_document(found, this_machine()), scan_view(found), request.json_path)


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


def _target(facts: ModelFacts, doubt: str | None) -> Json:
    known: Json = {"path": _path(facts.path), "size_bytes": facts.file_bytes, "doubt": doubt}
    return {**known, **_facts(facts)}


def _model(option: DraftOption, found: Findings) -> Json:
    model, facts = option.model, option.facts
    unread = text_of(f"it was not read: {option.reason}")
    document: Json = {
        "path": _path(model.path),
        "name": text_of(model.name),
        "label": text_of(model.label),
        "size_bytes": model.size_bytes,
        "n_shards": model.n_shards,
        "missing": [text_of(name) for name in model.missing],
        "cut": [text_of(name) for name in model.cut],
        **or_reason("facts", facts and _facts(facts), unread),
        **or_reason(
            "memory_bytes",
            option.memory_bytes,
            unread if facts is None else "one number per token does not tell its cache",
        ),
        "reason": None if option.reason is None else text_of(option.reason),
    }
    if found.searched:
        not_fetched = "no file of the repository could be chosen"
        document |= or_reason("fetch", found.fetch.get(model.path), not_fetched)
    if found.target is not None:
        document["compatible"] = option.reason is None
        why = unread if facts is None else _NO_WEIGHTS
        share = read_share(found.target, facts)
        document |= or_reason("read_share_of_target", share, why)
    return document


def _facts(facts: ModelFacts) -> Json:
    return {
        "arch": facts.arch,
        "general_name": text_of(facts.name),
        **or_reason("n_params", facts.n_params or None, _NO_WEIGHTS),
        **or_reason("n_layers", facts.n_layers or None, _NOT_SAID),
        **or_reason("n_ctx_train", facts.n_ctx_train or None, _NOT_SAID),
        **or_reason("n_vocab", facts.n_vocab or None, _NOT_SAID),
        "n_experts": facts.n_experts,
        **or_reason("kv_bytes_per_token", facts.kv_bytes_per_token, _NO_CACHE),
        **or_reason("read_bytes_per_token", facts.read_bytes_per_token, _NO_WEIGHTS),
        **({} if facts.draft_kind is None else {"drafts_as": facts.draft_kind}),
    }


def _path(path: Path) -> str:
    return text_of(str(path))
