"""What a script's variables and lists hold, as far as that is known without running it."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from spectui.errors import BadInputError

_FOLDER = "PWD"
_UNSET = "\0"
"""What no variable holds."""
_NO_LIST = [_UNSET]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scope:
    """A part of the script that is open."""

    is_apart: bool
    """What is set in it ends with it, as in a subshell."""
    before: dict[str, tuple[str | None, list[str] | None]] = field(default_factory=dict)
    """What those variables and lists held that were assigned in it."""
    touched: set[str] = field(default_factory=set)
    """Those that branches of it have changed which have ended."""


class ShellVariables:
    """Looked up while a script is read.

    What is set in a scope, which is run or not, or how often nobody knows, is known within it and
    unknown behind it.
    """

    def __init__(self, variables: Mapping[str, str]) -> None:
        """Begin with those that are set; the environment is asked for others."""
        self._values: dict[str, str | None] = {**variables}
        self._arrays: dict[str, list[str] | None] = {}
        self._scopes: list[_Scope] = []

    @property
    def values(self) -> dict[str, str]:
        """All that the script has set and that is known."""
        return {name: v for name, v in self._values.items() if v is not None and name != _FOLDER}

    def of(self, names: Iterable[str]) -> dict[str, str]:
        """Those of the names that the script has set and that are known."""
        held = ((name, self._values.get(name)) for name in names)
        return {name: value for name, value in held if value is not None}

    def assign(self, name: str, value: str | None) -> None:
        """Keep a value; None for one that only running the script would tell."""
        self._mind(name)
        self._values[name] = value

    def get(self, name: str) -> str | None:
        """The value of a variable; None for one that is not set.

        Raises:
            BadInputError: only running the script would tell.
        """
        value = self._values.get(name, os.environ.get(name))
        if value is None and name in self._values:
            raise _unknown(name)
        return os.path.abspath(value) if value and name == _FOLDER else value  # noqa: PTH100 - as a shell has it

    def array(self, name: str) -> Sequence[str]:
        """Words of a list.

        Raises:
            BadInputError: only running the script would tell.
        """
        words = self._arrays.get(name, [])
        if words is None:
            raise _unknown(name)
        return words

    def keep(self, name: str, words: Sequence[str] | None, *, adds: bool) -> None:
        """Set a list; ``words`` None for one that only running the script would tell."""
        before = self._arrays.get(name, []) if adds else []
        is_known = words is not None and before is not None
        self._mind(name)
        self._arrays[name] = [*(before or []), *(words or [])] if is_known else None

    @property
    def folder(self) -> str | None:
        """Where the script has gone; empty where it stays.

        None for a folder that only running the script would tell.
        """
        return self._values.get(_FOLDER, "")

    def move(self, folder: str | None) -> None:
        """Go to another folder; None for one that only running the script would tell."""
        before = self.folder
        if folder is None or (before is None and not os.path.isabs(folder)):  # noqa: PTH117 - text
            self.assign(_FOLDER, None)
        else:
            self.assign(_FOLDER, os.path.normpath(os.path.join(before or "", folder)))  # noqa: PTH118 - as a shell does

    def open(self, *, is_apart: bool = False) -> None:
        """Begin a scope."""
        self._scopes.append(_Scope(is_apart=is_apart))

    def branch(self) -> None:
        """Begin another branch of the innermost scope: what was set in those before is not."""
        scope = self._scopes[-1]
        scope.touched.update(self._changed(scope))
        self._restore(scope)

    def close(self) -> frozenset[str]:
        """End the innermost scope; returns the names that were assigned in it."""
        scope = self._scopes.pop()
        if scope.is_apart:
            self._restore(scope)
            return frozenset()
        if self._scopes:
            outer = self._scopes[-1].before
            outer.update((n, held) for n, held in scope.before.items() if n not in outer)
        self.forget(scope.touched | self._changed(scope))
        return frozenset(scope.before)

    def forget(self, names: Iterable[str]) -> None:
        """Hold these, variables or lists, for what only running the script would tell."""
        for name in names:
            self.assign(name, None)
            if name in self._arrays:
                self._arrays[name] = None

    def _mind(self, name: str) -> None:
        """Before a change."""
        if self._scopes and name not in self._scopes[-1].before:
            self._scopes[-1].before[name] = self._held(name)

    def _held(self, name: str) -> tuple[str | None, list[str] | None]:
        return self._values.get(name, _UNSET), self._arrays.get(name, _NO_LIST)

    def _changed(self, scope: _Scope) -> set[str]:
        return {name for name, held in scope.before.items() if self._held(name) != held}

    def _restore(self, scope: _Scope) -> None:
        for name, (value, words) in scope.before.items():
            self._values[name] = value
            if value == _UNSET:
                del self._values[name]
            self._arrays[name] = words
            if words is _NO_LIST:
                del self._arrays[name]


def _unknown(name: str) -> BadInputError:
    return BadInputError(
        f"the command uses ${name}, which the script sets in a way that only running it would "
        "tell; put there what it stands for"
    )
