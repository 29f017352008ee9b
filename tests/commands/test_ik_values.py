"""Values and stages of ik_llama.cpp, as its parser takes and refuses them.

The parser's own answers to whole commands stand in ``corpus/ik-answers.json``.
"""

import pytest

from spectui.commands.command import ServerCommand
from spectui.commands.drafting import drafting
from spectui.commands.items import divide
from spectui.commands.lint.checking import lint
from spectui.commands.stages import Stage, in_order, read_stage
from spectui.commands.values import takes_values, values_of
from spectui.errors import BadInputError
from spectui.options.dialect import Dialect
from tests.commands.test_lint import ERROR, IK, WARNING, found, put_right

TAKEN = {
    "-ngl": ("99", "-1", " 5", "16k"),
    "-np": ("0", "-2"),
    "--seed": ("-1",),
    "-fa": ("on", "OFF", "Auto", "0"),
    "--numa": ("", "distribute"),
    "-ser": ("6,1", "7,0.4,9", "a,b"),
    "-op": ("26,0", "26,0,27,0", "26,0,27"),
    "-ts": ("3/1", "1,", "0.5,,1"),
    "-okv": ("a=int:x", "a=str:", "a=bool:true"),
    "-dev": ("FOO", "CUDA0,CUDA1", ""),
    "-ctk-first": ("q8_0,4", "q8_KV,-1"),
    "--allowlist-unicode-rule": ("65..90", "Latin", "ascii:0.5", "65..90,Latin:1", "..90", ""),
    "--reasoning": ("on", "-1"),
    "--chat-template-kwargs": ("{}", "[1]", "1"),
    "-j": ("{}",),
    "-l": ("5+1", "5-inf"),
}
REFUSED = {
    "-ngl": ("all", "auto", "", "99999999999"),
    "-mla": ("on",),
    "-amb": ("high",),
    "-fa": ("true", "enabled", "-1"),
    "--context-shift": ("true",),
    "-ncmoe": ("-1", "all"),
    "--fit-margin": ("-1",),
    "-ser": ("6", "6,", "1,2,3,4", ""),
    "-gfm": ("0",),
    "-ts": (",1", "a", ",".join("1" * 16), ""),
    "-okv": ("a=u32:1", "a", "a=bool:yes", f"{'k' * 128}=int:1", f"a=str:{'v' * 128}"),
    "-dev": ("CUDA-0", " "),
    "-sm": ("row", "Layer"),
    "-ctk": ("q8_1", "Q8_0"),
    "-ctk-first": ("q8_0", "q8_1,4", "q8_0,x", "q8_0,4,"),
    "-grt": ("q4_0",),
    "--allowlist-unicode-rule": ("x..90", "a,Latin", "Latin:x"),
    "--reasoning": ("ON",),
    "--pooling": ("rank",),
    "--chat-template-kwargs": ("{a}", '{"a":1e999}'),
    "-j": ("true", "{"),
    "-l": ("5", "5+x", "99999999999+1"),
    "--temp": ("hot", "1e400"),
}


def of(words: tuple[str, ...]) -> ServerCommand:
    return ServerCommand.of(divide(("-m", "t", *words)))


@pytest.mark.parametrize("flag", TAKEN)
def test_values_that_it_takes(flag: str) -> None:
    for value in TAKEN[flag]:
        assert takes_values(flag, (value,), Dialect.IK), value


@pytest.mark.parametrize("flag", REFUSED)
def test_values_that_it_refuses(flag: str) -> None:
    known = values_of(flag, Dialect.IK)
    assert known is not None
    for value in REFUSED[flag]:
        assert known.read(value) is None, value


@pytest.mark.parametrize(
    ("text", "fixed"),
    [
        ("-m t -ngl all -fa true", "-m t -ngl 999 -fa on"),
        ("-m t -ngl auto", "-m t"),
        ("-m t --spec-type mtp,ngram-mod", "-m t --spec-type ngram-mod --spec-type mtp"),
        (
            "-m t --spec-type mtp:n_max=3 --spec-type ngram-cache",
            "-m t --spec-type ngram-cache --spec-type mtp:n_max=3",
        ),
        ("-m t -md d --spec-type draft:", "-m t -md d --spec-type draft"),
        # Only their author can tell what was meant.
        ("-m t --spec-type mtp:foo=1", "-m t --spec-type mtp:foo=1"),
        (
            "-m t --spec-type ngram-mod --spec-type suffix",
            "-m t --spec-type ngram-mod --spec-type suffix",
        ),
    ],
)
def test_what_is_put_right(text: str, fixed: str) -> None:
    assert any(one[0] is ERROR for one in found(text, IK))
    assert put_right(text, IK) == fixed


@pytest.mark.parametrize(
    ("text", "stage"),
    [
        ("mtp", Stage(kind="mtp")),
        ("ngram_map-k:--ngram-size-n=3", Stage(kind="ngram-map-k", numbers={"ngram_size_n": "3"})),
        (
            "mtp:n_max=3,ngram_size_n=8",
            Stage(kind="mtp", numbers={"n_max": "3", "ngram_size_n": "8"}),
        ),
        # 16 bits are kept.
        (
            "ngram-mod:ngram_size_m=65537",
            Stage(kind="ngram-mod", numbers={"ngram_size_m": "65537"}),
        ),
        (
            "suffix:suffix_corpus='a,b',n_max=2",
            Stage(kind="suffix", numbers={"suffix_corpus": "a,b", "n_max": "2"}),
        ),
        (r"suffix:suffix_corpus=a\,b\c", Stage(kind="suffix", numbers={"suffix_corpus": r"a,b\c"})),
        (
            "dflash:cross_ctx=1,p_min=nan",
            Stage(kind="dflash", numbers={"cross_ctx": "1", "p_min": "nan"}),
        ),
    ],
)
def test_a_stage(text: str, stage: Stage) -> None:
    assert read_stage(text) == stage
    assert read_stage(stage.words[1]) == stage


@pytest.mark.parametrize(
    "text",
    [
        *("draft-mtp", "MTP", "", "mtp,ngram-mod", "mtp:", "mtp:n_max", "mtp:n_max=3,", "mtp:x=1"),
        *("mtp:N_max=3", "mtp:n_max=-1", "mtp:p_min=-0.1", "dflash:cross_ctx=0"),
        *("ngram-mod:ngram_size_n=1025", "ngram-mod:ngram_min_hits=65536"),
        *("suffix:suffix_corpus=", "suffix:suffix_corpus='a"),
    ],
)
def test_no_stage(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        read_stage(text)
    assert any(one.severity is ERROR for one in lint(of(("--spec-type", text)), IK))


@pytest.mark.parametrize(
    ("kinds", "is_taken"),
    [
        ("none", True),
        ("none none mtp", True),
        ("ngram-mod mtp", True),
        ("suffix none draft", True),
        ("eagle3", True),
        ("dflash", True),
        ("mtp ngram-mod", False),
        ("draft mtp", False),
        ("ngram-mod ngram-cache", False),
        ("ngram-mod dflash", False),
        ("ngram-mod ngram_mod", False),
        ("ngram-mod suffix mtp", False),
    ],
)
def test_a_chain(kinds: str, *, is_taken: bool) -> None:
    words = [word for kind in kinds.split() for word in ("--spec-type", kind)]
    command = of(("-md", "d", *words))
    assert all(one.severity is not ERROR for one in lint(command, IK)) == is_taken


@pytest.mark.parametrize("kind", ["draft", "dflash", "dspark"])
def test_a_draft_is_needed(kind: str) -> None:
    assert found(f"-m t --spec-type {kind}", IK)[0][0] is ERROR
    assert found(f"-m t -md '' --spec-type {kind}", IK)[0][0] is ERROR
    assert all(one[0] is not ERROR for one in found(f"-m t -draft '-m d' --spec-type {kind}", IK))


def test_a_draft_that_nothing_asks() -> None:
    assert (WARNING, "--spec-type", "--spec-type draft") in found("-m t -md d", IK)
    # Nor is the type of its cache looked at.
    assert all(one[0] is not ERROR for one in found("-m t -md d -ctkd q8_1", IK))
    assert found("-m t -md d -ctkd q8_1 --spec-type draft", IK)[0][:2] == (ERROR, "-ctkd")
    assert (WARNING, "--spec-type", "") in found("-m t --spec-type eagle3", IK)


def test_what_stops_it_inside_its_drafts_arguments() -> None:
    [one, *_] = lint(of(("-draft", '-m "a b.gguf" -fa -ngl 9', "--spec-type", "draft")), IK)
    assert (one.severity, one.what) == (ERROR, "in -draft: -fa has no value")
    text = ("-draft", '-m "a b.gguf" -fa on', "--spec-type", "draft")
    assert all(one.severity is not ERROR for one in lint(of(text), IK))


@pytest.mark.parametrize(
    ("template", "is_taken"),
    [("llama3", True), ("glm4", False), ("mistral-x", True), ("glm4 --jinja", True)],
)
def test_the_name_of_a_template(template: str, *, is_taken: bool) -> None:
    said = found(f"-m t --chat-template {template}", IK)
    assert all(one[0] is not ERROR for one in said) == is_taken


@pytest.mark.parametrize("cache", ["-ctv q8_0", "-ctv-first q8_0,4", "-ctvd q6_0"])
def test_v_caches_need_flash_attention(cache: str) -> None:
    draft = "-md d --spec-type draft"
    assert (ERROR, "-fa", "-fa on") in found(f"-m t {draft} -fa OFF {cache}", IK)


def test_a_device_that_it_lacks_does_not_stop_it() -> None:
    assert found("-m t -ngl 9 -dev GPU1", IK) == [(WARNING, "-dev", None)]
    assert found("-m t -ngl 9 -dev CUDA-1", IK)[0] == (ERROR, "-dev", None)


def test_stages_in_order() -> None:
    stages = [Stage(kind=kind) for kind in ("mtp", "suffix", "draft", "ngram-mod")]
    assert [one.kind for one in in_order(stages)] == ["suffix", "ngram-mod", "mtp", "draft"]


def test_what_is_taken_of_a_stage() -> None:
    found = drafting("ngram_mod:n-max=9,ngram_size_n=5")
    assert found["spec-type"] == ("ngram-mod",)
    assert sorted(found.values()) == [("5",), ("9",), ("ngram-mod",)]
    with pytest.raises(BadInputError, match="no stage of ik"):
        drafting("mtp:foo=1")
