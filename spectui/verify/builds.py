"""Compares the llama.cpp build of a binary with the engine's. Pure."""

from dataclasses import dataclass
from enum import StrEnum

from spectui.documents import Json, or_reason
from spectui.measure.servers import UNTOLD
from spectui.server.help_text import Version

_NO_LIBRARY = "there is no llama.cpp library"
_FEWEST = 7
"""Minimum number of characters that identify a commit, as git abbreviates it."""


class Compared(StrEnum):
    """The most precise identifier by which two builds were compared."""

    COMMIT = "commit"
    BUILD = "build"
    VERSION = "version"


@dataclass(frozen=True, slots=True, kw_only=True)
class Builds:
    """The llama.cpp that measured, and the one that serves."""

    engine: str | None
    """None where nothing measures in-process."""
    engine_commit: str | None = None
    """None if the engine's library was not built in a clone."""
    server: Version | None
    """None if the binary does not report a version."""

    @property
    def is_same(self) -> bool | None:
        """Whether both are the same build; None if one is unknown."""
        found = self._compared()
        return None if found is None else found[1]

    @property
    def compared(self) -> Compared | None:
        """The most precise identifier that both have; None if the server's build is unknown."""
        found = self._compared()
        return None if found is None else found[0]

    def _compared(self) -> tuple[Compared, bool] | None:
        server = self.server
        if server is None or self.engine is None:
            return None
        if server.commit is not None and self.engine_commit is not None:
            return Compared.COMMIT, _same_commit(server.commit, self.engine_commit)
        if server.build is not None and self.engine.isdecimal():
            return Compared.BUILD, server.build == int(self.engine)
        return Compared.VERSION, server.text == self.engine

    @property
    def engine_text(self) -> str:
        """The engine's version, with its commit where that is known."""
        commit = self.engine_commit
        if self.engine is None:
            return "none"
        return self.engine if commit is None else f"{self.engine} (commit {commit})"

    @property
    def server_text(self) -> str:
        """The server's version, with build and commit where they are known."""
        if self.server is None:
            return "unknown"
        details = [
            *([] if self.server.build is None else [f"build {self.server.build}"]),
            *([] if self.server.commit is None else [f"commit {self.server.commit}"]),
        ]
        # Old builds have no other version than their number.
        details = [one for one in details if one != f"build {self.server.text}"]
        return f"{self.server.text} ({', '.join(details)})" if details else self.server.text

    def document(self) -> Json:
        """Both builds, and whether they are the same, in documents."""
        compared = None if self.compared is None else str(self.compared)
        return {
            **or_reason("engine", self.engine, _NO_LIBRARY),
            **or_reason("engine_commit", self.engine_commit, "the library does not tell"),
            "server": self.server_text,
            **or_reason("same", self.is_same, UNTOLD),
            **or_reason("compared", compared, UNTOLD),
        }

    @property
    def note(self) -> str | None:
        """A note on differing builds; None if both are the same."""
        if self.is_same or self.engine is None:
            return None
        if self.server is None:
            return (
                "the binary does not tell its version: whether it is the llama.cpp that measures "
                "in-process is not known."
            )
        return f"the binary is llama.cpp {self.server_text}; in-process it is {self.engine_text}."


def _same_commit(one: str, other: str) -> bool:
    """Whether two abbreviated hashes can belong to one commit."""
    shorter, longer = sorted((one.lower(), other.lower()), key=len)
    return len(shorter) >= _FEWEST and longer.startswith(shorter)
