"""Patterns of ``-ot`` that do not compile, held against llama.cpp's own loader."""

import pytest

from spectui.commands.lint.regexes import fault_of
from spectui.errors import SpectuiError
from spectui.llama.model import Model
from spectui.options.setup import ModelOptions, TensorOverride
from tests.support.models import TARGET, TinyPath
from tests.support.tables import table

pytest_plugins = ["tests.support.fixtures"]

BROKEN = {
    "exps(": "'(' without ')'",
    "exps)": "')' without '('",
    "blk.[0-9": "'[' without ']'",
    "*_exps": "'*' with nothing to repeat before it",
    "(?i)EXPS": "'(?i', which is of other dialects of patterns",
    "a{x": "'{' without a number of repetitions",
    "[9-0]": "the range '9-0', whose ends are the wrong way round",
    r"\1(a)": r"'\\1' without a group that it repeats",
    "a\\": r"'\\', an escape without its end",
    "[[:letters:]]": "a class of characters that nobody knows",
}
FINE = (
    *("", "exps", r"blk\.(1[0-9]|2[0-3])\.ffn_(up|gate)_exps", "^output", "a**", "a++", "a{2}"),
    *(r"(a)\1", r"(?:a|b)+", "(?!x)y", "[]", "[^]", "a]", "a}", "a|", "()", r"\p\_", r"[\w.-]"),
    *("[[:alpha:]_]+", "[a[b]", r"\x41", "$"),
)


@table("pattern", BROKEN)
def test_what_stops_the_loader_is_named(pattern: str, tiny: TinyPath) -> None:
    assert fault_of(pattern) == BROKEN[pattern]
    with pytest.raises(SpectuiError, match=r"no valid regular expression|Invalid character class"):
        load(pattern, tiny)


@table("pattern", FINE)
def test_what_the_loader_takes_has_no_fault(pattern: str, tiny: TinyPath) -> None:
    assert fault_of(pattern) is None
    load(pattern, tiny)


def load(pattern: str, tiny: TinyPath) -> None:
    override = TensorOverride(pattern=pattern, buffer="CPU")
    with Model(ModelOptions(path=tiny(TARGET), override_tensor=(override,))):
        pass
