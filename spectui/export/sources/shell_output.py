"""What a command within a command prints, where that is known without running it."""

import os.path
from collections.abc import Sequence
from pathlib import PurePosixPath

from spectui.export.sources.shell_command import ShellCommand


def output_of(commands: Sequence[ShellCommand], joints: Sequence[str], folder: str) -> str | None:
    """The last line; None for what only a shell can tell.

    Known are those that scripts use to find their own folder: ``dirname``, ``realpath``,
    ``readlink -f``, ``cd`` and ``pwd``.

    Args:
        commands: that are run.
        joints: what stands behind each of them.
        folder: that they are run in.
    """
    told: str | None = None
    if any(joint not in {"&&", ";", ""} for joint in joints):
        return None
    for command in commands:
        if command.trouble is not None:
            return None
        match command.words:
            case ("cd", *_, where):
                folder = os.path.normpath(os.path.join(folder, where))  # noqa: PTH118 - as a shell does
            case ("pwd",) | ("pwd", "-L"):
                told = folder
            case ("pwd", "-P"):
                told = os.path.realpath(folder)
            case ("dirname", *options, path) if options in ([], ["--"]):
                told = str(PurePosixPath(path).parent)
            case ("realpath", *options, path) if options in ([], ["--"], ["-e"], ["-m"]):
                told = os.path.realpath(os.path.join(folder, path))  # noqa: PTH118 - text
            case ("readlink", "-f", path) | ("readlink", "-e", path) | ("readlink", "-m", path):
                told = os.path.realpath(os.path.join(folder, path))  # noqa: PTH118 - text
            case _:
                return None
    return told
