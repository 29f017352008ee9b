"""Reads ``docker run`` and ``podman run``: what runs in the container, and what it sees."""

import os
from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import Any

from spectui.export.sources.container import Container, container_of
from spectui.export.sources.source import CONTAINERS

_SWITCHES = frozenset(
    {"--rm", "--init", "--privileged", "--read-only", "--detach", "--interactive", "--tty"}
    | {"--publish-all", "--no-healthcheck", "--oom-kill-disable", "--sig-proxy", "--quiet"}
    | {"--replace", "--tls-verify", "--no-hosts", "--disable-content-trust"}
)
"""Options of ``run`` that take no value; of short ones, those of these letters alone."""
_LETTERS = frozenset("ditPq")
_KEYS = {
    **dict.fromkeys(("-v", "--volume", "--mount"), "volumes"),
    **dict.fromkeys(("-e", "--env"), "environment"),
    "--env-file": "env_file",
}


def docker_run(words: Sequence[str]) -> Container | None:
    """The container that a command runs; None for any other command.

    Raises:
        BadInputError: a file of its environment cannot be read.
    """
    program = next((n for n, w in enumerate(words) if PurePath(w).name in CONTAINERS), None)
    if program is None or "run" not in words[program + 1 : program + 3]:
        return None
    at = words.index("run", program) + 1
    service: dict[str, Any] = {"volumes": [], "environment": [], "env_file": []}
    while at < len(words) and words[at].startswith("-"):
        flag, equals, value = words[at].partition("=")
        at += 1
        if _is_switch(flag):
            continue
        if not equals and not flag.startswith("--") and len(flag) > 2:  # noqa: PLR2004 - as -vA:B
            flag, value = flag[:2], flag[2:]
        elif not equals:
            value = words[at] if at < len(words) else ""
            at += 1
        if flag == "--entrypoint":
            service["entrypoint"] = [value]
        elif flag in _KEYS:
            service[_KEYS[flag]].append(_mount(value) if flag == "--mount" else value)
    service["image"] = words[at] if at < len(words) else ""
    service["command"] = list(words[at + 1 :])
    return container_of(service, Path.cwd(), os.environ)


def _is_switch(flag: str) -> bool:
    return flag in _SWITCHES or (not flag.startswith("--") and _LETTERS.issuperset(flag[1:]))


def _mount(value: str) -> dict[str, str]:
    """``type=bind,source=A,target=B``, in any of their names."""
    pairs = dict(part.partition("=")[::2] for part in value.split(","))
    source = pairs.get("source") or pairs.get("src", "")
    target = pairs.get("target") or pairs.get("dst") or pairs.get("destination", "")
    return {"source": source, "target": target}
