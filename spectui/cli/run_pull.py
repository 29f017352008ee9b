"""Runs ``spectui models pull`` with parsed options."""

from typing import Any

from spectui import __version__
from spectui.cli.output import check_writable, complain, write_result
from spectui.errors import CancelledError
from spectui.format import bytes_text, counted
from spectui.interrupts import interrupts
from spectui.paths import text_of
from spectui.presets import find_preset
from spectui.presets.pull import PlannedFile, PullPlan, Role, State, plan_pull, pull


def run(
    name: str,
    *,
    only: str | None,
    globs: tuple[str, ...],
    dry_run: bool,
    json_path: str | None,
    quiet: bool,
) -> None:
    """Query the hub, print an overview, and fetch the files.

    Raises:
        CancelledError: it was interrupted; whole files are kept.
    """
    preset = find_preset(name)
    check_writable(json_path, (preset.path,))
    try:
        plan = plan_pull(preset, only=Role(only) if only else None, globs=globs)
        check_writable(json_path, [file.path for file in plan.files])
        if not dry_run:
            _fetch(plan, quiet=quiet)
    except KeyboardInterrupt:
        raise CancelledError(
            "interrupted; whole files are kept, and the same command fetches the rest"
        ) from None
    interrupts.hold()
    paths = "\n".join(f"{file.role}\t{file.path}" for file in plan.files)
    text = _overview(plan) if dry_run else paths
    write_result(_document(plan, dry_run=dry_run), text, json_path)


def _fetch(plan: PullPlan, *, quiet: bool) -> None:
    if not quiet:
        complain(_overview(plan))
    pull(plan, None if quiet else lambda name: complain(f"fetching {name}"))


def _overview(plan: PullPlan) -> str:
    rows = [(str(file.role), _how_much(file), _name(file)) for file in plan.files]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    lines = [f"{row[0]:<{widths[0]}}  {row[1]:<{widths[1]}}  {row[2]}" for row in rows]
    return "\n".join([*lines, _sum(plan)])


def _how_much(file: PlannedFile) -> str:
    size = bytes_text(file.size_bytes)
    match file.state:
        case State.THERE:
            return f"{size}, there"
        case State.MISSING:
            return size
        case State.FOREIGN:
            return f"{size}, another file has its name"


def _name(file: PlannedFile) -> str:
    return f"{file.name} of {file.repo}"


def _sum(plan: PullPlan) -> str:
    return (
        f"{counted(len(plan.files), 'file')}, {bytes_text(plan.missing_bytes)} to fetch into "
        f"{plan.folder}, which has {bytes_text(plan.free_bytes)} free"
    )


def _document(plan: PullPlan, *, dry_run: bool) -> dict[str, Any]:
    return {
        "schema": "spectui.pull/1",
        "spectui": __version__,
        "preset": text_of(plan.preset),
        "folder": text_of(str(plan.folder)),
        "dry_run": dry_run,
        "missing_bytes": plan.missing_bytes,
        "free_bytes": plan.free_bytes,
        "files": [_file_document(file) for file in plan.files],
    }


def _file_document(file: PlannedFile) -> dict[str, Any]:
    return {
        "role": file.role,
        "repo": file.repo,
        "commit": file.commit,
        "name": file.name,
        "path": text_of(str(file.path)),
        "size_bytes": file.size_bytes,
        "state": file.state,
    }
