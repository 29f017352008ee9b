"""Tests over tables: one test runs all rows, and names every row that fails."""

import inspect
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest


def table(
    names: str | tuple[str, ...], rows: Iterable[Any]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test for each row of a table, with the row's values as arguments of these names.

    What else the test takes are pytest's fixtures, which all rows share.
    """
    keys, every = (names,) if isinstance(names, str) else names, list(rows)

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        def run(**fixtures: Any) -> None:  # noqa: ANN401 - whatever the test takes
            __tracebackhide__ = True
            failed = []
            for row in every:
                values = dict(zip(keys, (row,) if isinstance(names, str) else row, strict=True))
                try:
                    test(**values, **fixtures)
                except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - all are told
                    failed.append(f"{values}: {error!r}"[:2000])
            assert every, "the table has no rows"
            assert not failed, f"{len(failed)} of {len(every)} rows:\n" + "\n\n".join(failed)

        run.__name__, run.__doc__, run.__module__ = test.__name__, test.__doc__, test.__module__
        run.__dict__.update(test.__dict__)
        taken = inspect.signature(test).parameters.values()
        left = [one for one in taken if one.name not in keys]
        run.__signature__ = inspect.Signature(left)  # type: ignore[attr-defined]
        return run

    return decorate


_COMMANDS = Path(__file__).parent.parent / "commands" / "rules.txt"


@cache
def rules() -> dict[str, list[tuple[str, ...]]]:
    """The rows of the tables of commands, by the name in brackets; "|" divides a row."""
    found: dict[str, list[tuple[str, ...]]] = {}
    for line in _COMMANDS.read_text("utf-8").splitlines():
        if line.startswith("["):
            rows = found[line.strip("[]")] = []
        elif line and not line.startswith("#"):
            rows.append(tuple(cell.strip() for cell in f"{line} ".split(" | ")))
    return found
