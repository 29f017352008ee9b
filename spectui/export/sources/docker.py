"""Reads ``docker run`` and ``podman run`` as a service of Compose."""

import csv
import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import Any

from spectui.export.sources.containers import Container
from spectui.export.sources.source import CONTAINERS

_ONE = {
    **dict.fromkeys(("-u", "--user"), "user"),
    **dict.fromkeys(("-w", "--workdir"), "working_dir"),
    **{f"--{key}": key for key in ("restart", "ipc", "runtime", "entrypoint")},
    "--name": "container_name",
    "--shm-size": "shm_size",
}
"""Keys that hold one value."""
_MANY = {
    **dict.fromkeys(("-v", "--volume", "--mount"), "volumes"),
    **dict.fromkeys(("-e", "--env"), "environment"),
    **dict.fromkeys(("-p", "--publish"), "ports"),
    "--env-file": "env_file",
    "--device": "devices",
    "--group-add": "group_add",
    "--cap-add": "cap_add",
    "--security-opt": "security_opt",
}
"""Keys that hold a list."""
_OF_THE_RUN = frozenset({"--rm", "--detach", "--interactive", "--tty", "--quiet", "--replace"})
"""Switches that concern a single run only; short ones are those of ``_LETTERS``."""
_SWITCHES = _OF_THE_RUN | frozenset(
    {"--init", "--privileged", "--read-only", "--publish-all", "--no-healthcheck", "--sig-proxy"}
    | {"--oom-kill-disable", "--tls-verify", "--no-hosts", "--disable-content-trust"}
)
"""Options that take no value."""
_LETTERS = frozenset("ditq")
_NETWORK_MODES = frozenset({"host", "none", "bridge"})


def docker_run(words: Sequence[str], folder: Path) -> Container | None:
    """The container that a command runs in ``folder``; None for any other command.

    Raises:
        BadInputError: a file of its environment cannot be read.
    """
    program = next((n for n, w in enumerate(words) if PurePath(w).name in CONTAINERS), None)
    if program is None or "run" not in words[program + 1 : program + 3]:
        return None
    at = words.index("run", program) + 1
    service: dict[str, Any] = {}
    left: list[str] = []
    while at < len(words) and words[at].startswith("-"):
        flag, equals, value = words[at].partition("=")
        is_short = not flag.startswith("--")
        at += 1
        if flag in _OF_THE_RUN or (is_short and _LETTERS.issuperset(flag[1:])):
            continue
        if flag in _SWITCHES or flag == "-P":
            left.append(flag)
            continue
        if not equals and is_short and len(flag) > 2:  # noqa: PLR2004 - as -vA:B
            flag, value = flag[:2], flag[2:]
        elif not equals:
            value = words[at] if at < len(words) else ""
            at += 1
        if not _keep(service, flag, value):
            left.append(flag)
    image = words[at] if at < len(words) else ""
    service = {"image": image, **service, "command": list(words[at + 1 :])}
    told = f"left out, since spectui knows no word of Compose for it: {', '.join(left)}"
    return dataclasses.replace(
        Container.of(service, folder, os.environ),
        name=service.get("container_name"),
        around=_around(service),
        notes=(told,) if left else (),
    )


def _keep(service: dict[str, Any], flag: str, value: str) -> bool:
    """Set the service's Compose key for an option; return whether there is one."""
    if flag in _MANY:
        kept = _mount(value) if flag == "--mount" else value
        service.setdefault(_MANY[flag], []).append(kept)
    elif flag in _ONE:
        service[_ONE[flag]] = [value] if flag == "--entrypoint" else value
    elif flag == "--gpus":
        service["deploy"] = {"resources": {"reservations": {"devices": [_gpus(value)]}}}
    elif flag in {"--network", "--net"} and value in _NETWORK_MODES:
        service["network_mode"] = value
    else:
        return False
    return True


def _mount(value: str) -> dict[str, Any]:
    """A mount ``type=bind,source=A,target=B``, with any of the keys' names."""
    pairs = dict(part.partition("=")[::2] for part in value.split(","))
    source = pairs.get("source") or pairs.get("src", "")
    target = pairs.get("target") or pairs.get("dst") or pairs.get("destination", "")
    mount = {"type": pairs.get("type", "volume"), "source": source, "target": target}
    kept: dict[str, Any] = {key: text for key, text in mount.items() if text}
    return kept if {"readonly", "ro"}.isdisjoint(pairs) else {**kept, "read_only": True}


def _gpus(value: str) -> dict[str, Any]:
    """``all``, a number, or ``"device=0,1"`` with quotes of its own."""
    device: dict[str, Any] = {"driver": "nvidia", "capabilities": ["gpu"]}
    for part in next(csv.reader([value]), []):
        key, equals, text = part.partition("=")
        if key == "device":
            device["device_ids"] = text.split(",")
        elif key in {"driver", "capabilities"}:
            device[key] = text if key == "driver" else text.split(",")
        else:
            count = text if equals else key
            device["count"] = int(count) if count.isdecimal() else count
    return device


def _around(service: dict[str, Any]) -> dict[str, Any]:
    """Volumes that docker made before, by name."""
    names: dict[str, Any] = {}
    for volume in service.get("volumes", ()):
        is_text = isinstance(volume, str)
        name = volume.partition(":")[0] if is_text else volume.get("source", "")
        if name and not name.startswith((".", "/", "~")) and (not is_text or ":" in volume):
            names[name] = {"external": True}
    return {"volumes": names} if names else {}
