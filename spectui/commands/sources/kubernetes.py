"""Reads a container's llama-server command out of a file of Kubernetes."""

import dataclasses
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from spectui.commands.command import ServerCommand
from spectui.commands.programs import names_server
from spectui.commands.sources.containers import Container, outside
from spectui.commands.sources.files import Replacement, Tree, chosen
from spectui.commands.sources.shell import inside
from spectui.commands.sources.source import IMAGES
from spectui.errors import BadInputError

_REFERENCE = re.compile(r"\$(\$)?\(([A-Za-z_][\w.-]*)\)")
_READ = frozenset({"name", "image", "command", "args", "env", "volumeMounts", "workingDir"})
_DEEPEST = 12


def read_kubernetes(trees: list[Tree], path: Path, wanted: str | None) -> ServerCommand:
    """A container's command, with its files where the node has them.

    Raises:
        BadInputError: no container or several run llama-server, or a variable has no value there.
    """
    found = {str(one.get("name", "")): (one, pod) for tree in trees for one, pod in _all(tree, 0)}
    servers = [name for name, (one, _pod) in found.items() if _is_server(one)]
    name = chosen(servers, wanted, path, "container", found)
    container, pod = found[name]
    variables, unknown = _variables(container)
    bounded = Replacement()

    def replaced(match: re.Match[str]) -> str:
        if match[1]:
            return match[0][1:]
        if match[2] in unknown:
            raise BadInputError(
                f"{path}: {name} uses {match[0]}, whose value is kept elsewhere; write it there"
            )
        return bounded.of(variables.get(match[2], match[0]))

    command, args = (
        [_REFERENCE.sub(replaced, str(word)) for word in container.get(key) or ()]
        for key in ("command", "args")
    )
    service: dict[str, Any] = {
        "image": str(container.get("image", "")),
        "entrypoint": command,
        "command": args,
        "environment": variables,
        "volumes": list(_volumes(container, pod)),
        "working_dir": container.get("workingDir"),
    }
    left = sorted(str(key) for key in container.keys() - _READ if container[key])
    told = f"left out, since it is for Kubernetes alone: {', '.join(left)}"
    read = dataclasses.replace(
        Container.of({k: v for k, v in service.items() if v}, path.parent, {}),
        name=name,
        notes=(told,) if left else (),
    )
    return outside(inside(read), read.mounts)


def _all(tree: object, depth: int) -> Iterator[tuple[Tree, Tree]]:
    """Yield the containers, each with the pod that it is in."""
    if depth > _DEEPEST:
        return
    if isinstance(tree, dict):
        containers = tree.get("containers")
        for one in containers if isinstance(containers, list) else ():
            if isinstance(one, dict):
                yield one, tree
    children = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ()
    for child in children:
        yield from _all(child, depth + 1)


def _is_server(container: Tree) -> bool:
    words = [str(word) for key in ("command", "args") for word in container.get(key) or ()]
    is_image = IMAGES.search(str(container.get("image", ""))) is not None
    return is_image or names_server(re.split(r"[\s'\"]+", " ".join(words)))


def _variables(container: Tree) -> tuple[dict[str, str], frozenset[str]]:
    """Variables with their values, and the names of those whose value is kept elsewhere."""
    listed = container.get("env")
    entries = [one for one in listed or () if isinstance(one, dict)]
    values = {str(one.get("name")): str(one["value"]) for one in entries if "value" in one}
    names = frozenset(str(one.get("name")) for one in entries)
    return values, names - values.keys()


def _volumes(container: Tree, pod: Tree) -> Iterator[str]:
    """Yield the node's folders with where they are in the container."""
    paths: Mapping[str, str] = {
        str(volume.get("name")): str(volume["hostPath"].get("path", ""))
        for volume in pod.get("volumes") or ()
        if isinstance(volume, dict) and isinstance(volume.get("hostPath"), dict)
    }
    for mount in container.get("volumeMounts") or ():
        if isinstance(mount, dict) and mount.get("name") in paths:
            yield f"{paths[mount['name']]}:{mount.get('mountPath', '')}"
