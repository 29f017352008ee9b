"""llama.cpp's programs by name: the server, and those that share its options."""

import re
from collections.abc import Sequence
from dataclasses import replace

from spectui.commands.command import ServerCommand

SERVER = "llama-server"
_RENAMED = {
    "server": SERVER,
    "main": "llama-cli",
    **{name: f"llama-{name}" for name in ("perplexity", "speculative", "lookup", "parallel")},
}
"""Names until June 2024."""
_SHARING = frozenset(
    {*_RENAMED.values(), "llama-completion", "llama-mtmd-cli", "llama-speculative-simple"}
)
"""Programs that read most of llama-server's options, and some of their own."""
_STARTING = frozenset(
    {"env", "exec", "command", "sudo", "nohup", "nice", "ionice", "numactl", "taskset", "time"}
    | {"chrt", "setsid", "stdbuf", "systemd-run", "systemd-inhibit"}
)
"""Programs that start another, which their words name."""


def file_name(word: str) -> str:
    """The last part of a path, on any system."""
    return re.split(r"[/\\]", word)[-1]


def program_of(word: str) -> str | None:
    """Today's name of llama.cpp's program that a word starts; None for any other word."""
    name = file_name(word)
    plain = name.removesuffix(".exe")
    # By themselves the old names are words like any other.
    known = _RENAMED.get(plain, plain) if plain != word else plain
    return known if known == SERVER or known in _SHARING else None


def place_of_program(words: Sequence[str]) -> int | None:
    """Index of the word that starts one of llama.cpp's programs; None without one.

    llama-server counts wherever it stands, any other where a command begins, or behind what starts
    others.
    """
    server = next((n for n, word in enumerate(words) if is_server_today(word)), None)
    if server is not None or not words:
        return server
    places = range(len(words)) if words[0] in _STARTING else (0,)
    return next((n for n in places if program_of(words[n]) is not None), None)


def is_server_today(word: str) -> bool:
    """Whether a word is llama-server's path or name."""
    return file_name(word).removesuffix(".exe") == SERVER


def names_server(words: Sequence[str]) -> bool:
    """Whether a command's words start llama-server, under today's name or the old one."""
    place = place_of_program(words)
    return place is not None and program_of(words[place]) == SERVER


def starts_server(command: ServerCommand) -> bool:
    """Whether the program is llama-server by name, in a container too."""
    return names_server(_program(command))


def _program(command: ServerCommand) -> tuple[str, ...]:
    return (command if command.inside is None else command.inside).prelude


def started_by(command: ServerCommand) -> str | None:
    """The word that starts another program than today's llama-server; None for that."""
    words = _program(command)
    place = place_of_program(words)
    return None if place is None or is_server_today(words[place]) else words[place]


def as_server(command: ServerCommand) -> ServerCommand:
    """The command with llama-server of the same folder in its program's place."""
    place = place_of_program(command.prelude)
    prelude = list(command.prelude)
    if place is not None:
        word = prelude[place]
        end = ".exe" if word.endswith(".exe") else ""
        prelude[place] = f"{word.removesuffix(file_name(word))}{SERVER}{end}"
    inside = None if command.inside is None else as_server(command.inside)
    return replace(command, prelude=tuple(prelude), inside=inside)
