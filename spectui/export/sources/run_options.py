"""Options of ``docker run`` as the keys of a service in Compose."""

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

RunOption = tuple[str, str]
"""A flag and its value, which is empty for a switch."""

_ONE = {
    **dict.fromkeys(("-u", "--user"), "user"),
    **dict.fromkeys(("-w", "--workdir"), "working_dir"),
    **dict.fromkeys(("-h", "--hostname"), "hostname"),
    **dict.fromkeys(("-m", "--memory"), "mem_limit"),
    **{f"--{key}": key for key in ("restart", "ipc", "runtime", "cpus", "pid", "platform")},
    "--name": "container_name",
    "--shm-size": "shm_size",
    "--memory-swap": "memswap_limit",
    "--cpuset-cpus": "cpuset",
    "--pull": "pull_policy",
    "--stop-signal": "stop_signal",
    "--cpu-shares": "cpu_shares",
    "--userns": "userns_mode",
    "--oom-score-adj": "oom_score_adj",
}
"""Keys that hold one value."""
_MANY = {
    **dict.fromkeys(("-v", "--volume", "--mount"), "volumes"),
    **dict.fromkeys(("-e", "--env"), "environment"),
    **dict.fromkeys(("-p", "--publish"), "ports"),
    **dict.fromkeys(("-l", "--label"), "labels"),
    "--env-file": "env_file",
    "--device": "devices",
    "--cap-add": "cap_add",
    "--cap-drop": "cap_drop",
    "--security-opt": "security_opt",
    "--group-add": "group_add",
    "--add-host": "extra_hosts",
    "--tmpfs": "tmpfs",
    "--dns": "dns",
    "--expose": "expose",
}
"""Keys that hold a list."""
_TRUE = {"--init": "init", "--privileged": "privileged", "--read-only": "read_only"}
_ASIDE = frozenset(
    {"--rm", "--detach", "--interactive", "--tty", "--quiet", "--sig-proxy", "--replace"}
)
"""How this one run was started and ended. Of short switches all but ``-P`` say no more."""
_MODES = ("host", "none", "bridge", "container:")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What ``docker run`` was told before the image."""

    service: Mapping[str, Any]
    name: str | None = None
    around: Mapping[str, Any] = field(default_factory=dict)
    """Volumes and networks that are there already."""
    notes: tuple[str, ...] = ()


def service_of(options: Sequence[RunOption]) -> Run:
    """The options by Compose's keys; what has none is named in the notes."""
    service: dict[str, Any] = {}
    left: list[str] = []
    for flag, value in options:
        if flag in _MANY:
            service.setdefault(_MANY[flag], []).append(
                _mount(value) if flag == "--mount" else value
            )
        elif flag in _ONE:
            service[_ONE[flag]] = value
        elif flag in _TRUE:
            service[_TRUE[flag]] = True
        elif flag in _OTHERS:
            service |= _OTHERS[flag](value, service)
        elif flag not in _ASIDE and (flag.startswith("--") or "P" in flag):
            left.append(flag)
    told = f"left out, since spectui knows no word of Compose for it: {', '.join(left)}"
    return Run(
        service=service,
        name=service.get("container_name"),
        around=_around(service),
        notes=(told,) if left else (),
    )


def _around(service: Mapping[str, Any]) -> dict[str, Any]:
    """Volumes and networks by name, which docker made before."""
    volumes = dict.fromkeys(_named_volumes(service))
    networks = dict.fromkeys(service.get("networks", ()))
    parts = {"volumes": volumes, "networks": networks}
    return {
        part: {name: {"external": True} for name in names} for part, names in parts.items() if names
    }


def _named_volumes(service: Mapping[str, Any]) -> Iterator[str]:
    for volume in service.get("volumes", ()):
        is_text = isinstance(volume, str)
        name = volume.partition(":")[0] if is_text else volume.get("source")
        if name and not name.startswith((".", "/", "~")) and (not is_text or ":" in volume):
            yield name


def _mount(value: str) -> dict[str, Any]:
    """``type=bind,source=A,target=B``, in any of their names."""
    pairs = dict(part.partition("=")[::2] for part in value.split(","))
    source = pairs.get("source") or pairs.get("src", "")
    target = pairs.get("target") or pairs.get("dst") or pairs.get("destination", "")
    mount = {"type": pairs.get("type", "volume"), "source": source, "target": target}
    kept: dict[str, Any] = {key: text for key, text in mount.items() if text}
    return kept if {"readonly", "ro"}.isdisjoint(pairs) else {**kept, "read_only": True}


def _gpus(value: str, _service: Mapping[str, Any]) -> dict[str, Any]:
    """``all``, a number, or ``"device=0,1"`` with quotes of its own."""
    device: dict[str, Any] = {"driver": "nvidia", "capabilities": ["gpu"]}
    for part in next(csv.reader([value]), []):
        key, equals, text = part.partition("=")
        match key:
            case "device":
                device["device_ids"] = text.split(",")
            case "driver":
                device["driver"] = text
            case "capabilities":
                device["capabilities"] = text.split(",")
            case _:
                count = text if equals else key
                device["count"] = int(count) if count.isdecimal() else count
    return {"deploy": {"resources": {"reservations": {"devices": [device]}}}}


def _network(value: str, service: Mapping[str, Any]) -> dict[str, Any]:
    if value.startswith(_MODES):
        return {"network_mode": value}
    return {"networks": [*service.get("networks", ()), value]}


def _ulimit(value: str, service: Mapping[str, Any]) -> dict[str, Any]:
    name, _, limits = value.partition("=")
    soft, colon, hard = limits.partition(":")
    limit: object = {"soft": _whole(soft), "hard": _whole(hard)} if colon else _whole(soft)
    return {"ulimits": {**service.get("ulimits", {}), name: limit}}


def _whole(text: str) -> int | str:
    return int(text) if text.removeprefix("-").isdecimal() else text


def _entrypoint(value: str, _service: Mapping[str, Any]) -> dict[str, Any]:
    return {"entrypoint": [value]}


_OTHERS: Mapping[str, Callable[[str, Mapping[str, Any]], dict[str, Any]]] = {
    "--gpus": _gpus,
    "--network": _network,
    "--net": _network,
    "--ulimit": _ulimit,
    "--entrypoint": _entrypoint,
}
