"""Draws a table of spectui/commands/tables from what a llama-server really takes.

    python tools/draw_options.py llama.cpp SOURCE --version "llama.cpp b11312 of 2026-10-01"
    python tools/draw_options.py ik REPOSITORY.git
    python tools/draw_options.py --gone ik REPOSITORY.git
    python tools/draw_options.py --gone llama.cpp-legacy OLDER_SOURCE --version ...
    python tools/draw_options.py llama.cpp-later SOURCE --version "llama.cpp b11669 of 2026-10-16"

A source is a source tree of llama.cpp or ik_llama.cpp, its common/arg.cpp or common/common.cpp,
a llama-server, its ``--help`` in a file, or a git directory, whose last commit counts and
names the version. A version holds the build's date, since lint names both beside an option that no
table has. Marks made by hand are kept: "+" in front of a line, and "@" for a path.

``llama.cpp-later`` draws what a newer source has beyond ``llama.cpp``.

``--gone`` draws what the dialect took earlier and takes no more: out of the history of a git
directory, with the day on which each option went, and the commit, or by an older source.
"""

import argparse
import datetime as dt
import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from spectui.commands.server_options import LATER, PREFIX
from spectui.options.option import Dialect
from spectui.server.binary import TIMEOUT_S, ask, read_help

TABLES = Path(__file__).parents[1] / "spectui" / "commands" / "tables"
_PARSERS = (("common/arg.cpp",), ("common/common.cpp", "common/log.h"))
"""Files with the parser: llama.cpp's, and those of llama.cpp until 2024 and of ik_llama.cpp."""
_FLAG = re.compile(r'"(-{1,2}[A-Za-z0-9][^"]*)"')
_BLOCK = re.compile(r"add_opt\((?:common|llama)_arg\(")
_LAMBDA = re.compile(r"\[[^\]]*\]\s*\(\s*((?:common|gpt)_params\b[^)]*)\)")
_BRANCH = re.compile(r'^ *(?:else )?if \( ?(?:arg|param) == "', re.MULTILINE)
_VARIABLE = re.compile(r'set_env\("LLAMA_ARG_(\w+)"')
_ENVIRONMENT = re.compile(r'get_env\("LLAMA_ARG_(\w+)",\s*(params\.\w+)\)')
_PATH = re.compile(r"[^:]*(FNAME|FILE|PATH|DIR)[^:]*")
_TAKEN = re.compile(r"CHECK_ARG|argv\[\+\+i\]|if \(\+\+i >=|!check_but_dont_parse")
_REFUSES = ("arg_removed(", "legacy_option_error(")
_DATED = re.compile(r".+ of \d{4}-\d\d-\d\d\b")
_FORKED = "2024-08-01"
"""Day before which ik_llama.cpp's history is llama.cpp's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """One option of a parser."""

    flags: tuple[str, ...]
    negations: tuple[str, ...] = ()
    n_values: int = 0
    is_path: bool = False
    variable: str | None = None
    is_refused: bool = False
    """Whether the parser knows it only to stop at it."""
    went: str = ""
    """Day on which it went, and commit; empty for one that is there."""
    """Programs that take it where llama-server does not; empty for the server's own."""

    @property
    def names(self) -> tuple[str, ...]:
        """Every spelling."""
        return (*self.flags, *self.negations)


def of_llama_cpp(text: str) -> Iterator[Drawn]:
    """Yield the server's options of a ``common/arg.cpp``."""
    starts = [match.end() for match in _BLOCK.finditer(text)]
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        block = text[start:end]
        handler = _LAMBDA.search(block)
        if handler is None:
            continue
        tail = block[handler.end() :]
        if not _is_servers(tail):
            continue
        lists = re.findall(r"\{([^}]*)\}", block[: handler.start()])[:2]
        flags, *others = (tuple(_FLAG.findall(one)) for one in lists)
        takes = handler[1]
        is_switch = "bool" in takes
        hint = re.search(r'\}\s*,\s*"([^"]*)"', block)
        variable = _VARIABLE.search(tail)
        yield Drawn(
            flags=flags,
            negations=others[0] if is_switch and others else (),
            n_values=0 if is_switch else takes.count(","),
            is_path=not is_switch and hint is not None and bool(_PATH.fullmatch(hint[1])),
            variable=None if variable is None else variable[1],
            is_refused=any(mark in block for mark in _REFUSES),
        )


def _is_servers(tail: str) -> bool:
    """Whether the server takes an option, by what follows its handler."""
    named = re.search(r"set_examples\(\{([^}]*)\}", tail)
    excluded = re.search(r"set_excludes\(\{([^}]*)\}", tail)
    if excluded is not None and "_SERVER" in excluded[1]:
        return False
    return named is None or re.search(r"_(COMMON|SERVER)\b", named[1]) is not None


def of_branches(text: str) -> Iterator[Drawn]:
    """Yield the options of a parser that compares ``arg`` with one after the other."""
    starts = [match.start() for match in _BRANCH.finditer(text)]
    variables = {target: name for name, target in _ENVIRONMENT.findall(text)}
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        block = text[start:end].partition("\n    }\n")[0]
        head, _, body = block.partition("{")
        flags = tuple(re.findall(r'(?:arg|param) == "([^"]+)"', head))
        set_ = re.findall(r"(params\.\w+) = ", body)
        # It stands for the first option that sets the same, if that is no switch-off.
        targets = [] if any(map(_stem, flags)) else [one for one in set_ if one in variables]
        yield Drawn(
            flags=flags,
            n_values=len(_TAKEN.findall(body)),
            variable=variables.pop(targets[0]) if targets else None,
            is_refused=any(mark in body for mark in _REFUSES),
        )


def of_help(text: str) -> Iterator[Drawn]:
    """Yield the options of a help text."""
    for option in read_help(text):
        flags = tuple(option.flags)
        names = {_plain(flag) for flag in flags}
        negations = tuple(flag for flag in flags if (_stem(flag) or "") in names)
        yield Drawn(
            flags=tuple(flag for flag in flags if flag not in negations),
            negations=negations,
            n_values=len((option.value or "").split()),
            variable=_unprefixed(option.variable),
            is_refused=option.is_removed,
        )


def _unprefixed(variable: str | None) -> str | None:
    """What a table has of a variable; None for one that stands for no option."""
    if variable is None or not variable.startswith(PREFIX):
        return None
    return variable.removeprefix(PREFIX)


def _plain(flag: str) -> str:
    return flag.lstrip("-")


def _stem(flag: str) -> str | None:
    """The name that ``no-`` is said of; None for any other flag."""
    name = _plain(flag)
    return name.removeprefix("no-") if name.startswith("no-") else None


def paired(options: Iterable[Drawn]) -> list[Drawn]:
    """The options, with a switch and its opposite as one; of two of the same name the first."""
    found: list[Drawn] = []
    known: set[str] = set()
    for one in options:
        if known.isdisjoint(one.names):
            known.update(one.names)
            found.append(one)
    by_name = {_plain(flag): n for n, one in enumerate(found) for flag in one.flags}
    taken: set[int] = set()
    for n, one in enumerate(found):
        homes = {by_name[stem] for flag in one.flags if (stem := _stem(flag)) in by_name}
        if homes and n not in homes and not one.n_values and not found[min(homes)].n_values:
            [home, *_] = homes
            other = found[home]
            found[home] = replace(other, negations=(*other.negations, *one.flags))
            taken.add(n)
    return [one for n, one in enumerate(found) if n not in taken]


def known_to(text: str) -> Iterator[Drawn]:
    """Yield the server's options of a source or help, including what it knows only to refuse."""
    if _BLOCK.search(text):
        return of_llama_cpp(text)
    return of_branches(text) if _BRANCH.search(text) else of_help(text)


def read_parser(text: str) -> list[Drawn]:
    """Options that a parser's source or a help text takes."""
    # Of two branches for the same flag the first counts.
    return paired(one for one in known_to(text) if not one.is_refused)


def _git(folder: Path, *words: str) -> str:
    command = ["git", "--git-dir", str(folder), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _is_program(source: Path) -> bool:
    return source.is_file() and os.access(source, os.X_OK)


def _is_git(source: Path) -> bool:
    return source.is_dir() and (source / "HEAD").is_file()


def source_text(source: Path, commit: str = "HEAD") -> str:
    """Text of the parser at a source.

    Raises:
        FileNotFoundError: the folder holds none.
    """
    if _is_program(source):
        return ask(source.absolute(), ("--help",), TIMEOUT_S).output.text
    if source.is_file():
        return source.read_text("utf-8")
    for names in _PARSERS:
        if _is_git(source):
            found = [name for name in names if _git(source, "ls-tree", commit, name)]
            texts = [_git(source, "show", f"{commit}:{name}") for name in found]
        else:
            found = [name for name in names if (source / name).is_file()]
            texts = [(source / name).read_text("utf-8") for name in found]
        if found[:1] == [names[0]]:
            return "\n".join(texts)
    looked_for = " nor ".join(names[0] for names in _PARSERS)
    raise FileNotFoundError(f"{source} holds neither {looked_for}")


def gone_by_history(source: Path) -> list[Drawn]:
    """Options that the history of a git directory has and its last commit lacks."""
    text = source_text(source)
    present = {name for one in read_parser(text) for name in one.names}
    log = _git(
        source, "log", "-p", "-U0", "-m", "--first-parent", f"--since={_FORKED}",
        "--format=commit %cs (commit %h)", "--", *(names[0] for names in _PARSERS),
    )  # fmt: skip
    went: dict[str, str] = {}
    commit = refused_since = ""
    for line in log.splitlines():
        if line.startswith("commit "):
            commit = line.removeprefix("commit ")
        elif line.startswith("-"):
            for flag in re.findall(r'arg == "(-[^"]+)"', line):
                went.setdefault(flag, commit)
        elif line.startswith("+") and any(mark in line for mark in _REFUSES):
            refused_since = commit
    refused = [replace(one, went=refused_since) for one in known_to(text) if one.is_refused]
    present.update(flag for one in refused for flag in one.names)
    for when in dict.fromkeys(went.values()):
        before = read_parser(source_text(source, f"{when.split()[-1].rstrip(')')}^"))
        others = {flag for one in before for flag in one.names if went.get(flag) != when}
        refused += _without(before, present | others, when)
    return refused


def _without(options: Iterable[Drawn], present: set[str], went: str) -> Iterator[Drawn]:
    """Yield what of the options is not present."""
    for one in options:
        left = replace(
            one,
            flags=tuple(flag for flag in one.flags if flag not in present),
            negations=tuple(flag for flag in one.negations if flag not in present),
            went=went,
        )
        if left.names:
            yield left


def beyond(newer: Iterable[Drawn]) -> Iterator[Drawn]:
    """Yield options of a newer source that the table lacks, or has without their variable."""
    text = (TABLES / f"{Dialect.LLAMA_CPP}.txt").read_text("utf-8")
    known = {word for line in text.splitlines() if line[:1] != "#" for word in line.split()}
    for one in newer:
        if not known.issuperset({*one.names, *([f"${one.variable}"] if one.variable else ())}):
            yield one


def gone_since(older: Iterable[Drawn], newer: Iterable[Drawn], went: str) -> Iterator[Drawn]:
    """Yield options of an older source that a newer lacks, or takes with more or fewer values."""
    now = {name: one for one in newer for name in one.names}
    for one in older:
        kept = [now[flag] for flag in one.flags if flag in now]
        if any(other.n_values != one.n_values for other in kept):
            yield replace(one, went=went)
        else:
            yield from _without((one,), set(now), went)


def _marks(names: Iterable[str]) -> dict[str, set[str]]:
    """Marks made by hand of every flag in tables: "+", "@" and "=" for no path."""
    marks: dict[str, set[str]] = {}
    for name in names:
        path = TABLES / f"{name}.txt"
        for line in path.read_text("utf-8").splitlines() if path.exists() else ():
            words = line.split()
            if not line.startswith("#"):
                for flag in words:
                    if flag.startswith("-"):
                        marks.setdefault(flag, set()).update({"+", "@", "="}.intersection(words))
    return marks


def line_of(one: Drawn, marks: dict[str, set[str]]) -> str:
    """A line of the table."""
    by_hand: set[str] = set().union(*(marks.get(flag, set()) for flag in one.names))
    is_path = one.is_path if by_hand.isdisjoint({"@", "="}) else "@" in by_hand
    words = ["+"] if "+" in by_hand else []
    words += one.flags
    words += ["@" if is_path and one.n_values == 1 else "="] * min(one.n_values, 2)
    words += ["!", *one.negations] if one.negations else []
    words += [f"${one.variable}"] if one.variable else []
    return " ".join([*words, *(["%", one.went] if one.went else [])])


def _remarks(table: str, version: str, source: Path) -> Iterator[str]:
    what = "takes no more, and until when it did" if table.endswith("-gone") else "takes"
    if table == LATER:
        what = f"takes beyond {Dialect.LLAMA_CPP}.txt"
    kind = f"{source.name}" if source.is_file() else "its parser"
    kind = "its --help" if _is_program(source) else kind
    yield f"# What the llama-server of {version} {what}, by {kind}."
    yield (
        "# Drawn by tools/draw_options.py on "
        f"{dt.datetime.now(dt.UTC):%Y-%m-%d}; server_options.py has the syntax."
    )


def _version(source: Path, given: str | None) -> str:
    if given is None and _is_git(source):
        last = _git(source, "log", "-1", "--format=%h of %cs").strip()
        return f"{source.parent.name.rpartition('+')[2]} {last}"
    return given or source.name


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw a table; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("dialect", choices=(*map(str, Dialect), LATER))
    parser.add_argument(
        "source", type=Path, help="source tree, parser, llama-server, its help, ..."
    )
    parser.add_argument("--gone", action="store_true", help="what it took earlier")
    parser.add_argument("--newer", type=Path, help="with --gone: the source that took its place")
    parser.add_argument("--until", help="with --newer: when it went")
    parser.add_argument("--version", help="BUILD of YYYY-MM-DD (default: a git directory's)")
    given = parser.parse_args(arguments)
    version = _version(given.newer or given.source, given.version)
    if _DATED.match(version) is None:
        parser.error(f"{version!r} has no date; give --version 'BUILD of YYYY-MM-DD'")
    table = f"{given.dialect}-gone" if given.gone else given.dialect
    if table == LATER:
        options = list(beyond(read_parser(source_text(given.source))))
    elif not given.gone:
        options = read_parser(source_text(given.source))
    elif given.newer is None:
        options = gone_by_history(given.source)
    else:
        older, newer = (read_parser(source_text(one)) for one in (given.source, given.newer))
        options = list(gone_since(older, newer, given.until or version))
    marks = _marks((table, *sorted(path.stem for path in TABLES.glob("*.txt"))))
    lines = [line_of(one, marks) for one in options]
    text = "\n".join([*_remarks(table, version, given.source), *lines, ""])
    (TABLES / f"{table}.txt").write_text(text, "utf-8")
    print(f"{table}.txt: {len(lines)} options of {version}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
