"""Where the host has the files that a container sees."""

import dataclasses
import os.path
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from spectui.export.sources.files import changed_variables, changed_words
from spectui.export.sources.source import Source

_SOURCE_AND_TARGET = 2


def mounts_of(service: Mapping[str, Any], folder: Path) -> dict[PurePosixPath, Path]:
    """Folders of the host by the container's, the deepest first; named volumes are left out."""
    found: dict[PurePosixPath, Path] = {}
    volumes = service.get("volumes")
    for volume in volumes if isinstance(volumes, list) else []:
        source, target = _mount(volume)
        if source.startswith((".", "/", "~")) and target:
            found[PurePosixPath(target)] = folder / os.path.expanduser(source)  # noqa: PTH111 - may be relative
    return dict(sorted(found.items(), key=lambda item: -len(item[0].parts)))


def _mount(volume: object) -> tuple[str, str]:
    if isinstance(volume, dict):
        return str(volume.get("source", "")), str(volume.get("target", ""))
    parts = str(volume).split(":")
    return (parts[0], parts[1]) if len(parts) >= _SOURCE_AND_TARGET else ("", "")


def outside(source: Source, mounts: Mapping[PurePosixPath, Path]) -> Source:
    """The same with the host's paths for files that its folders hold."""

    def moved(path: str) -> str:
        return _path(path, mounts)

    # The container's program is none of the host's.
    return dataclasses.replace(
        source,
        prelude=Source().prelude,
        words=changed_words(source.words, moved),
        variables=changed_variables(source.variables, moved),
        inside=source,
    )


def _path(value: str, mounts: Mapping[PurePosixPath, Path]) -> str:
    inside = PurePosixPath(value)
    for target, folder in mounts.items():
        if inside.is_relative_to(target):
            return os.path.normpath(folder / inside.relative_to(target))
    return value
