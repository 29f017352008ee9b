"""Exit codes and variables that are documented are those that the program has."""

import re
from collections.abc import Iterator
from pathlib import Path

import spectui
from spectui.cli.contract import EXIT_CODES, VARIABLES
from spectui.errors import SpectuiError

_VARIABLE = re.compile(r"\bSPECTUI_[A-Z_]+\b")


def _errors(base: type[SpectuiError]) -> Iterator[type[SpectuiError]]:
    yield base
    for one in base.__subclasses__():
        yield from _errors(one)


def test_the_code_of_every_error_is_documented() -> None:
    assert {error.exit_code for error in _errors(SpectuiError)} <= EXIT_CODES.keys()


def test_every_variable_of_the_program_is_documented() -> None:
    sources = Path(spectui.__file__).parent.rglob("*.py")
    named = {name for path in sources for name in _VARIABLE.findall(path.read_text("utf-8"))}
    assert named == {name for name in VARIABLES if name.startswith("SPECTUI_")}
