"""``spectui export`` as a user runs it."""

import shlex
from datetime import UTC, datetime
from pathlib import Path

import optuna
import pytest

from spectui.commands.arguments import server_arguments
from spectui.commands.sources.reading import read_command
from spectui.documents import encoded
from spectui.errors import BadInputError
from spectui.measure.verdict import Verdict
from spectui.options.drafters import DraftSimple
from spectui.options.option import Dialect
from spectui.options.setup import ContextOptions, ModelOptions
from spectui.options.speculation import Speculation
from spectui.tune.result import Outcome
from spectui.tune.studies.records import OUTCOME
from spectui.tune.studies.study import TuningStudy
from tests.support.cli import Run, Searched, Spectui

pytest_plugins = ["tests.support.fixtures", "tests.support.cli_fixtures"]
pytestmark = pytest.mark.slow

COMMAND = "llama-server -m /m/t.gguf -md /m/d.gguf --draft-max 8 -ot exps=CPU --jinja -np 2"
OFF = "# speculation off: no speculative flag is written"


def test_a_study_is_exported_as_tune_printed_it(
    spectui: Spectui, study: Searched, home: Path
) -> None:
    # A search that has no verdict yet does not hide it.
    optuna.create_study(study_name="later", storage=f"sqlite:///{home}/data/studies.sqlite3")
    tuned = study.document
    for name in ((), ("min",)):
        assert spectui("export", *name) == 0
        *comments, line = spectui.out.splitlines()
        assert line == tuned["command"]
        assert comments == ([] if tuned["verdict"]["use_speculation"] else [OFF])
        assert tuned["verdict"]["reason"] in spectui.err
        assert "mine" in spectui.err


def test_a_verdict_to_use_it_is_exported_with_its_setting(spectui: Spectui, home: Path) -> None:
    target, draft = ModelOptions(path=Path("/m/t.gguf")), ModelOptions(path=Path("/m/it's d.gguf"))
    outcome = Outcome(
        ended=datetime(2026, 5, 1, 12, tzinfo=UTC),
        verdict=Verdict(use_speculation=True, reason="Use it: worth +20 %."),
        target=target,
        draft=draft,
        context=ContextOptions(ctx_size=8192),
        speculation=Speculation(DraftSimple(draft_max=6, draft_p_min=0.15000000000000002)),
        gain=None,
        extra=("--jinja",),
    )
    (home / "data").mkdir(parents=True)
    study = optuna.create_study(study_name="s", storage=f"sqlite:///{home}/data/studies.sqlite3")
    study.set_user_attr(OUTCOME, encoded(outcome))
    assert spectui("export") == 0
    setting = outcome.speculation
    given = target, draft, outcome.context, setting
    arguments = server_arguments(*given, dialect=Dialect.LLAMA_CPP)
    assert spectui.out == f"{shlex.join(['llama-server', *arguments])} --jinja\n"
    assert "Use it: worth +20 %." in spectui.err
    assert "note: /m/it's d.gguf is not there any more" in spectui.err


def test_what_is_right_comes_back_as_it_stands(spectui: Spectui) -> None:
    for command in (
        "CUDA_VISIBLE_DEVICES=0,1 GGML_CUDA_X=k numactl -N 0 /opt/x/llama-server -m m.gguf -c 3",
        "llama serve -m m.gguf --temp -0.5 -t 1 -tb 0",
        "llama-server -m m.gguf -ngl -1 -ngld -2 --cpu-moe -ot a=CUDA0 -lm mlock -lm none",
        "llama-server -m m.gguf -md dflash.gguf",
    ):
        assert spectui("export", "--from", command) == 0
        assert (spectui.out, spectui.err) == (f"{command}\n", "")


@pytest.mark.parametrize("format_", ["llama-server", "ini"])
def test_an_export_is_read_back(spectui: Spectui, format_: str, tmp_path: Path) -> None:
    command = (
        "CUDA_VISIBLE_DEVICES=1 llama-server -m '/m/a b.gguf' --alias 'it'\"'\"'s $5' -np 2 "
        "--jinja --no-kv-offload -ngl 20"
    )
    out = tmp_path / f"FILE.{format_}"
    assert spectui("export", "--from", command, "--format", format_) == 0
    out.write_text(spectui.out)
    wanted, found = map(read_command, (command, str(out)))
    # The router has an order of its own.
    before, after = ([(one.name, one.values) for one in c.items] for c in (wanted, found))
    assert after == before if format_ == "llama-server" else sorted(after) == sorted(before)
    assert found.start.environment == (() if format_ == "ini" else wanted.start.environment)


def test_a_command_without_a_model_starts_a_router(spectui: Spectui) -> None:
    command = "llama-server -c 5"
    assert spectui("export", "--from", command) == 0
    assert spectui.out == f"{command}\n"
    # Where each entry is a model, there has to be one.
    assert spectui("export", "--from", command, "--format", "ini") == 3
    assert "the command names no model" in spectui.err


def test_a_verdict_that_cannot_be_kept_is_printed_all_the_same(
    spectui: Spectui, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_arguments: object, **_parts: object) -> None:
        raise BadInputError("the disk is full")

    monkeypatch.setattr(TuningStudy, "keep", full)
    found = run.document("tune", "--spec-type", "draft-simple", "--trials", 2)
    assert found["command"].startswith("llama-server ")
    said = "spectui export and verify will not know of this verdict: the disk is full"
    assert said in spectui.err
