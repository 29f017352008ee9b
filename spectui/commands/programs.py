"""Recognises the program of llama.cpp that a command starts, and the command's dialect."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

import msgspec

from spectui.commands.command import ASSIGNMENT, ServerCommand
from spectui.commands.items import Item
from spectui.commands.renames import KNOWN_TO_IK, NONE
from spectui.options.drafters import NGRAM_KINDS
from spectui.options.option import Dialect

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
    | {"chrt", "setsid", "stdbuf", "systemd-run", "systemd-inhibit", "doas", "timeout", "prlimit"}
    | {"tmux", "screen", "gdb", "strace", "perf", "valgrind", "nsys", "caffeinate", "xargs"}
)
"""Programs that start another one, which is named among their arguments."""
_FOLDERS = (
    (re.compile(r"ik[_-]llama"), Dialect.IK),
    (re.compile(r"llama[._-]cpp/"), Dialect.LLAMA_CPP),
)
"""Parts of the names of folders and images, with their dialects."""
_KINDS = frozenset(KNOWN_TO_IK) - {NONE, *NGRAM_KINDS}
"""Kinds that ``--spec-type`` names in ik_llama.cpp alone."""
_CACHES = ("cache-type-k", "cache-type-v", "cache-type-k-draft", "cache-type-v-draft")
_IK_WORDS = {
    "split-mode": ("graph", "attn"),
    **dict.fromkeys(_CACHES, ("q6_0", "q8_kv")),
}
"""Values that only ik_llama.cpp takes."""


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

    It stands where the command begins, behind assignments, or behind what starts others.
    """
    places = [n for n, word in enumerate(words) if not ASSIGNMENT.fullmatch(word)]
    if places and file_name(words[places[0]]) not in _STARTING:
        places = places[:1]
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
    return (command if command.inside is None else command.inside).start.program


def started_by(command: ServerCommand) -> str | None:
    """The word that starts another program than today's llama-server; None for that."""
    words = _program(command)
    place = place_of_program(words)
    return None if place is None or is_server_today(words[place]) else words[place]


def as_server(command: ServerCommand) -> ServerCommand:
    """The command with llama-server of the same folder in its program's place."""
    words = list(command.start.program)
    place = place_of_program(words)
    if place is not None:
        word = words[place]
        end = ".exe" if word.endswith(".exe") else ""
        words[place] = f"{word.removesuffix(file_name(word))}{SERVER}{end}"
    inside = None if command.inside is None else as_server(command.inside)
    return replace(command, start=replace(command.start, program=tuple(words)), inside=inside)


class Recognised(msgspec.Struct, frozen=True, kw_only=True):
    """The dialect of a command, and why."""

    dialect: Dialect
    reason: str
    is_open: bool = False
    """Whether there is no evidence, so that it may be of any dialect."""


def recognise(command: ServerCommand) -> Recognised:
    """The dialect that a command is written in.

    The program's folder decides if it names the project. Otherwise it is ik_llama.cpp's if more of
    its options and values are taken by ik_llama.cpp alone than are missing there. Commands for
    llama.cpp before spring 2026 count as llama.cpp's: they are checked against today's builds.
    """
    for pattern, dialect in _FOLDERS:
        folder = next(filter(pattern.search, _places(command)), None)
        if folder is not None:
            return Recognised(dialect=dialect, reason=f"its program is {folder}")
    signs = dict.fromkeys(filter(None, map(_sign, command.items)))
    own, others = (
        [text for dialect, text in signs if dialect is one]
        for one in (Dialect.IK, Dialect.LLAMA_CPP)
    )
    if len(own) > len(others):
        return Recognised(dialect=Dialect.IK, reason=f"only ik_llama.cpp has {', '.join(own)}")
    reason = "nothing in it says that it is for ik_llama.cpp"
    if own:
        reason = f"only llama.cpp has {', '.join(others)}"
    return Recognised(dialect=Dialect.LLAMA_CPP, reason=reason, is_open=not others)


def _places(command: ServerCommand) -> Iterator[str]:
    """Yield the words that may name the program's folder, and the image of its container."""
    yield from (*command.start.program, *_program(command), command.image)


def _sign(item: Item) -> tuple[Dialect, str] | None:
    """The dialect that alone takes an option or its value, with the text; None without one."""
    server, value = item.server, item.value
    if item.name == "spec-type":
        if ":" in value or value in _KINDS:
            return Dialect.IK, item.text
        is_other = any(kind.startswith("draft-") for kind in value.split(","))
        return (Dialect.LLAMA_CPP, item.text) if is_other else None
    if server is None:
        return None
    known = server.known_to(item.spelling)
    # It also takes what llama.cpp's other programs do.
    if known == {Dialect.IK} and server.is_harmless:
        return Dialect.IK, item.flag
    if value.lower() in _IK_WORDS.get(item.name, ()):
        return Dialect.IK, item.text
    return (Dialect.LLAMA_CPP, item.text) if Dialect.IK not in known else None
