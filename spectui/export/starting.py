"""The words before a command's arguments: variables, wrappers, the program."""

from dataclasses import dataclass, replace

_UNIFIED = ("serve",)
"""Words after a program that holds the server among others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """The way a program is started, independent of its arguments."""

    environment: tuple[tuple[str, str], ...] = ()
    """Variables that the command sets, without those that stand for options."""
    program: tuple[str, ...] = ("llama-server",)
    """Words that start the program, including wrappers."""

    @property
    def wrappers(self) -> tuple[str, ...]:
        """Words before the program, such as ``numactl`` and its options."""
        return self.program[: -2 if self.program[-1:] == _UNIFIED else -1]

    def running(self, program: str | None) -> "Start":
        """This start with another program; None keeps the program."""
        return self if program is None else replace(self, program=(*self.wrappers, program))
