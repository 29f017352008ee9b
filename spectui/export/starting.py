"""What stands before the arguments of a command: variables, wrappers, the program."""

from dataclasses import dataclass, replace

_UNIFIED = ("serve",)
"""What follows the program that holds the server among others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """How a program is started, whatever its arguments are."""

    environment: tuple[tuple[str, str], ...] = ()
    """Variables that the command sets, other than those that stand for options."""
    program: tuple[str, ...] = ("llama-server",)
    """What is started: the program, behind what wraps it."""

    @property
    def wrappers(self) -> tuple[str, ...]:
        """What stands before the program, as ``numactl`` does."""
        return self.program[: -2 if self.program[-1:] == _UNIFIED else -1]

    def running(self, program: str | None) -> "Start":
        """The same start of another program; None leaves it as it is."""
        return self if program is None else replace(self, program=(*self.wrappers, program))
