"""Which files of the hub the models of a preset are."""

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from spectui.errors import BadInputError
from spectui.presets.content import ModelFiles
from spectui.presets.files import Preset
from spectui.presets.hub import find_files
from spectui.presets.plan import PlannedFile, PullPlan, Role


def plan_pull(preset: Preset, *, only: Role | None = None, globs: Sequence[str] = ()) -> PullPlan:
    """Ask the hub which files the preset's models are; writes nothing.

    Args:
        preset: names the models.
        only: just the target or the drafts.
        globs: just files that match one of them; all if there is none.

    Raises:
        BadInputError: there is nothing to fetch, or the hub does not say what.
    """
    files: dict[Path, PlannedFile] = {}
    skipped: list[str] = []
    for role, model in _models(preset, only):
        for source in find_files(model.repo, model.files):
            if globs and not any(PurePosixPath(source.name).match(glob) for glob in globs):
                skipped.append(source.name)
                continue
            path = preset.models_folder / source.name
            file = files.setdefault(path, PlannedFile(role=role, source=source, path=path))
            if file.source.sha256 != source.sha256:
                raise BadInputError(
                    f"{source.repo} and {file.source.repo} have different files of the name "
                    f"{source.name}, which cannot lie in one folder; split the preset {preset.name}"
                )
    if not files:
        raise _nothing(preset, only, globs, skipped)
    return PullPlan(
        preset=preset.name,
        folder=preset.models_folder,
        files=tuple(files.values()),
        free_bytes=shutil.disk_usage(_existing(preset.models_folder)).free,
    )


def _models(preset: Preset, only: Role | None) -> Iterator[tuple[Role, ModelFiles]]:
    if preset.target is not None and only is not Role.DRAFT:
        yield Role.TARGET, preset.target
    if only is not Role.TARGET:
        for draft in preset.draft:
            yield Role.DRAFT, draft


def _existing(folder: Path) -> Path:
    return next(path for path in (folder, *folder.parents) if path.is_dir())


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
