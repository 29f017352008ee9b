"""Finds a llama-server binary, and reads its options and version from ``--help``.

The answers are cached until the binary changes. In ``--help`` llama.cpp writes an option per
paragraph, its names from the first column on and its words from the 41st; ik_llama.cpp indents the
names and begins the words in the 35th.
"""

import hashlib
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import msgspec

from spectui.commands.measured import WITHOUT_CONFIG_FILE, own_environment
from spectui.commands.reader import Reader, dialect_of, drafters_of
from spectui.errors import ServerError, UsageError
from spectui.files import read_cached, write_cached
from spectui.options.option import Dialect
from spectui.paths import cache_dir, text_of
from spectui.server.kept import KeptProcess, manner_of

TIMEOUT_S = 30.0
"""Limit for an answer: a GPU's driver and a cold disk may take most of it."""
_REQUIRED = frozenset({"--model", "--ctx-size", "--port"})
"""Options that every llama-server has had, and that no other program of llama.cpp has all of."""
_FLASH_ATTENTION = frozenset({"-fa", "--flash-attn"})
_UNLISTED_IK = frozenset(
    {
        *("-ngl", "--gpu-layers", "--n-gpu-layers"),
        *("-ngld", "--gpu-layers-draft", "--n-gpu-layers-draft"),
        *("-ot", "--override-tensor", "--no-mmap"),
        *("-sm", "--split-mode", "-mg", "--main-gpu", "-ts", "--tensor-split", "--max-gpu"),
        *("-dev", "--device", "-devd", "--device-draft", "-op", "--offload-policy"),
        *("-no-ooae", "--no-offload-only-active-experts", "-fdn", "--fused-delta-net"),
        *("-a", "--alias", "--n-predict", "--embeddings", "--logit-bias", "--peg"),
        *("-rcache", "--rope-cache", "--recurrent-ckpt-mode"),
    }
)
"""Options that ik_llama.cpp takes, but lists in builds for a GPU or with mmap alone, or nowhere."""
_OPTION_VARIABLES = ("LLAMA_ARG_", "MTMD_BACKEND_DEVICE")
"""Prefixes of variables that set options: withheld, since an invalid one would end ``--help``."""
_FORMAT = 2
"""Version of the cached answers: raise it when reading help texts changes."""
_FOLDER = "llama-server"
_MOST_INDENTED = 12
_COLUMNS = re.compile(r"(?<![, ]) {2,}")
"""The gap between an option's names with its value, and its description."""
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
    """Whether the program knows the option only to refuse it."""


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to ``--version``. Build and commit are None in builds outside of a clone."""

    text: str
    build: int | None
    commit: str | None


class ServerBinary(msgspec.Struct, frozen=True, kw_only=True):
    """Options and version of one llama-server, as it prints them."""

    path: str
    """Absolute."""
    options: tuple[HelpOption, ...]
    version: Version | None
    """None where ``--version`` tells nothing that is known."""

    @property
    def reader(self) -> Reader:
        """The binary as a reader of commands."""
        live = [option for option in self.options if not option.is_removed]
        flags = frozenset(flag for option in live for flag in option.flags)
        dialect = dialect_of(flags)
        named = Reader(
            dialect=dialect,
            program=self.path,
            flags=flags,
            bare=frozenset(f for option in live if option.value is None for f in option.flags),
            variables=frozenset(option.variable for option in live if option.variable is not None),
            drafters=drafters_of(
                next((o.value or "" for o in self.options if "--spec-type" in o.flags), "")
            ),
        )
        if dialect is not Dialect.IK:
            return named
        # Its help leaves out most values: only of -fa it is known that there are builds without.
        bare = named.bare & _FLASH_ATTENTION
        return replace(named, flags=flags | _UNLISTED_IK, bare=bare)

    @property
    def dialect(self) -> Dialect:
        """The dialect of its options."""
        return self.reader.dialect

    @property
    def prompt_times_include_draft(self) -> bool:
        """Whether its seconds for a prompt include the reading by a draft model.

        In ik_llama.cpp, and in llama.cpp before spring 2026, the first draft reads the prompt,
        which then counts as decoding.
        """
        return self.dialect is Dialect.LLAMA_CPP

    def check_dialect(self, wanted: Dialect) -> None:
        """Refuse a dialect other than the binary's own.

        Raises:
            UsageError: it has other options than ``wanted``.
        """
        if wanted is not self.dialect:
            raise UsageError(
                f"--dialect {wanted}: {self.path} has the options of {self.dialect}; leave out "
                "--dialect, or --server-bin"
            )


class BinaryIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """Properties that change with the binary."""

    path: str
    """Absolute, links resolved."""
    size_bytes: int
    mtime_ns: int
    libraries: str
    """Digest of the same of the shared libraries beside it, which may hold all of its code."""
    format: int = _FORMAT


def examine(given: str, *, timeout_s: float = TIMEOUT_S) -> ServerBinary:
    """Ask a binary for its ``--help`` and ``--version``, or recall what it answered.

    Args:
        given: path of the binary, or its name where it is on the PATH.
        timeout_s: limit for both answers together.

    Raises:
        ServerError: it cannot be run, does not answer in time, or is no llama-server.
    """
    path = _program_path(given)
    identity = identity_of(path)
    known = read_cached(_cache_file(identity), ServerBinary)
    if known is not None:
        # The same file may go by several names.
        return msgspec.structs.replace(known, path=str(path))
    known = _answers(path, timeout_s)
    # It may have been replaced while it was asked.
    if identity_of(path) == identity:
        write_cached(_cache_file(identity), known)
    return known


def _answers(path: Path, timeout_s: float) -> ServerBinary:
    deadline_s = time.monotonic() + timeout_s
    helped = ask(path, ("--help",), timeout_s)
    options = read_help(helped.output.text)
    if not _REQUIRED.issubset(flag for option in options for flag in option.flags):
        raise ServerError(
            f"{path} is no llama-server that runs: its --help lists no "
            f"{', '.join(sorted(_REQUIRED))}, and it ended with "
            f"{manner_of(helped.returncode or 0)}; {helped.output.last_words}; give the path of a "
            "llama-server"
        )
    version = ask(path, ("--version",), max(deadline_s - time.monotonic(), 0.0)).output.text
    return ServerBinary(path=str(path), options=options, version=read_version(version))


def _program_path(given: str) -> Path:
    """The file, as an absolute path; links are left, as a program may go by its name.

    Raises:
        ServerError: there is none, or it cannot be run.
    """
    # As a shell does: what lies in the working folder must not be taken for the installed one.
    found = given if os.sep in given else shutil.which(given)
    if found is None:
        raise ServerError(
            f"cannot start {given} (there is no such program on the PATH); give the path of an "
            f"executable llama-server, as ./{given} where it is in the working folder"
        )
    path = Path(found)
    if not (path.is_file() and os.access(path, os.X_OK)):
        reason = "it is no executable file" if path.exists() else "no such file"
        raise ServerError(
            f"cannot start {given} ({reason}); give the path of an executable llama-server"
        )
    return path.absolute()


def ask(
    program: Path,
    arguments: Sequence[str],
    timeout_s: float,
    variables: Mapping[str, str] | None = None,
) -> KeptProcess:
    """Run a program to its end, with variables beside the user's own; return it, ended.

    Raises:
        ServerError: it cannot be started, or does not end in time.
    """
    own = own_environment(os.environ)
    environment = {k: v for k, v in own.items() if not k.startswith(_OPTION_VARIABLES)}
    with KeptProcess(
        [str(program), *arguments],
        grace_s=0.0,
        environment=environment | WITHOUT_CONFIG_FILE | dict(variables or {}),
    ) as process:
        code = process.wait(timeout_s)
    if code is None:
        # What is left of the time for several questions is no round number.
        shown = f"{timeout_s:.0f}" if timeout_s > 1 else f"{timeout_s:.2g}"
        raise ServerError(
            f"{program} {arguments[0]} did not end within {shown} s; {process.output.last_words}; "
            "give the path of a llama-server that runs"
        )
    return process


def identity_of(path: Path) -> BinaryIdentity:
    """Return the identity of an existing file."""
    resolved = path.resolve()
    stat = resolved.stat()
    return BinaryIdentity(
        path=text_of(str(resolved)),
        size_bytes=stat.st_size,
        mtime_ns=stat.st_mtime_ns,
        libraries=_libraries(resolved.parent),
    )


def _libraries(folder: Path) -> str:
    digest = hashlib.sha256()
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if ".so" in entry.name and entry.is_file():
                stat = entry.stat()
                digest.update(f"{entry.name!a} {stat.st_size} {stat.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def _cache_file(identity: BinaryIdentity) -> Path:
    name = hashlib.sha256(msgspec.json.encode(identity)).hexdigest()
    return cache_dir() / _FOLDER / f"{name[:16]}.json"


def read_help(text: str) -> tuple[HelpOption, ...]:
    """Return every option of a help text, in its order; none for a text that is no such help."""
    return tuple(_help_option(left, words) for left, words in _paragraphs(text))


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


def _help_option(left: str, words: str) -> HelpOption:
    names = list(_NAME.finditer(left))
    variable = _VARIABLE.search(words)
    return HelpOption(
        flags=tuple(name[1] for name in names),
        value=left[names[-1].end() :].strip() or None,
        variable=variable and variable[1],
        is_removed=_REMOVED in words,
    )
