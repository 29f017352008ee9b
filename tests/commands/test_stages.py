"""Stages of ik_llama.cpp, as its parser takes and refuses them.

The parser's own answers to whole commands stand in ``corpus/ik-answers.json``.
"""

import shlex
from pathlib import Path

import pytest

from spectui.cli.taken import with_experts_from_first
from spectui.commands.command import ServerCommand
from spectui.commands.drafting import drafting
from spectui.commands.items import divide
from spectui.commands.lint.checking import lint
from spectui.commands.renames import Stage, fault_of_stage, stages_of
from spectui.commands.sources.reading import read_command
from spectui.commands.takeover import counts_from_last, from_first
from spectui.errors import BadInputError
from spectui.options.setup import EXPERTS
from tests.commands.test_lint import ERROR, IK, WARNING, found
from tests.support.models import MOE, write_tiny
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
    assert fault_of_stage(text) is None
    assert stages_of(text) == stages_of(stage.words[1]) == [stage]


@table(
    "text",
    [
        *("draft-mtp", "MTP", "", "mtp,ngram-mod", "mtp:n_max", "mtp:x=1", "mtp:N_max=3"),
    ],
)
def test_no_stage(text: str) -> None:
    assert fault_of_stage(text)
    assert any(one.severity is ERROR for one in lint(of(("--spec-type", text)), IK))


@table("kind", ["draft", "dflash", "dspark"])
def test_a_draft_is_needed(kind: str) -> None:
    assert found(f"-m t --spec-type {kind}", IK)[0][0] is ERROR
    assert found(f"-m t -md '' --spec-type {kind}", IK)[0][0] is ERROR
    assert all(one[0] is not ERROR for one in found(f"-m t -draft '-m d' --spec-type {kind}", IK))


def test_a_draft_that_nothing_asks() -> None:
    assert (WARNING, "--spec-type", "--spec-type draft") in found("-m t -md d", IK)
    assert (WARNING, "--spec-type", "") in found("-m t --spec-type eagle3", IK)


def test_what_is_taken_of_a_stage() -> None:
    found = drafting("ngram_mod:n-max=9,ngram_size_n=5")
    assert found["spec-type"] == ("ngram-mod",)
    assert sorted(found.values()) == [("5",), ("9",), ("ngram-mod",)]
    with pytest.raises(BadInputError, match="no stage of ik"):
        drafting("mtp:foo=1")


OWN = "-mla 3"
"""An option of ik_llama.cpp alone."""
# A dense first layer, and one that predicts.
NAMES = (
    "blk.0.ffn_down.weight",
    *(f"blk.{layer}.ffn_down_exps.weight" for layer in range(1, 12)),
    *(f"blk.{layer}.ffn_up_exps.weight" for layer in range(1, 12)),
    "blk.11.nextn.eh_proj.weight",
)


@table(
    ("given", "left"),
    [
        ("-ncmoe 2", r"-ot blk\.(9|10)\.{}=CPU"),
        ("-cmoe -ncmoe 1", r"-ot blk\.(10)\.{}=CPU"),
        # Behind every -ot, wherever it stands.
        ("-ncmoe 1 -ot exps=CUDA0", r"-ot exps=CUDA0 -ot blk\.(10)\.{}=CPU"),
        ("--n-cpu-moe 99", r"-ot blk\.(1|2|3|4|5|6|7|8|9|10)\.{}=CPU"),
    ],
)
def test_the_last_layers_with_experts_get_a_pattern(given: str, left: str) -> None:
    command = read_command(f"llama-server -m m {OWN} {given}")
    assert counts_from_last(command)
    expected = left.format(EXPERTS)
    found = from_first(command, NAMES).arguments
    assert " ".join(found) == f"-m m {OWN} {expected}"


def test_what_is_measured_has_the_layers_of_its_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_tiny(MOE, tmp_path / "moe.gguf")
    path = shlex.quote(str(tmp_path / "moe.gguf"))
    found = with_experts_from_first(read_command(f"llama-server -m {path} {OWN} -ncmoe 1"))
    assert found.arguments[-2:] == ("-ot", rf"blk\.(1)\.{EXPERTS}=CPU")
    assert "note: -ncmoe 1 is ik_llama.cpp's" in capsys.readouterr().err
