"""Stages of ik_llama.cpp, as its parser takes and refuses them.

The parser's own answers to whole commands stand in ``corpus/ik-answers.json``.
"""

import pytest

from spectui.commands.command import ServerCommand
from spectui.commands.items import divide
from spectui.commands.lint.checking import lint
from spectui.commands.renames import Stage, is_stage, stages_of
from spectui.commands.rewriting import drafting
from spectui.errors import BadInputError
from tests.commands.test_lint import ERROR, IK, WARNING, found
from tests.support.tables import table


def of(words: tuple[str, ...]) -> ServerCommand:
    return ServerCommand.of(divide(("-m", "t", *words)))


@table(
    ("text", "kind", "numbers"),
    [
        ("mtp", "mtp", {}),
        ("ngram_map-k:--ngram-size-n=3", "ngram-map-k", {"ngram_size_n": "3"}),
        ("mtp:n_max=3,ngram_size_n=8", "mtp", {"n_max": "3", "ngram_size_n": "8"}),
        ("suffix:suffix_corpus='a,b',n_max=2", "suffix", {"suffix_corpus": "'a,b'", "n_max": "2"}),
        (r"suffix:suffix_corpus=a\,b\c", "suffix", {"suffix_corpus": r"a\,b\c"}),
        ("dflash:cross_ctx=1,p_min=nan", "dflash", {"cross_ctx": "1", "p_min": "nan"}),
    ],
)
def test_a_stage(text: str, kind: str, numbers: dict[str, str]) -> None:
    stage = Stage(kind=kind, numbers=numbers)
    assert is_stage(text)
    assert stages_of(text) == stages_of(stage.words[1]) == [stage]


@table(
    "text",
    [
        *("draft-mtp", "MTP", "", "mtp,ngram-mod", "mtp:n_max"),
    ],
)
def test_no_stage(text: str) -> None:
    assert not is_stage(text)
    assert any(one.severity is ERROR for one in lint(of(("--spec-type", text)), IK))


@table("kind", ["draft", "dflash", "dspark"])
def test_a_draft_is_needed(kind: str) -> None:
    assert found(f"-m t --spec-type {kind}", IK)[0][0] is ERROR
    assert found(f"-m t -md '' --spec-type {kind}", IK)[0][0] is ERROR
    assert all(one[0] is not ERROR for one in found(f"-m t -draft '-m d' --spec-type {kind}", IK))


def test_a_draft_that_nothing_asks() -> None:
    assert (WARNING, "--spec-type", "--spec-type draft") in found("-m t -md d", IK)


def test_what_is_taken_of_a_stage() -> None:
    found = drafting("ngram_mod:n-max=9,ngram_size_n=5")
    assert found["spec-type"] == ("ngram-mod",)
    assert sorted(found.values()) == [("5",), ("9",), ("ngram-mod",)]
    with pytest.raises(BadInputError, match="take the rest out"):
        drafting("mtp:foo=1")
