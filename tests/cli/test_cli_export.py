"""``spectui export`` as a user runs it."""

import json
import re
import shlex
from datetime import UTC, datetime
from pathlib import Path

import optuna
import pytest

from spectui.commands.arguments import server_arguments
from spectui.commands.items import divide
from spectui.errors import BadInputError
from spectui.measure.verdict import Verdict
from spectui.options.dialect import Dialect
from spectui.options.drafters import DraftSimple
from spectui.options.setup import ContextOptions, ModelOptions, Schedule
from spectui.options.speculation import Speculation
from spectui.tune.outcome import Outcome
from spectui.tune.studies.records import OUTCOME, to_plain
from spectui.tune.studies.study import TuningStudy
from tests.support.binaries import CURRENT, IK, LEGACY, write_binary, write_script
from tests.support.cli import Spectui

pytest_plugins = ["tests.support.fixtures", "tests.support.cli_fixtures"]
pytestmark = pytest.mark.slow

COMMAND = "llama-server -m /m/t.gguf -md /m/d.gguf --draft-max 8 -ot exps=CPU --jinja -np 2"
OFF = "# speculation off: no speculative flag is written"


@pytest.fixture
def tuned(spectui: Spectui, pair: list[object], prompts: Path, home: Path) -> dict[str, object]:
    """What ``tune`` printed; its study is the only one."""
    assert home.parent.is_dir()
    drafts = ["--spec-type", "draft-simple", "--trials", 3]
    code = spectui("tune", *pair, "--prompts", prompts, *drafts, "--json", "-", "--quiet")
    assert code == 0
    return dict(json.loads(spectui.out))


def test_a_study_is_exported_as_tune_printed_it(
    spectui: Spectui, tuned: dict[str, object], home: Path
) -> None:
    assert spectui("export") == 0
    *comments, line = spectui.out.splitlines()
    assert line == tuned["command"]
    verdict = tuned["verdict"]
    assert isinstance(verdict, dict)
    assert comments == ([] if verdict["use_speculation"] else [OFF])
    assert verdict["reason"] in spectui.err
    assert str(tuned["study"]) in spectui.err
    name = str(tuned["study"])
    assert spectui("export", name[:6], "--format", "json") == 0
    assert json.loads(spectui.out)["arguments"] == tuned["flags"]
    assert spectui("export", name, "--format", "args") == 0
    assert spectui.out.splitlines() == tuned["flags"]
    # A search that has no verdict yet does not hide it.
    optuna.create_study(study_name="later", storage=f"sqlite:///{home}/data/studies.sqlite3")
    assert spectui("export") == 0
    assert spectui.out.splitlines()[-1] == tuned["command"]


def test_a_verdict_to_use_it_is_exported_with_its_setting(spectui: Spectui, home: Path) -> None:
    target, draft = ModelOptions(path=Path("/m/t.gguf")), ModelOptions(path=Path("/m/it's d.gguf"))
    outcome = Outcome(
        ended=datetime(2026, 5, 1, 12, tzinfo=UTC),
        verdict=Verdict(use_speculation=True, reason="Use it: worth +20 %."),
        target=target,
        draft=draft,
        context=ContextOptions(ctx_size=8192),
        speculation=Speculation(DraftSimple(draft_max=6, draft_p_min=0.15000000000000002)),
        schedule=Schedule.FAST,
        gain=None,
        extra=("--jinja",),
    )
    (home / "data").mkdir(parents=True)
    study = optuna.create_study(study_name="s", storage=f"sqlite:///{home}/data/studies.sqlite3")
    study.set_user_attr(OUTCOME, to_plain(outcome))
    assert spectui("export") == 0
    setting = outcome.speculation
    given = target, draft, outcome.context, setting
    arguments = server_arguments(*given, dialect=Dialect.LLAMA_CPP)
    assert spectui.out == f"{shlex.join(['llama-server', *arguments])} --jinja\n"
    assert "Use it: worth +20 %." in spectui.err
    assert "mind that it was measured on the fast schedule" in spectui.err
    assert "mind that /m/it's d.gguf is not there any more" in spectui.err


def test_the_dialect_of_the_search_is_the_usual_one(
    spectui: Spectui, pair: list[object], prompts: Path
) -> None:
    options = ["--prompts", prompts, "--trials", 2, "--json", "-", "--quiet", "--dialect", "ik"]
    assert spectui("tune", *pair, *options) == 0
    document = json.loads(spectui.out)
    assert spectui("export") == 0
    assert spectui.out.splitlines()[-1] == document["command"]
    assert spectui("export", "--dialect", "llama.cpp") == 0
    assert "-ngl all" in spectui.out


def test_a_study_without_advice_says_what_is_missing(spectui: Spectui, home: Path) -> None:
    (home / "data").mkdir(parents=True)
    optuna.create_study(study_name="old", storage=f"sqlite:///{home}/data/studies.sqlite3")
    assert spectui("export") == 3
    assert "the study old keeps neither a verdict nor where its models are" in spectui.err
    assert "Traceback" not in spectui.err


def test_studies_are_found_by_a_part_of_their_name(spectui: Spectui, home: Path) -> None:
    (home / "data").mkdir(parents=True)
    for name in ("qwen-one", "qwen-two", "gemma"):
        optuna.create_study(study_name=name, storage=f"sqlite:///{home}/data/studies.sqlite3")
    assert spectui("export", "qwen") == 2
    assert "qwen may mean qwen-" in spectui.err
    assert {"qwen-one", "qwen-two"} <= set(spectui.err.replace(",", " ").replace(";", " ").split())
    assert spectui("export", "llama") == 2
    assert "there is no study llama; there are " in spectui.err
    assert spectui("export", "gem") == 3
    assert "the study gemma keeps" in spectui.err


def test_without_a_study_that_is_said_and_nothing_is_made(spectui: Spectui, home: Path) -> None:
    assert spectui("export") == 2
    assert "nothing has been tuned yet" in spectui.err
    assert not home.exists()


def test_a_storage_that_cannot_be_used_is_bad_input(spectui: Spectui) -> None:
    assert spectui("export", "--storage", "sqlite:////nowhere/x") == 3
    assert "the storage sqlite:////nowhere/x cannot be used" in spectui.err


@pytest.mark.parametrize(
    ("arguments", "line", "told"),
    [
        pytest.param(
            [],
            "llama-server -m /m/t.gguf -md /m/d.gguf --spec-type draft-simple --spec-draft-n-max 8 "
            "--spec-draft-n-min 0 --spec-draft-p-min 0.75 -ot exps=CPU --jinja -np 2",
            "--spec-draft-p-min 0.75 is written out\n"
            "changed, since llama-server does not take --draft-max: --draft-max 8 is now "
            "--spec-draft-n-max 8\n"
            "mind that --spec-type draft-simple is written out: since spring 2026 nothing drafts "
            "without it\n",
            id="current",
        ),
        pytest.param(
            ["--dialect", "llama.cpp-legacy"],
            "llama-server -m /m/t.gguf -md /m/d.gguf --draft-max 8 --draft-min 0 "
            "--draft-p-min 0.75 -ot exps=CPU --jinja -np 2",
            "--draft-p-min 0.75 is written out\n",
            id="legacy",
        ),
        pytest.param(
            ["--dialect", "ik"],
            "llama-server -m /m/t.gguf -md /m/d.gguf --spec-type draft:n_max=8,n_min=0,p_min=0.75 "
            "-ot exps=CPU --jinja -np 2",
            "--draft-p-min 0.75 is written out\n"
            "changed, since ik_llama.cpp's llama-server does not take --draft-max: --draft-max 8 "
            "is now --spec-type draft:n_max=8\n",
            id="ik",
        ),
    ],
)
def test_a_command_is_rewritten_and_nothing_is_added(
    spectui: Spectui, arguments: list[str], line: str, told: str
) -> None:
    assert spectui("export", "--from", COMMAND, *arguments) == 0
    assert spectui.out == f"{line}\n"
    assert spectui.err == (
        "mind that the command gives no --draft-p-min, whose default was 0.75 until spring 2026 "
        f"and is 0.0 since: {told}"
    )


def test_what_a_command_says_is_kept_in_other_words(spectui: Spectui) -> None:
    command = (
        "llama-server -m t.gguf -c 512 -ngl 20 --no-mmap --n-cpu-moe 2 -fa -t 8 -ctk q8_0 -b 64"
    )
    assert spectui("export", "--from", command) == 0
    words = "-m t.gguf -c 512 -ngl 20 --load-mode none --n-cpu-moe 2 -fa on -t 8 -ctk q8_0 -b 64"
    assert spectui.out == f"llama-server {words}\n"
    assert spectui("export", "--from", command, "--dialect", "ik") == 0
    found = shlex.split(spectui.out.splitlines()[-1])
    assert "--no-mmap" in found
    assert found[found.index("-ot") + 1].startswith(r"blk\.(0|1)\.ffn_")


def test_what_a_command_leaves_to_the_server_stays_left(spectui: Spectui) -> None:
    command = "llama-server -m t.gguf -c 0 -ngl auto -fa auto -t -1 --metrics"
    assert spectui("export", "--from", command) == 0
    assert spectui.out == f"{command}\n"


@pytest.mark.parametrize(
    "command",
    [
        "CUDA_VISIBLE_DEVICES=0,1 GGML_CUDA_X=k numactl -N 0 /opt/x/llama-server -m m.gguf -c 3",
        "llama serve -m m.gguf --temp -0.5 -t 1 -tb 0",
        "llama-server -m m.gguf -ngl -1 -ngld -2 --cpu-moe -ot a=CUDA0 -lm mlock -lm none",
        "llama-server -hf a/b:Q4_K_M -c 0",
        "llama-server --models-dir /m -c 4096",
        "llama-server -m m.gguf -md e.gguf --spec-type draft-eagle3",
        "llama-server -m m.gguf -md dflash.gguf",
    ],
)
def test_what_is_right_comes_back_as_it_stands(spectui: Spectui, command: str) -> None:
    assert spectui("export", "--from", command) == 0
    assert spectui.out == f"{command}\n"
    assert spectui.err == ""


@pytest.mark.parametrize("format_", ["llama-server", "args", "env", "ini", "llama-swap", "json"])
def test_an_export_is_read_back(spectui: Spectui, format_: str, tmp_path: Path) -> None:
    command = (
        "CUDA_VISIBLE_DEVICES=1 llama-server -m '/m/a b.gguf' --alias 'it'\"'\"'s $5' -np 2 "
        "--jinja --no-kv-offload -ngl 20"
    )
    assert spectui("export", "--from", command, "--format", "json") == 0
    wanted = json.loads(spectui.out)
    out = tmp_path / f"FILE.{'yaml' if format_ == 'llama-swap' else format_}"
    assert spectui("export", "--from", command, "--format", format_, "--out", out) == 0
    assert spectui("export", "--from", out, "--format", "json") == 0
    found = json.loads(spectui.out)
    assert server_words(found["arguments"]) == server_words(wanted["arguments"])
    has_environment = format_ not in {"args", "ini"}
    assert found["environment"] == ({"CUDA_VISIBLE_DEVICES": "1"} if has_environment else {})


def test_a_terminal_is_spared_what_it_would_act_on(
    spectui: Spectui, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["export", "--from", "llama-server -m m.gguf --alias '\x1b[31m'"]
    assert spectui(*command) == 0
    assert "\x1b[31m" in spectui.out
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert spectui(*command) == 3
    assert "\x1b" not in spectui.out + spectui.err
    assert "let stdout go to a file" in spectui.err


def server_words(arguments: list[str]) -> list[tuple[str, tuple[str, ...]]]:
    return [(given.name, given.values) for given in divide(arguments)]


@pytest.mark.parametrize("command", ["llama-server", "llama-server -c 5"])
def test_a_command_without_a_model_starts_a_router(spectui: Spectui, command: str) -> None:
    assert spectui("export", "--from", command) == 0
    assert spectui.out == f"{command}\n"
    assert "llama-server starts as a router" in spectui.err
    # Where each entry is a model, there has to be one; and older builds have no router.
    for more in (("--format", "ini"), ("--format", "llama-swap"), ("--dialect", "ik")):
        assert spectui("export", "--from", command, *more) == 3
        assert "the command names no model" in spectui.err


def test_auto_asks_the_binary(spectui: Spectui, tmp_path: Path) -> None:
    command = "llama-server -m t.gguf -md d.gguf --draft-max 8"
    for text, flag in ((CURRENT, "--spec-draft-n-max"), (LEGACY, "--draft-max"), (IK, "draft:n")):
        binary = write_binary(tmp_path / "llama server", text)
        assert spectui("export", "--from", command, "--server-bin", binary) == 0
        assert shlex.split(spectui.out)[0] == str(binary)
        assert flag in spectui.out


def test_what_the_binary_does_not_take_is_named(spectui: Spectui, tmp_path: Path) -> None:
    binary = write_binary(tmp_path / "llama-server", CURRENT)
    command = "llama-server -m t.gguf --mlock --worm-hole"
    assert spectui("export", "--from", command, "--server-bin", binary) == 3
    assert "error: this llama-server does not take --worm-hole: " in spectui.err
    assert spectui.out == ""


def test_a_binary_of_another_dialect_is_wrong_usage(spectui: Spectui, tmp_path: Path) -> None:
    binary = write_binary(tmp_path / "llama-server", LEGACY)
    arguments = ["--from", COMMAND, "--server-bin", binary, "--dialect", "ik"]
    assert spectui("export", *arguments) == 2
    assert f"--dialect ik: {binary} has the options of llama.cpp-legacy" in spectui.err


@pytest.mark.parametrize("manner", ["exit 3", "kill -SEGV $$", "exec yes"])
def test_a_binary_that_is_none_exits_with_5(spectui: Spectui, tmp_path: Path, manner: str) -> None:
    binary = write_script(tmp_path / "llama-server", f"#!/bin/sh\n{manner}\n")
    assert spectui("export", "--from", COMMAND, "--server-bin", binary) == 5
    assert spectui.err.splitlines()[-1].startswith(f"error: {binary} ")


PAIR = "-m t -md d --spec-type draft-simple --spec-draft-n-max 4"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("-m t -ot exps=CUDA_Host", "CUDA_Host is no buffer .* write -ot exps=CPU"),
        ("-m t -np 0", "knows no -np 0: "),
        ("-m t -ctk q9_0", "knows no -ctk q9_0: .* write -ctk q8_0"),
    ],
    ids=["buffer", "number", "type"],
)
def test_what_the_server_would_not_take_is_refused(spectui: Spectui, words: str, told: str) -> None:
    assert spectui("export", "--from", f"llama-server {words}") == 3
    assert spectui.out == ""
    assert re.search(f"error: .*{told}", spectui.err)


def test_another_spelling_of_a_value_is_corrected(spectui: Spectui) -> None:
    assert spectui("export", "--from", "llama-server -m t -fa AUTO") == 0
    assert spectui.out == "llama-server -m t -fa auto\n"
    assert "-fa AUTO is now -fa auto" in spectui.err


@pytest.mark.parametrize(
    "words",
    [
        "-m t -c 32k",
        f"{PAIR} --spec-draft-p-min 1.5",
        "-m t --spec-type ngram-simple --spec-ngram-simple-size-m 5",
    ],
)
def test_what_the_server_runs_is_passed_on(spectui: Spectui, words: str) -> None:
    assert spectui("export", "--from", f"llama-server {words}") == 0
    assert spectui.out == f"llama-server {words}\n"


def test_a_draft_that_would_be_too_short_to_count_is_told(spectui: Spectui) -> None:
    command = "llama-server -m t --spec-type ngram-simple --draft-max 5"
    reason = "ngram-simple drops drafts shorter than the 12 tokens that it looks up"
    assert spectui("export", "--from", command) == 0
    assert spectui.err.startswith(f"mind that {reason}: it is written for 5\n")
    assert spectui("lint", "--no-models", "--json", "-", command) == 3
    assert reason in spectui.out


def test_variables_of_before_become_arguments_that_count(spectui: Spectui) -> None:
    command = "LLAMA_ARG_NO_MMAP=1 LLAMA_ARG_CTX_SIZE=5 llama-server -m t"
    assert spectui("export", "--from", command) == 0
    assert spectui.out == "llama-server --load-mode none --ctx-size 5 -m t\n"
    assert spectui.err.startswith("mind that llama-server does not read LLAMA_ARG_NO_MMAP: ")
    assert "LLAMA_ARG_CTX_SIZE" not in spectui.err


def test_what_older_builds_cannot_draft_with_is_refused(spectui: Spectui) -> None:
    command = "llama-server -m t --spec-type mtp:n_max=3"
    assert spectui("export", "--from", command, "--dialect", "llama.cpp-legacy") == 3
    assert "llama.cpp-legacy has no flags for draft-mtp" in spectui.err
    assert spectui("export", "--from", command, "--dialect", "ik") == 0
    assert spectui.out == "llama-server -m t --spec-type mtp:n_max=3\n"


def test_a_file_is_written_and_not_overwritten(spectui: Spectui, tmp_path: Path) -> None:
    out = tmp_path / "run.sh"
    assert spectui("export", "--from", COMMAND, "--out", out) == 0
    assert spectui.out == ""
    assert spectui.err.splitlines()[-1] == f"written to {out}"
    first = out.read_text("utf-8")
    assert first.startswith("llama-server -m ")
    again = ["--from", COMMAND, "--dialect", "ik", "--out", out]
    assert spectui("export", *again) == 3
    assert f"--out {out} exists; give another file, or add --force" in spectui.err
    assert out.read_text("utf-8") == first
    assert spectui("export", *again, "--force") == 0
    assert "draft:n_max=8" in out.read_text("utf-8")
    for nothing in (tmp_path, tmp_path / "no" / "file", "/dev/full"):
        assert spectui("export", *again[:-1], nothing, "--force") == 3
        assert "--out" in spectui.err


def test_a_model_is_never_overwritten(spectui: Spectui, tmp_path: Path) -> None:
    model = tmp_path / "t.gguf"
    model.write_bytes(b"GGUF and more")
    command = f"llama-server -m {model}"
    assert spectui("export", "--from", command, "--out", model, "--force") == 3
    assert model.read_bytes() == b"GGUF and more"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["x", "--from", COMMAND], "there is no study to take"),
        (["--from", COMMAND, "--storage", "sqlite://"], "there is no study to take"),
        (["--from", COMMAND, "--force"], "--force is for --out FILE"),
        (["--from", COMMAND, "--format", "xml"], "--format"),
        (["--from", COMMAND, "--dialect", "new"], "--dialect"),
    ],
)
def test_wrong_usage(spectui: Spectui, arguments: list[str], message: str) -> None:
    assert spectui("export", *arguments) == 2
    assert message in spectui.err


def test_models_that_are_gone_are_mentioned(
    spectui: Spectui, tuned: dict[str, object], pair: list[object]
) -> None:
    target = Path(str(pair[1]))
    moved = target.rename(target.with_name("away.gguf"))
    try:
        assert spectui("export") == 0
        assert f"mind that {target} is not there any more" in spectui.err
        assert spectui.out.splitlines()[-1] == tuned["command"]
    finally:
        moved.rename(target)


def test_a_verdict_that_cannot_be_kept_is_printed_all_the_same(
    spectui: Spectui, pair: list[object], prompts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_arguments: object) -> None:
        raise BadInputError("the disk is full")

    monkeypatch.setattr(TuningStudy, "keep", full)
    options = ["--prompts", prompts, "--spec-type", "draft-simple", "--trials", 2, "--json", "-"]
    assert spectui("tune", *pair, *options) == 0
    assert json.loads(spectui.out)["command"].startswith("llama-server ")
    assert (
        "spectui export and verify will not know of this verdict: the disk is full" in spectui.err
    )
