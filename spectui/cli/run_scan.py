"""Runs ``spectui models scan`` with parsed options."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from spectui.cli.documents.models import models_document
from spectui.cli.drafts import DraftSearch, check_folder, is_same, or_why_not
from spectui.cli.findings import Findings, look_at
from spectui.cli.interrupts import interrupts
from spectui.cli.output import check_writable, write_result
from spectui.cli.progress import Progress, open_progress
from spectui.cli.scan_table import shown
from spectui.cli.scan_view import scan_view
from spectui.engine.driver import Engine
from spectui.errors import CancelledError
from spectui.format import counted
from spectui.models.discovery import Scan, expand_home, usual_folders
from spectui.models.files import FoundModel
from spectui.models.gguf import check_file
from spectui.models.ranking import DraftOption, rank
from spectui.monitor.machine import this_machine
from spectui.settings import read_settings


def scan(
    folders: Sequence[Path],
    *,
    target: Path | None,
    n_ctx: int,
    json_path: str | None,
    quiet: bool,
) -> None:
    """Search for models, rank them for a target if one is given, and print.

    Raises:
        BadInputError: a folder does not exist, or the target cannot be used.
        CancelledError: it was interrupted; what was found until then has been printed.
    """
    check_writable(json_path, (target,))
    for folder in folders:
        check_folder(folder, str(folder))
    if target is not None:
        check_file(target)
    places = tuple(folders) or _usual()
    progress = open_progress(quiet=quiet, verbose=False)
    try:
        progress.say(f"looking for models in {counted(len(places), 'folder')}")
        if target is None:
            found = _listed(places, n_ctx, progress)
        else:
            found = _ranked(places, target, n_ctx, progress)
    finally:
        progress.close()
    document = models_document(found, this_machine())
    write_result(document, scan_view(found), json_path)
    if found.interrupted:
        raise CancelledError(
            f"interrupted after {counted(len(found.models), 'model')}; run the command again for "
            "all, or give a folder"
        )


def _usual() -> tuple[Path, ...]:
    return (*map(expand_home, read_settings().model_folders), *usual_folders())


def _listed(folders: tuple[Path, ...], n_ctx: int, progress: Progress) -> Findings:
    disk = Scan(folders)
    models, interrupted = _looked_at(disk, lambda model: look_at(model, n_ctx), progress)
    interrupts.hold()
    return Findings(
        folders=folders,
        n_ctx=n_ctx,
        target=None,
        doubt=None,
        models=tuple(models),
        links=_links(disk, models),
        passed_over=tuple(disk.reasons),
        interrupted=interrupted,
    )


def _ranked(folders: tuple[Path, ...], target: Path, n_ctx: int, progress: Progress) -> Findings:
    disk = Scan(folders)
    with Engine() as engine:
        search = DraftSearch(engine, target, n_ctx=n_ctx)
        others = (model for model in disk if not is_same(model, target))
        models, interrupted = _looked_at(others, search.look_at, progress)
        interrupts.hold()
    return Findings(
        folders=folders,
        n_ctx=n_ctx,
        target=search.target,
        doubt=search.doubt,
        models=rank(search.target, models),
        links=_links(disk, models),
        passed_over=tuple(disk.reasons),
        interrupted=interrupted,
    )


def _links(disk: Scan, options: Sequence[DraftOption]) -> tuple[tuple[Path, ...], ...]:
    listed = {option.model.path for option in options}
    return tuple((path, *others) for path, others in disk.links.items() if path in listed)


def _looked_at(
    models: Iterable[FoundModel], look: Callable[[FoundModel], DraftOption], progress: Progress
) -> tuple[list[DraftOption], bool]:
    """Examine all models; return whether an interrupt left some out."""
    options: list[DraftOption] = []
    try:
        for number, model in enumerate(models, start=1):
            progress.say(f"reading {shown(model.name)} ({number})")
            options.append(or_why_not(look, model))
    except KeyboardInterrupt:
        return options, True
    return options, False
