"""Which files of the hub the models of a preset are."""

from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from spectui.errors import BadInputError
from spectui.presets.content import ModelFiles
from spectui.presets.files import Preset
from spectui.presets.hub import find_files
from spectui.presets.plan import HubFile, PlannedFile, PullPlan, Role


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
