"""Drift between the llama.cpp of a binary and the engine's. Pure."""

from dataclasses import dataclass

from spectui.server.help_text import Version


@dataclass(frozen=True, slots=True, kw_only=True)
class Builds:
    """Which llama.cpp measured and which one serves."""

    engine: str
    server: Version | None
    """None where the binary does not tell."""

    @property
    def is_same(self) -> bool | None:
        """Whether both tell the same version; None where one is not known."""
        return None if self.server is None else self.server.text == self.engine

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

    @property
    def note(self) -> str | None:
        """What a user should know; None where both are the same version."""
        if self.is_same:
            return None
        if self.server is None:
            return (
                "the binary does not tell its version: whether it is the llama.cpp that measures "
                "in-process is not known."
            )
        return f"the binary is llama.cpp {self.server_text}; in-process it is {self.engine}."
