"""Reads what llama-server prints for ``--help`` and ``--version``. Pure: text in, facts out.

Llama.cpp writes an option per paragraph, its names from the first column on and its words from the
41st; ik_llama.cpp indents the names and begins the words in the 35th.
"""

import re
from collections.abc import Iterator

import msgspec

_MOST_INDENTED = 12
_COLUMNS = re.compile(r"(?<![, ]) {2,}")
"""Between an option's names with its value, and its words."""
_NAME = re.compile(r"(?:^|, *)(-{1,2}[A-Za-z][\w.-]*)")
_VARIABLE = re.compile(r"\(env: (\w+)\)")
_REMOVED = "the argument has been removed"
_VERSIONS = (
    re.compile(r"^version: (?P<version>(?P<build>\d+)) \((?P<commit>\w+)\)", re.MULTILINE),
    re.compile(
        r"^version: (?P<version>\S+) \(build (?P<build>\d+), commit (?P<commit>\w+)\)", re.MULTILINE
    ),
)


class HelpOption(msgspec.Struct, frozen=True, kw_only=True):
    """One option as ``--help`` describes it."""

    flags: tuple[str, ...]
    value: str | None
    """Placeholder of its value; None for a switch, and where the help leaves it out."""
    variable: str | None
    """Environment variable that it is read from."""
    is_removed: bool
    """The program knows it only to refuse it."""


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to ``--version``. None where it tells nothing, as builds outside a clone do."""

    text: str
    build: int | None
    commit: str | None


def read_help(text: str) -> tuple[HelpOption, ...]:
    """Return every option of a help text, in its order; none for a text that is no such help."""
    return tuple(_option(left, words) for left, words in _paragraphs(text))


def read_version(text: str) -> Version | None:
    """Read the output of ``--version``; None for anything else."""
    found = next(filter(None, (pattern.search(text) for pattern in _VERSIONS)), None)
    if found is None:
        return None
    build, commit = int(found["build"]), found["commit"]
    return Version(
        text=found["version"],
        build=build or None,
        commit=None if commit == "unknown" else commit,
    )


def _paragraphs(text: str) -> Iterator[tuple[str, str]]:
    """Yield the left column of every option, and its words."""
    left: str | None = None
    words: list[str] = []
    for line in text.splitlines():
        bare = line.lstrip(" ")
        if len(line) - len(bare) > _MOST_INDENTED or not _NAME.match(bare):
            words.append(bare)
            continue
        if left is not None:
            yield left, " ".join(words)
        left, *words = _COLUMNS.split(bare, maxsplit=1)
    if left is not None:
        yield left, " ".join(words)


def _option(left: str, words: str) -> HelpOption:
    names = list(_NAME.finditer(left))
    variable = _VARIABLE.search(words)
    return HelpOption(
        flags=tuple(name[1] for name in names),
        value=left[names[-1].end() :].strip() or None,
        variable=variable and variable[1],
        is_removed=_REMOVED in words,
    )
