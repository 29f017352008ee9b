"""A user's llama-server binary: which one it is, and what it takes, from its own mouth."""

import os
import shutil
from dataclasses import replace
from pathlib import Path

import msgspec

from spectui.errors import ServerError, UsageError
from spectui.export.accepted import Accepted, drafters_of
from spectui.options.dialect import Dialect
from spectui.server.asking import Answer, ask
from spectui.server.binary_cache import identity_of, recall, remember
from spectui.server.help_text import HelpOption, Version, read_help, read_version
from spectui.server.kept import last_words, manner_of

TIMEOUT_S = 30.0
"""For an answer: a GPU's driver and a cold disk may take most of it."""
_ITS_OWN = frozenset({"--model", "--ctx-size", "--port"})
"""Options that every llama-server has had, and no other program of llama.cpp has together."""
_FLASH_ATTENTION = frozenset({"-fa", "--flash-attn"})
_UNLISTED = frozenset(
    {
        *("-ngl", "--gpu-layers", "--n-gpu-layers"),
        *("-ngld", "--gpu-layers-draft", "--n-gpu-layers-draft"),
        *("-ot", "--override-tensor", "--no-mmap"),
    }
)
"""What ik_llama.cpp takes always, but lists only where it was built for a GPU, or maps files."""


class ServerBinary(msgspec.Struct, frozen=True, kw_only=True):
    """What one llama-server says of itself."""

    path: str
    """Absolute."""
    options: tuple[HelpOption, ...]
    version: Version | None
    """None where ``--version`` tells nothing that is known."""

    @property
    def accepted(self) -> Accepted:
        """What it takes."""
        live = [option for option in self.options if not option.is_removed]
        flags = frozenset(flag for option in live for flag in option.flags)
        named = Accepted(
            program=self.path,
            flags=flags,
            bare=frozenset(f for option in live if option.value is None for f in option.flags),
            variables=frozenset(option.variable for option in live if option.variable is not None),
            drafters=drafters_of(self._value_of("--spec-type")),
        )
        if named.dialect is not Dialect.IK:
            return named
        # Its help leaves out most values: only of -fa it is known that there are builds without.
        bare = named.bare & _FLASH_ATTENTION
        return replace(named, flags=flags | _UNLISTED, bare=bare)

    @property
    def dialect(self) -> Dialect:
        """Whose names it has."""
        return self.accepted.dialect

    def check_dialect(self, wanted: Dialect) -> None:
        """Refuse to write for another dialect than its own.

        Raises:
            UsageError: it has other options than ``wanted``.
        """
        if wanted is not self.dialect:
            raise UsageError(
                f"--dialect {wanted}: {self.path} has the options of {self.dialect}; leave out "
                "--dialect, or --server-bin"
            )

    def default(self, flag: str) -> str | None:
        """What its help gives as the default of an option; None where it gives none."""
        return next((o.default for o in self._options_of(flag) if not o.is_removed), None)

    def is_removed(self, flag: str) -> bool:
        """Whether it knows an option only to refuse it."""
        return any(option.is_removed for option in self._options_of(flag))

    def _value_of(self, flag: str) -> str:
        return next((option.value or "" for option in self._options_of(flag)), "")

    def _options_of(self, flag: str) -> list[HelpOption]:
        return [option for option in self.options if flag in option.flags]


def examine(given: str, *, timeout_s: float = TIMEOUT_S) -> ServerBinary:
    """Ask a binary for its ``--help`` and ``--version``, or recall what it answered.

    Args:
        given: path of the binary, or its name where it is on the PATH.
        timeout_s: how long both answers may take together.

    Raises:
        ServerError: it cannot be run, does not answer in time, or is no llama-server.
    """
    path = _found(given)
    identity = identity_of(path)
    known = recall(identity, ServerBinary)
    if known is not None:
        # The same file may go by several names.
        return msgspec.structs.replace(known, path=str(path))
    known = _asked(path, timeout_s)
    # It may have been replaced while it was asked.
    if identity_of(path) == identity:
        remember(identity, known)
    return known


def _asked(path: Path, timeout_s: float) -> ServerBinary:
    told = ask(path, "--help", timeout_s)
    options = read_help(told.text)
    if not _ITS_OWN.issubset(flag for option in options for flag in option.flags):
        raise _no_server(path, told)
    version = ask(path, "--version", timeout_s - told.took_s)
    return ServerBinary(path=str(path), options=options, version=read_version(version.text))


def _no_server(path: Path, told: Answer) -> ServerError:
    if told.code < 0:
        what = f"{path} --help ended with {manner_of(told.code)}"
    else:
        what = f"{path} is no llama-server: its --help lists no {', '.join(sorted(_ITS_OWN))}"
        what += f", and it ended with {manner_of(told.code)}" if told.code else ""
    return ServerError(
        f"{what}; {last_words(told.output)}; give the path of a llama-server that runs"
    )


def _found(given: str) -> Path:
    """The file, as an absolute path; links are left, as a program may go by its name.

    Raises:
        ServerError: there is none, or it cannot be run.
    """
    if not given:
        raise ServerError("no llama-server is named; give the path of an executable llama-server")
    path = Path(given)
    if not os.path.lexists(given) and os.sep not in given:
        path = Path(shutil.which(given) or given)
    reason = None
    if not path.exists():
        reason = "no such file"
    elif not path.is_file():
        reason = "it is no regular file"
    elif not os.access(path, os.X_OK):
        reason = "it is not executable"
    if reason is not None:
        raise ServerError(
            f"cannot start {given} ({reason}); give the path of an executable llama-server"
        )
    return path.absolute()
