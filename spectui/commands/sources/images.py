"""Reads the command of an image's Dockerfile, or of a list of words as such files have it."""

import json
import re
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress

from spectui.commands.command import ServerCommand
from spectui.commands.sources.containers import plain_words
from spectui.commands.sources.files import Replacement
from spectui.commands.sources.shell import unwrapped
from spectui.errors import BadInputError

_FIRST = re.compile(r"(?:[ \t]*(?:#[^\n]*)?\n)*[ \t]*(?:FROM|ARG|ENV|CMD|ENTRYPOINT)[ \t]")
_STARTS = re.compile(r"(?m)^[ \t]*(?:CMD|ENTRYPOINT)[ \t]")
_LIST = re.compile(r"\s*\[\s*[\"'].*\]\s*,?\s*", re.DOTALL)
_VARIABLE = re.compile(r"\\\$|\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)(?::-([^{}]*))?\})")


def is_dockerfile(text: str) -> bool:
    """Whether a text says what an image starts."""
    return _FIRST.match(text) is not None and _STARTS.search(text) is not None


def is_list(text: str) -> bool:
    """Whether a text is a list of words in brackets."""
    return _LIST.fullmatch(text) is not None


def read_list(text: str) -> ServerCommand:
    """Read ``["llama-server", "-m", "FILE"]``, as programs and files hold commands.

    Raises:
        BadInputError: it is no list of texts.
    """
    words = _listed(text.strip().removesuffix(","))
    if words is None:
        raise BadInputError(
            "it begins as a list of words and is none; write each word in double quotes, with "
            "commas between"
        )
    return unwrapped(_served(words), {})


def read_dockerfile(text: str) -> ServerCommand:
    """Read what an image starts: its entrypoint and command, with its variables.

    Raises:
        BadInputError: it starts nothing, or a variable has no value in it.
    """
    environment: dict[str, str] = {}
    arguments: dict[str, str] = {}
    entry, command = list[str](), list[str]()
    bounded = Replacement()
    for line, name, value in _instructions(text):
        match name:
            case "FROM":
                environment, entry, command = {}, [], []
            case "ARG" if "=" in value:
                arguments |= _assigned(_expanded(value, arguments | environment, bounded))
            case "ENV":
                environment |= _assigned(_expanded(value, arguments | environment, bounded))
            case "ENTRYPOINT":
                entry = _words(value, line, arguments.keys() - environment.keys())
            case "CMD":
                command = _words(value, line, arguments.keys() - environment.keys())
    is_line = entry[:2] == _SHELL
    return unwrapped(_served([*entry, *(() if is_line else command)]), environment)


_SHELL = ["/bin/sh", "-c"]


def _served(words: Sequence[str]) -> list[str]:
    """The words with the program that llama.cpp's images start, where they name none."""
    return list(words) if words[:1] and not words[0].startswith("-") else ["llama-server", *words]


def _instructions(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield each instruction with the number of its first line."""
    whole, start = "", 0
    for number, line in enumerate(text.split("\n"), 1):
        if line.lstrip().startswith("#"):
            continue
        start = start if whole else number
        own = line.rstrip()
        whole += own.removesuffix("\\") + " "
        if not own.endswith("\\"):
            name, _, value = whole.strip().partition(" ")
            if name.isupper():
                yield start, name, value.strip()
            whole = ""


def _words(value: str, line: int, of_build: AbstractSet[str]) -> list[str]:
    """The words of an entrypoint or a command; a shell's own where it is no list.

    Args:
        value: what the file gives.
        line: where it stands.
        of_build: variables that the build knows, and the container does not.

    Raises:
        BadInputError: a shell would find a variable of the build empty.
    """
    listed = _listed(value)
    if listed is not None:
        return listed
    for found in _VARIABLE.finditer(value):
        name = found[1] or found[2]
        if name in of_build and found[3] is None:
            raise BadInputError(
                f"line {line}: ${name} is set with ARG, which the image's build alone knows, so "
                "that it is empty when the container starts; set it with ENV"
            )
    # The lines in front give messages about it their line.
    return [*_SHELL, "\n" * (line - 1) + value]


def _listed(text: str) -> list[str] | None:
    """The words of a list; None if the text is none."""
    if not text.startswith("["):
        return None
    found: object = None
    with suppress(ValueError, RecursionError):
        found = json.loads(text)
    if found is None and "'" in text:
        # As Python writes it.
        with suppress(ValueError, RecursionError):
            found = json.loads(re.sub(r"'((?:\\.|[^'\\\"])*)'", r'"\1"', text))
    is_texts = isinstance(found, list) and all(isinstance(one, str | int | float) for one in found)
    return [str(one) for one in found] if isinstance(found, list) and is_texts else None


def _assigned(value: str) -> dict[str, str]:
    """Variables of ``A=1 B=2``, or of the old form ``A 1``."""
    first, blank, rest = value.partition(" ")
    if "=" not in first:
        return {first: rest.strip()} if blank else {}
    pairs = (word.partition("=") for word in plain_words(value))
    return {name: text for name, equals, text in pairs if equals}


def _expanded(value: str, variables: dict[str, str], bounded: Replacement) -> str:
    def replaced(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        if name is None:
            return "$"
        found = variables.get(name) or match[3]
        if found is None:
            raise BadInputError(
                f"the Dockerfile uses ${name}, which has no value in it; write the value there"
            )
        return bounded.of(found)

    return _VARIABLE.sub(replaced, value)
