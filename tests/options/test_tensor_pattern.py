"""Patterns of placements: searched at once, or not at all."""

from spectui.options.reading import tensor_pattern
from tests.support.tables import table

NAMES = ("blk.3.ffn_up_exps.weight", "a" * 64, "\n")


TAKEN = (
    *("exps", r"\.ffn_(up|down|gate)_(ch|)exps", r"blk\.(1[0-9]|2[0-3])\.ffn_.*_exps\.weight"),
    *(r"a\*\+\{\*\+", "[*+{]{2}[]*+][^]*+]", ".*.*.*.*Z", "x" * 4000),
)
REFUSED = (
    *("(a+)+Z", "(a|a)*Z", "(a{1,9}){1,9}Z", r"(?P<x>a)(?P=x)+Z", ".*.*.*.*.*Z", ".+" * 20),
    *("(" * 4000, "[", "*", "a{99999999999}", "x" * 4001, "[[:alpha:]]", "[a--b]"),
)


@table("text", TAKEN)
def test_what_is_searched_at_once_is_taken(text: str) -> None:
    found = tensor_pattern(text)
    assert found is not None
    for name in NAMES:
        found.search(name)


@table("text", REFUSED)
def test_what_may_have_no_end_or_cannot_be_read_is_not(text: str) -> None:
    assert tensor_pattern(text) is None
