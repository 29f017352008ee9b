"""What ``spectui models scan`` does once its options are parsed."""

from collections.abc import Callable, Sequence
from pathlib import Path

from spectui.cli.documents.models import models_document
from spectui.cli.drafts import DraftSearch, check_folder, is_same
from spectui.cli.findings import Findings, look_at
from spectui.cli.interrupts import interrupts
from spectui.cli.output import check_writable, complain, write_result
from spectui.cli.scan_view import scan_view
from spectui.engine.driver import Engine
from spectui.errors import CancelledError
from spectui.llama.files import check_file
from spectui.models.discovery import Scan, usual_folders
from spectui.models.files import FoundModel
from spectui.models.ranking import DraftOption, rank
from spectui.models.sizes import counted
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
    """Look, rank where there is a target, print.

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
    if not quiet:
        complain(f"looking for models in {counted(len(places), 'folder')}")
    with Engine() as engine:
        found = _look(engine, places, target, n_ctx)
        interrupts.hold()
    document = models_document(found, this_machine())
    write_result(document, scan_view(found), json_path)
    if found.interrupted:
        raise CancelledError(
            f"interrupted after {counted(len(found.models), 'model')}; run the command again for "
            "all, or give a folder"
        )


def _usual() -> tuple[Path, ...]:
    own = (Path(folder).expanduser() for folder in read_settings().model_folders)
    return (*own, *usual_folders())


def _look(engine: Engine, folders: tuple[Path, ...], target: Path | None, n_ctx: int) -> Findings:
    search = None if target is None else DraftSearch(engine, target, n_ctx=n_ctx)
    look: Callable[[FoundModel], DraftOption] = (
        search.look_at if search else lambda model: look_at(engine, model, n_ctx)
    )
    disk, options, interrupted = Scan(folders), list[DraftOption](), False
    try:
        for model in disk:
            if target is None or not is_same(model, target):
                options.append(look(model))
    except KeyboardInterrupt:
        interrupted = True
    return Findings(
        folders=folders,
        n_ctx=n_ctx,
        target=search.target if search else None,
        models=rank(search.target, options) if search else tuple(options),
        passed_over=tuple(disk.reasons),
        interrupted=interrupted,
    )
