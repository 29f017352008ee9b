"""Plans and fetches a preset's models, so that a file of the final name is always whole.

Bytes are gathered in a file of another name, checked, and only then renamed. Stopping at any moment
loses nothing that was written: the next run goes on where the gathered bytes end.
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from filelock import lock_descriptor

from spectui.errors import BadInputError
from spectui.paths import ensure_dir
from spectui.presets.content import ModelFiles, Preset
from spectui.presets.hub import ConnectionLostError, find_files, read_from
from spectui.presets.plan import (
    HubFile,
    PlannedFile,
    PullEvent,
    PullPaused,
    PullPlan,
    PullProgress,
    Role,
    State,
    Step,
    remember,
    sha256_of,
)

PAUSES_S = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
"""Before the hub is asked again and again while nothing comes; only once after what will last."""
_GB, _TB = 1e9, 1e12


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """Turns bytes and time into events."""

    on_event: Callable[[PullEvent], None]
    """Called in the thread that fetches, for every chunk."""
    clock: Callable[[], float] = time.monotonic
    """In seconds."""
    sleep: Callable[[float], None] = time.sleep
    """Sleep for seconds; an interrupt ends it."""

    def begin(self, file: PlannedFile, step: Step, done_bytes: int = 0) -> Callable[[int], None]:
        """Report that a step begins; return what reports how far it is."""
        began_s = self.clock()

        def report(now_bytes: int) -> None:
            took_s = self.clock() - began_s
            self.on_event(
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

    def pause(self, file: PlannedFile, pause_s: float, reason: str) -> None:
        """Tell why nothing comes, and wait."""
        self.on_event(PullPaused(file=file.path.name, reason=reason, pause_s=pause_s))
        self.sleep(pause_s)


def plan_pull(preset: Preset, *, only: Role | None = None, globs: Sequence[str] = ()) -> PullPlan:
    """Ask the hub which files the preset's models are; writes nothing.

    Args:
        preset: names the models.
        only: just the target or the drafts.
        globs: just files that match one of them; all if there is none.

    Raises:
        BadInputError: there is nothing to fetch, the hub does not say what, or the files of two
            models would be mixed up in their folder.
    """
    files: dict[Path, PlannedFile] = {}
    skipped: list[str] = []
    for role, model in _models(preset, only):
        for source in find_files(model.repo, model.files):
            _check_own(preset, source)
            if globs and not any(PurePosixPath(source.name).match(glob) for glob in globs):
                skipped.append(source.name)
                continue
            path = preset.models_folder / source.name
            files.setdefault(path, PlannedFile(role=role, source=source, path=path))
    if not files:
        raise _nothing(preset, only, globs, skipped)
    return PullPlan(preset=preset.name, folder=preset.models_folder, files=tuple(files.values()))


def _models(preset: Preset, only: Role | None) -> Iterator[tuple[Role, ModelFiles]]:
    if preset.target is not None and only is not Role.DRAFT:
        yield Role.TARGET, preset.target
    if only is not Role.TARGET:
        for draft in preset.draft:
            yield Role.DRAFT, draft


def _check_own(preset: Preset, source: HubFile) -> None:
    """Refuse a file that would later be found as a model of another repository."""
    for role, model in _models(preset, None):
        if model.repo != source.repo and model.takes(source.name):
            raise BadInputError(
                f"preset {preset.name} would take {source.name} of {source.repo} for the {role} "
                f"{model} as well, as all its models lie in one folder; name the files of each "
                "more exactly in the preset, or split it"
            )


def _nothing(
    preset: Preset, only: Role | None, globs: Sequence[str], skipped: Sequence[str]
) -> BadInputError:
    if skipped:
        return BadInputError(
            f"preset {preset.name} has no file that matches {' or '.join(globs)}: it has "
            f"{', '.join(skipped)}; give another --file"
        )
    return BadInputError(
        f"preset {preset.name} names no {only or 'model'} to fetch; give one that does, "
        "spectui presets list names them all"
    )


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
        with _locked(path):
            path.unlink()
    with _locked(file.part) as part:
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


@contextmanager
def _locked(path: Path) -> Iterator[BinaryIO]:
    """Open a file to append to it, which is made where there is none, and keep others out.

    Raises:
        BadInputError: another process has it.
        OSError: it cannot be opened.
    """
    while True:
        with path.open("ab") as file:
            if not lock_descriptor(file.fileno(), blocking=False):
                raise BadInputError(
                    f"{path} is being fetched by another spectui; wait until it is done"
                )
            if _is_at(path, file):
                yield file
                return


def _is_at(path: Path, file: BinaryIO) -> bool:
    """Tell whether nobody renamed or deleted the file between opening and locking it."""
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False
