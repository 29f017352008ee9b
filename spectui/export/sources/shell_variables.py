"""What a script's variables and lists hold, as far as that is known without running it."""

import os
import re
from collections.abc import Callable, MutableMapping, Sequence

PARAMETER = re.compile(
    r"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)(?::?([-=])([^{}]*))?\})"
)
"""``$NAME``, ``${NAME}``, and what stands in for one that is not set."""

Variables = MutableMapping[str, str | None]
"""Values by name; None for one that only running the script would tell."""


class ShellVariables:
    """Looked up while a script is read."""

    def __init__(self, variables: Variables, fail: Callable[[str], None]) -> None:
        """Begin.

        Args:
            variables: those that are set; the environment is asked for others.
            fail: told what cannot be known.
        """
        self._variables = variables
        self._arrays: dict[str, list[str] | None] = {}
        self._fail = fail

    def value(self, parameter: re.Match[str]) -> str:
        """What takes the place of ``parameter``; nothing for what cannot be known."""
        name, operator, default = parameter[1] or parameter[2], parameter[3], parameter[4]
        value = self._variables.get(name, os.environ.get(name))
        is_unknown = name in self._variables and value is None
        if not is_unknown and not value and default is not None:
            value = default
            if operator == "=":
                self._variables[name] = value
        if is_unknown:
            self._fail(_unknown(name))
        elif value is None:
            self._fail(f"the command uses ${name}, which is not set; put there what it stands for")
        return value or ""

    def array(self, name: str) -> Sequence[str]:
        """Words of a list; none for what cannot be known."""
        words = self._arrays.get(name, [])
        if words is None:
            self._fail(_unknown(name))
        return words or []

    def keep(self, name: str, words: Sequence[str] | None, *, adds: bool) -> None:
        """Set a list; ``words`` None for one that depends on a condition."""
        before = self._arrays.get(name, []) if adds else []
        is_known = words is not None and before is not None
        self._arrays[name] = [*(before or []), *(words or [])] if is_known else None


def _unknown(name: str) -> str:
    return (
        f"the command uses ${name}, which the script sets in a way that only running it would "
        "tell; put there what it stands for"
    )
