"""Fetches a preset's models: which files of the hub they are, and huggingface_hub's download."""

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus
from pathlib import Path, PurePosixPath

from huggingface_hub import HfApi, constants, hf_hub_download
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
)
from huggingface_hub.utils import disable_progress_bars

from spectui import __version__
from spectui.errors import BadInputError
from spectui.paths import ensure_dir
from spectui.presets.content import ModelFiles, Preset, stays_inside, takes

_GB, _TB = 1e9, 1e12
_SHOWN_NAMES = 12
_LISTING_S = 60.0
_LONGEST_NAME, _LONGEST_PATH = 200, 1000
"""Bytes of a name, and of one with its folders: the library puts files of its own beside them."""


class Role(StrEnum):
    """Role of a model in a preset."""

    TARGET = "target"
    DRAFT = "draft"


class State(StrEnum):
    """Whether a file is on this machine."""

    THERE = "there"
    MISSING = "missing"
    FOREIGN = "foreign"
    """Something else has its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFile:
    """A file of a preset's models: where it is on the hub, and where it belongs."""

    role: Role
    repo: str
    commit: str
    name: str
    """Within the repository, with its folders."""
    size_bytes: int
    path: Path

    @property
    def state(self) -> State:
        """Whether it is here, by its size: a name is given only to what was fetched whole."""
        if self.path.is_file() and self.path.stat().st_size == self.size_bytes:
            return State.THERE
        # A link that leads nowhere is the user's as well.
        return State.FOREIGN if os.path.lexists(self.path) else State.MISSING


@dataclass(frozen=True, slots=True, kw_only=True)
class PullPlan:
    """All files that a preset needs. Facts of the disk are the present ones."""

    preset: str
    folder: Path
    files: tuple[PlannedFile, ...]

    @property
    def missing_bytes(self) -> int:
        """Bytes still to be fetched."""
        return sum(one.size_bytes for one in self.files if one.state is not State.THERE)

    @property
    def free_bytes(self) -> int:
        """Free bytes of the disk that the folder is on, or will be."""
        folders = (self.folder, *self.folder.parents)
        return shutil.disk_usage(next(path for path in folders if path.is_dir())).free


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
        for file in _found(preset, role, model):
            _check_own(preset, file)
            if globs and not any(PurePosixPath(file.name).match(glob) for glob in globs):
                skipped.append(file.name)
            else:
                files.setdefault(file.path, file)
    if not files:
        raise _nothing(preset, only, globs, skipped)
    return PullPlan(preset=preset.name, folder=preset.models_folder, files=tuple(files.values()))


def _models(preset: Preset, only: Role | None) -> Iterator[tuple[Role, ModelFiles]]:
    if preset.target is not None and only is not Role.DRAFT:
        yield Role.TARGET, preset.target
    if only is not Role.TARGET:
        for draft in preset.draft:
            yield Role.DRAFT, draft


def _found(preset: Preset, role: Role, model: ModelFiles) -> Iterator[PlannedFile]:
    """Files of a model, at the newest commit of its repository."""
    with _explained(model.repo):
        info = HfApi(library_name="spectui", library_version=__version__).model_info(
            model.repo, files_metadata=True, timeout=_LISTING_S
        )
    listed = {one.rfilename: one.size for one in info.siblings or ()}
    names = sorted(name for name in listed if name.endswith(".gguf") and name.isprintable())
    for glob in model.files:
        matching = [name for name in names if takes(glob, name)]
        if not matching:
            raise BadInputError(_no_match(model.repo, glob, names))
        for name in matching:
            size_bytes = listed[name]
            if not _is_usable(name) or size_bytes is None or info.sha is None:
                raise BadInputError(
                    f"{model.repo} has a file called {name[:_LONGEST_NAME]!r}, which would not "
                    "stay in the preset's folder, has too long a name, or is of no size that is "
                    "said; nothing was fetched, give the preset another repository"
                )
            yield PlannedFile(
                role=role,
                repo=model.repo,
                commit=info.sha,
                name=name,
                size_bytes=size_bytes,
                path=preset.models_folder / name,
            )


def _is_usable(name: str) -> bool:
    encoded = os.fsencode(name)
    is_short = max(map(len, encoded.split(b"/"))) <= _LONGEST_NAME and len(encoded) <= _LONGEST_PATH
    return stays_inside(name) and is_short


def _no_match(repo: str, glob: str, names: Sequence[str]) -> str:
    shown = ", ".join(names[:_SHOWN_NAMES]) or "no .gguf file at all"
    more = f" and {len(names) - _SHOWN_NAMES} more" if len(names) > _SHOWN_NAMES else ""
    return f"no file of {repo} matches {glob}: it has {shown}{more}; correct the preset"


def _check_own(preset: Preset, file: PlannedFile) -> None:
    """Refuse a file that would later be found as a model of another repository."""
    for role, model in _models(preset, None):
        if model.repo != file.repo and model.takes(file.name):
            raise BadInputError(
                f"preset {preset.name} would take {file.name} of {file.repo} for the {role} "
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


def pull(plan: PullPlan, on_file: Callable[[str], None] | None) -> None:
    """Fetch what is missing, with huggingface_hub's own bars.

    Args:
        plan: from ``plan_pull``.
        on_file: told the name of each file that is fetched; None shows no bars either.

    Raises:
        BadInputError: a file that is there is not the hub's; the disk is too small, which is found
            before anything is fetched; the hub or the disk fails.
    """
    _check(plan)
    if on_file is None:
        disable_progress_bars()
    for file in plan.files:
        if file.state is State.THERE:
            continue
        if on_file is not None:
            on_file(file.name)
        with _explained(file.repo):
            ensure_dir(plan.folder)
            hf_hub_download(file.repo, file.name, revision=file.commit, local_dir=plan.folder)


def _check(plan: PullPlan) -> None:
    for file in plan.files:
        if file.state is State.FOREIGN:
            raise BadInputError(
                f"{file.path} is there and is not what {file.repo} has now; it was left as it is: "
                "move it away to fetch the other, or leave it out with --only or --file"
            )
    missing_bytes, free_bytes = plan.missing_bytes, plan.free_bytes
    if missing_bytes > free_bytes:
        raise BadInputError(
            f"{plan.folder} has {_size(free_bytes)} free, and {_size(missing_bytes)} are still to "
            "be fetched; make room, make the folder a link to another disk, or leave "
            "files out with --only or --file"
        )


def _size(n_bytes: int) -> str:
    # Exact enough to tell by how little it fails.
    return f"{n_bytes / _TB:,.2f} TB" if n_bytes >= _TB else f"{n_bytes / _GB:.2f} GB"


@contextmanager
def _explained(repo: str) -> Iterator[None]:
    """Turn what huggingface_hub raises inside into one sentence about ``repo``.

    What it, its client and its parser raise has no common class, so all but defects is caught.
    """
    try:
        yield
    except Exception as error:
        # What it raises where it cannot ask for a file has the reason as its cause.
        cause = error.__cause__ if isinstance(error, FileNotFoundError) else None
        raise BadInputError(_sentence(cause or error, repo)) from error


def _sentence(error: BaseException, repo: str) -> str:
    where = f"{constants.ENDPOINT}/{repo}"
    match error:
        case GatedRepoError():
            return (
                f"{repo} is open to those who have accepted its licence: accept it at {where}, "
                "set HF_TOKEN to a token of that account, and run the same command again"
            )
        case RepositoryNotFoundError():
            return (
                f"there is no repository {where}, or it is private: correct the name in the "
                "preset, or set HF_TOKEN to a token that may read it"
            )
        case HfHubHTTPError(response=response):
            status = f"{response.status_code} {response.reason_phrase}"
            if response.status_code in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
                return (
                    f"{where} may not be read ({status}): correct its name in the preset, or set "
                    "HF_TOKEN to a token that may read it"
                )
            return f"{where} cannot be read now ({status}); try the same command later"
        case OfflineModeIsEnabled():
            return (
                f"HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE is set, so {repo} cannot be fetched; "
                "unset it"
            )
    reason = (str(error).strip() or type(error).__name__).splitlines()[0]
    return (
        f"{where} cannot be fetched ({reason}); check the network, HF_ENDPOINT, HF_TOKEN, "
        "proxies, certificates and the room on the disk: whole files are kept, and the same "
        "command goes on"
    )
