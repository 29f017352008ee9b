"""What an export keeps of a container's service besides its command."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from spectui.export.server_options import PREFIX

Tree = Mapping[str, Any]

_WRITTEN = frozenset({"entrypoint", "command", "environment", "env_file"})
"""What an export writes from what it read there."""
_OF_OTHERS = ("depends_on", "links", "volumes_from", "extends")
"""What is about services that do not come with it."""
_PARTS = ("volumes", "networks", "secrets", "configs")


def kept_settings(service: Tree, program: tuple[str, ...], folder: Path) -> dict[str, Any]:
    """The service less its command, environment, and what it says of other services.

    Args:
        service: by Compose's keys.
        program: what is started instead of the image's own program; empty for that.
        folder: where its relative paths start.
    """
    kept = {k: v for k, v in service.items() if k not in _WRITTEN and k not in _OF_OTHERS and v}
    volumes = kept.get("volumes")
    if isinstance(volumes, list):
        kept["volumes"] = [_volume(volume, folder) for volume in volumes]
    build = kept.get("build")
    if isinstance(build, str):
        kept["build"] = _absolute(build, folder)
    elif isinstance(build, dict) and "context" in build:
        kept["build"] = {**build, "context": _absolute(str(build["context"]), folder)}
    return {**kept, **({"entrypoint": list(program)} if program else {})}


def own_variables(service: Tree) -> dict[str, Any]:
    """What a service's ``environment`` sets; None for what is taken from around it."""
    environment = service.get("environment")
    if isinstance(environment, dict):
        return {str(name): value for name, value in environment.items()}
    listed = environment if isinstance(environment, list) else []
    pairs = (str(item).partition("=") for item in listed)
    return {name: value if equals else None for name, equals, value in pairs}


def kept_environment(service: Tree, merged: Mapping[str, str], folder: Path) -> dict[str, Any]:
    """The service's variables as it has them, less those that are written as arguments.

    Values that stand elsewhere stay there: they may be secrets.

    Args:
        service: by Compose's keys.
        merged: all that it sets, those of its files as well.
        folder: where its relative paths start.
    """
    own = own_variables(service)
    of_files = {name: value for name, value in merged.items() if name not in own}
    listed = service.get("env_file")
    files = listed if isinstance(listed, list) else [listed] if listed else []
    if any(name.startswith(PREFIX) for name in of_files):
        own, files = {**of_files, **own}, []
    kept = {name: value for name, value in own.items() if not name.startswith(PREFIX)}
    found = {"environment": kept, "env_file": [_env_file(file, folder) for file in files]}
    return {key: value for key, value in found.items() if value}


def _env_file(file: object, folder: Path) -> object:
    if isinstance(file, dict):
        return {**file, "path": _absolute(str(file.get("path", "")), folder)}
    return _absolute(str(file), folder)


def told_of_settings(service: Tree) -> Iterator[str]:
    """Sentences about what does not come with it."""
    left = [key for key in _OF_OTHERS if service.get(key)]
    if left:
        yield f"left out, since other services are not written: {', '.join(left)}"


def referred(service: Tree, tree: Tree, path: Path) -> dict[str, Any]:
    """The parts of a Compose file that a service needs.

    Args:
        service: by Compose's keys.
        tree: all of the file.
        path: of the file, whose folder names the project that volumes belong to.
    """
    found = {part: tree[part] for part in _PARTS if part in tree and service.get(part)}
    if not found and "name" not in tree:
        return found
    # A volume's name begins with its project's, which is the folder's unless told.
    return {"name": tree.get("name", _project(path)), **found}


def _project(path: Path) -> str:
    name = path.absolute().parent.name.lower()
    return "".join(char for char in name if char.isalnum() or char in "_-").lstrip("_-") or "llama"


def _volume(volume: object, folder: Path) -> object:
    if isinstance(volume, dict):
        source = volume.get("source")
        is_path = isinstance(source, str) and source.startswith((".", "~"))
        return {**volume, "source": _absolute(str(source), folder)} if is_path else volume
    source, colon, rest = str(volume).partition(":")
    return f"{_absolute(source, folder)}{colon}{rest}" if source.startswith((".", "~")) else volume


def _absolute(path: str, folder: Path) -> str:
    return path if "://" in path else os.path.abspath(folder / os.path.expanduser(path))  # noqa: PTH100, PTH111 - links stay
