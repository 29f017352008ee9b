"""Reads ``docker run`` and ``podman run``: what runs in the container, and what it sees."""

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path, PurePath

from spectui.export.sources.container import Container, container_of
from spectui.export.sources.run_options import RunOption, service_of
from spectui.export.sources.source import CONTAINERS

_SWITCHES = frozenset(
    {"--rm", "--init", "--privileged", "--read-only", "--detach", "--interactive", "--tty"}
    | {"--publish-all", "--no-healthcheck", "--oom-kill-disable", "--sig-proxy", "--quiet"}
    | {"--replace", "--tls-verify", "--no-hosts", "--disable-content-trust"}
)
"""Options of ``run`` that take no value; of short ones, those of these letters alone."""
_LETTERS = frozenset("ditPq")


def docker_run(words: Sequence[str], folder: Path) -> Container | None:
    """The container that a command runs in ``folder``; None for any other command.

    Raises:
        BadInputError: a file of its environment cannot be read.
    """
    program = next((n for n, w in enumerate(words) if PurePath(w).name in CONTAINERS), None)
    if program is None or "run" not in words[program + 1 : program + 3]:
        return None
    at = words.index("run", program) + 1
    options: list[RunOption] = []
    while at < len(words) and words[at].startswith("-"):
        flag, equals, value = words[at].partition("=")
        at += 1
        if _is_switch(flag):
            options.append((flag, ""))
            continue
        if not equals and not flag.startswith("--") and len(flag) > 2:  # noqa: PLR2004 - as -vA:B
            flag, value = flag[:2], flag[2:]
        elif not equals:
            value = words[at] if at < len(words) else ""
            at += 1
        options.append((flag, value))
    run = service_of(options)
    image = {"image": words[at] if at < len(words) else ""}
    service = {**image, **run.service, "command": list(words[at + 1 :])}
    container = container_of(service, folder, os.environ)
    return dataclasses.replace(container, name=run.name, around=run.around, notes=run.notes)


def _is_switch(flag: str) -> bool:
    return flag in _SWITCHES or (not flag.startswith("--") and _LETTERS.issuperset(flag[1:]))
