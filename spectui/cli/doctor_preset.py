"""The preset section of a diagnosis: its purpose, the files that are present, its traps."""

import shlex
from collections.abc import Iterator

from spectui.format import bytes_text
from spectui.presets import Preset
from spectui.presets.content import ModelFiles, preset_folders

_GIGA = 1e9


def preset_lines(preset: Preset) -> Iterator[str]:
    """Yield the preset's lines, before its models are examined."""
    if preset.description:
        yield preset.description
    yield from _what_is_missing(preset)
    for role, files in (("target", preset.target), *(("draft", one) for one in preset.draft)):
        if files is not None:
            size = "" if files.size_gb is None else f", {bytes_text(round(files.size_gb * _GIGA))}"
            yield f"{role}: {files}{size}: {_found(preset, files)}"
    for vram_gb, options in preset.placement.by_vram_gb().items():
        if options:
            given = " ".join(f"--{name} {value}" for name, value in options.items())
            yield f"with {vram_gb} GB of video memory: {given}"
    yield from (f"trap: {trap}" for trap in preset.traps)


def _what_is_missing(preset: Preset) -> Iterator[str]:
    named = (*((preset.target,) if preset.target else ()), *preset.draft)
    missing = [one for one in named if one.find(preset.models_folder) is None]
    if not missing:
        return
    what = "Some of its models"
    if missing == list(named):
        what = "Its models"
    elif missing == list(preset.draft):
        what = "Its drafts"
    # By its name only where that finds it.
    is_known = preset.path.parent in preset_folders()
    given = shlex.quote(preset.name if is_known else str(preset.path))
    yield f"{what} are not here; fetch them with spectui models pull {given}."


def _found(preset: Preset, files: ModelFiles) -> str:
    if files.find(preset.models_folder) is not None:
        return "here"
    n_found, n_parts = files.parts_found(preset.models_folder)
    if n_found:
        return f"not here, but {n_found} of its {n_parts} parts"
    return "not here"
