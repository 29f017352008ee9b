"""Fetches a preset's models into its folder, so that a file of the final name is always whole.

Bytes are gathered in a file of another name, checked, and only then renamed. Stopping at any moment
loses nothing that was written: the next run goes on where the gathered bytes end.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from spectui.errors import BadInputError
from spectui.paths import ensure_dir
from spectui.presets.checksum import remember, sha256_of
from spectui.presets.hub_errors import ConnectionLostError
from spectui.presets.hub_stream import read_from
from spectui.presets.lock import locked
from spectui.presets.plan import PlannedFile, PullPlan, State, Step
from spectui.presets.watch import Watch

PAUSES_S = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
"""Before the hub is asked again and again while nothing comes; only once after what will last."""
_GB, _TB = 1e9, 1e12


def pull(plan: PullPlan, watch: Watch) -> None:
    """Fetch and check what is missing.

    Args:
        plan: from ``plan_pull``.
        watch: is told how far it is.

    Raises:
        BadInputError: a file that is there is not the hub's; the disk is too small, which is found
            before anything is fetched; another process fetches the same; the hub or the disk fails;
            a fetched file is broken, and was deleted.
    """
    for file in plan.files:
        if file.state is State.FOREIGN:
            raise _foreign(file)
    _check_room(plan)
    ensure_dir(plan.folder)
    for file in plan.files:
        with _writing(file.path):
            _pull_file(file, watch)


def _check_room(plan: PullPlan) -> None:
    missing_bytes, free_bytes = plan.missing_bytes, plan.free_bytes
    if missing_bytes > free_bytes:
        raise BadInputError(
            f"{plan.folder} has {_size(free_bytes)} free, and {_size(missing_bytes)} are still to "
            "be fetched; make room, make the folder a link to another disk, or leave "
            "files out with --only or --file"
        )


def _size(n_bytes: int) -> str:
    # Exact enough to tell by how little it fails.
    is_large = n_bytes >= _TB
    return f"{n_bytes / _TB:,.2f} TB" if is_large else f"{n_bytes / _GB:.2f} GB"


def _foreign(file: PlannedFile) -> BadInputError:
    return BadInputError(
        f"{file.path} is there and is not what {file.source.repo} has now; it was left as it is: "
        "move it away to fetch the other, or leave it out with --only or --file"
    )


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BadInputError(
            f"{path} cannot be written ({error.strerror}); put that right or make room: what was "
            "fetched is kept, and the same command goes on"
        ) from error


def _pull_file(file: PlannedFile, watch: Watch) -> None:
    match file.state:
        case State.VERIFIED:
            return
        case State.UNCHECKED | State.FOREIGN:
            _check_present(file, watch)
        case State.PARTIAL | State.MISSING:
            _fetch(file, watch)


def _check_present(file: PlannedFile, watch: Watch) -> None:
    if file.state is State.FOREIGN or not _is_right(file, file.path, watch):
        raise _foreign(file)
    remember(file.path, file.source.sha256)


def _fetch(file: PlannedFile, watch: Watch) -> None:
    file.path.parent.mkdir(parents=True, exist_ok=True)
    for path in file.other_parts():
        with locked(path):
            path.unlink()
    with locked(file.part) as part:
        if not os.path.lexists(file.path):
            _gather(file, part, watch)
        # Whoever has put a file there meanwhile keeps it.
        if os.path.lexists(file.path):
            _check_present(file, watch)
            file.part.unlink()
        else:
            file.part.rename(file.path)
            remember(file.path, file.source.sha256)


def _gather(file: PlannedFile, part: BinaryIO, watch: Watch) -> None:
    _fetch_rest(file, part, watch)
    if not _is_right(file, file.part, watch):
        file.part.unlink()
        raise BadInputError(
            f"{file.path.name} of {file.source.repo} arrived broken, its SHA-256 is not the one "
            "that the hub names; it was deleted, and the same command fetches it again"
        )


def _fetch_rest(file: PlannedFile, part: BinaryIO, watch: Watch) -> None:
    report = watch.begin(file, Step.FETCHING, part.tell())
    pauses_s, lasted = iter(PAUSES_S), False
    while (there := part.tell()) < file.source.size_bytes:
        try:
            for chunk in read_from(file.source, there):
                part.write(chunk)
                report(part.tell())
        except ConnectionLostError as error:
            if part.tell() > there:
                pauses_s = iter(PAUSES_S)
            pause_s = next(pauses_s, None)
            if pause_s is None or (lasted and error.is_lasting):
                raise
            lasted = error.is_lasting
            watch.pause(file, pause_s, error.reason)
    part.flush()
    os.fsync(part.fileno())


def _is_right(file: PlannedFile, path: Path, watch: Watch) -> bool:
    report = watch.begin(file, Step.CHECKING)
    return sha256_of(path, report) == file.source.sha256
