"""llama.cpp's programs by name: the server, those that share its options, and those that do not."""

import re
from collections.abc import Sequence
from dataclasses import replace

from spectui.commands.command import ASSIGNMENT, ServerCommand
from spectui.errors import BadInputError

SERVER = "llama-server"
SHARING = frozenset(
    f"llama-{name}"
    for name in (
        *("cli", "completion", "mtmd-cli", "speculative", "speculative-simple", "lookup"),
        *("lookahead", "parallel", "batched", "batched-bench", "perplexity", "embedding"),
        *("imatrix", "retrieval", "passkey", "fit-params", "infill", "llava-cli"),
    )
)
"""Programs that read most of llama-server's options, and some of their own."""
_OTHERS = {
    "llama-bench": "it measures, and reads lists of values and other options",
    "llama-run": "it reads a model and a prompt as words by themselves",
    "llama-simple": "it reads a prompt as words by themselves",
    "llama-simple-chat": "it reads three options",
    "llama-quantize": "it converts a file",
    "llama-gguf-split": "it divides a file",
    "llama-gguf": "it reads a file",
    "llama-tokenize": "it divides a text",
    "llama-export-lora": "it merges files",
    "llama-cvector-generator": "it writes a file",
    "rpc-server": "it lends devices to another",
}
"""Programs whose options are others, and what they do."""
_RENAMED = {
    "server": SERVER,
    "main": "llama-cli",
    **{name.removeprefix("llama-"): name for name in SHARING if name != "llama-cli"},
    **{name.removeprefix("llama-"): name for name in _OTHERS if name.startswith("llama-q")},
}
"""Names until June 2024."""
_STARTING = frozenset(
    {"env", "exec", "command", "sudo", "nohup", "nice", "ionice", "numactl", "taskset", "time"}
    | {"chrt", "setsid", "stdbuf", "systemd-run", "systemd-inhibit", "proxychains", "catchsegv"}
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
    return known if known == SERVER or known in SHARING or known in _OTHERS else None


def place_of_program(words: Sequence[str]) -> int | None:
    """Index of the word that starts one of llama.cpp's programs; None without one.

    llama-server counts wherever it stands, any other where a command begins, or behind what starts
    others.
    """
    server = next((n for n, word in enumerate(words) if is_server_today(word)), None)
    first = next((n for n, word in enumerate(words) if not ASSIGNMENT.fullmatch(word)), None)
    if server is not None or first is None:
        return server
    places = range(first, len(words)) if words[first] in _STARTING else (first,)
    return next((n for n in places if program_of(words[n]) is not None), None)


def is_server_today(word: str) -> bool:
    """Whether a word is llama-server's path or name."""
    return file_name(word).removesuffix(".exe") == SERVER


def names_server(words: Sequence[str]) -> bool:
    """Whether a command's words start llama-server, under today's name or the old one."""
    place = place_of_program(words)
    return place is not None and program_of(words[place]) == SERVER


def check_options_alike(word: str) -> None:
    """Make sure that a word starts no program of llama.cpp whose options are others.

    Raises:
        BadInputError: it does.
    """
    program = program_of(word)
    if program in _OTHERS:
        raise BadInputError(
            f"the command starts {program}, whose options are not llama-server's: "
            f"{_OTHERS[program]}; give a command of llama-server"
        )


def starts_server(command: ServerCommand) -> bool:
    """Whether the program is llama-server by name, in a container too."""
    return names_server(_program(command))


def _program(command: ServerCommand) -> tuple[str, ...]:
    return (command if command.inside is None else command.inside).start.program


def started_by(command: ServerCommand) -> str | None:
    """The word that starts another program than today's llama-server; None for that."""
    words = _program(command)
    place = place_of_program(words)
    return None if place is None or is_server_today(words[place]) else words[place]


def as_server(command: ServerCommand) -> ServerCommand:
    """The command with llama-server of the same folder in its program's place."""
    if started_by(command) is None:
        return command
    inside = None if command.inside is None else as_server(command.inside)
    return replace(command, prelude=_with_server(command.prelude), inside=inside)


def _with_server(words: Sequence[str]) -> tuple[str, ...]:
    place = place_of_program(words)
    if place is None:
        return tuple(words)
    name = file_name(words[place])
    end = ".exe" if name.endswith(".exe") else ""
    return (*words[:place], f"{words[place].removesuffix(name)}{SERVER}{end}", *words[place + 1 :])
