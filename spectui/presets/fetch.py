"""Fetches a preset's models into its folder, so that a file of the final name is always whole.

Bytes are gathered in a file of another name, checked, and only then renamed. Stopping at any moment
loses nothing that was written: the next run goes on where the gathered bytes end.
"""

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from spectui.errors import BadInputError
from spectui.paths import ensure_dir
from spectui.presets.checksum import remember, sha256_of
from spectui.presets.hub import read_from
from spectui.presets.hub_errors import ConnectionLostError
from spectui.presets.plan import PlannedFile, PullPlan, PullProgress, State, Step

_GB = 1e9


def pull(
    plan: PullPlan,
    on_progress: Callable[[PullProgress], None],
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Fetch and check what is missing.

    Args:
        plan: from ``plan_pull``.
        on_progress: called in this thread, several times a second.
        clock: in seconds.

    Raises:
        BadInputError: the disk is too small, which is found before anything is fetched; a file that
            is there is not the hub's; another process fetches the same; the hub or the disk fails;
            a fetched file is broken, and was deleted.
    """
    _check_room(plan)
    for file in plan.files:
        _check_size(file)
    ensure_dir(plan.folder)
    watch = _Watch(on_progress=on_progress, clock=clock)
    for file in plan.files:
        with _writing(file.path):
            _pull_file(file, watch)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Watch:
    on_progress: Callable[[PullProgress], None]
    clock: Callable[[], float]

    def begin(self, file: PlannedFile, step: Step, done_bytes: int = 0) -> Callable[[int], None]:
        """Report that a step begins; return what reports how far it is."""
        began_s = self.clock()

        def report(now_bytes: int) -> None:
            took_s = self.clock() - began_s
            self.on_progress(
                PullProgress(
                    file=file.path.name,
                    step=step,
                    done_bytes=now_bytes,
                    size_bytes=file.source.size_bytes,
                    bytes_per_s=(now_bytes - done_bytes) / took_s if took_s > 0 else None,
                )
            )

        report(done_bytes)
        return report


def _check_room(plan: PullPlan) -> None:
    if plan.missing_bytes > plan.free_bytes:
        raise BadInputError(
            f"{plan.folder} has {plan.free_bytes / _GB:.2f} GB free, and "
            f"{plan.missing_bytes / _GB:.2f} GB are still to be fetched; make room, make the "
            "folder a link to another disk, or leave files out with --only or --file"
        )


def _check_size(file: PlannedFile) -> None:
    if file.path.exists() and file.present_bytes != file.source.size_bytes:
        raise _foreign(file)


def _foreign(file: PlannedFile) -> BadInputError:
    return BadInputError(
        f"{file.path} is there and is not what {file.source.repo} has now; it was left as it is, "
        "move it away to fetch the other"
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


def _pull_file(file: PlannedFile, watch: _Watch) -> None:
    if file.state is State.VERIFIED:
        return
    if file.state is State.UNCHECKED:
        if not _is_right(file, file.path, watch):
            raise _foreign(file)
    else:
        file.path.parent.mkdir(parents=True, exist_ok=True)
        for path in file.other_parts():
            path.unlink()
        with _locked(file.part) as part:
            _fetch_rest(file, part, watch)
        if not _is_right(file, file.part, watch):
            file.part.unlink()
            raise BadInputError(
                f"{file.path.name} of {file.source.repo} arrived broken, its SHA-256 is not the "
                "one that the hub names; it was deleted, and the same command fetches it again"
            )
        file.part.rename(file.path)
    remember(file.path, file.source.sha256)


@contextmanager
def _locked(path: Path) -> Iterator[BinaryIO]:
    with path.open("ab") as part:
        try:
            fcntl.flock(part, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BadInputError(
                f"{path} is being fetched by another spectui; wait until it is done"
            ) from error
        yield part


def _fetch_rest(file: PlannedFile, part: BinaryIO, watch: _Watch) -> None:
    report = watch.begin(file, Step.FETCHING, part.tell())
    while (there := part.tell()) < file.source.size_bytes:
        try:
            for chunk in read_from(file.source, there):
                part.write(chunk)
                report(part.tell())
        except ConnectionLostError:
            # As long as something comes, it is worth asking for the rest.
            if part.tell() == there:
                raise
    part.flush()
    os.fsync(part.fileno())


def _is_right(file: PlannedFile, path: Path, watch: _Watch) -> bool:
    report = watch.begin(file, Step.CHECKING)
    return sha256_of(path, report) == file.source.sha256
