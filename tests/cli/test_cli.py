"""The command line as a user meets it: exit codes, one-sentence errors, streams, documents."""

import errno
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pexpect
import pytest

from spectui.cli import report_failure
from tests.support.cli import Run, Spectui
from tests.support.models import CLOSE_DRAFT, OTHER, TinyPath
from tests.support.program import end, said_until, spawn

pytest_plugins = ["tests.support.fixtures", "tests.support.cli_fixtures"]
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("home")]

MODEL = ("--spec-type", "draft-simple")
"""Without n-gram drafters, whose many forecasts take most of a search of tiny models."""


def assert_one_sentence(text: str) -> None:
    assert text.startswith("error: ")
    assert text.count("\n") == 1
    assert "Traceback" not in text


def test_help_and_lint_load_nothing_heavy() -> None:
    heavy = ("numpy", "optuna", "textual", "llama_cpp")
    lint = ["lint", "--no-models", "--dialect", "llama.cpp", "llama-server -m a.gguf -fa"]
    code = (
        "import sys; from spectui.cli import main\n"
        f"for words in ([], {lint}, ['tune', '-h'], ['sweep', '-h'], ['models', 'demo', '-h']):\n"
        "    sys.argv = ['spectui', *words]\n"
        "    try: words and main()\n"
        "    except SystemExit: pass\n"
        f"    light = ('rich', 'httpx') * (not words) + ('yaml', 'psutil') * ({lint} == words)\n"
        f"    print('loaded', [m for m in {heavy} + light if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    told = [line for line in done.stdout.splitlines() if line.startswith("loaded")]
    assert told == ["loaded []"] * 5


def test_the_same_command_resumes_and_another_sampling_is_another_study(
    spectui: Spectui, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "cwd"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    first = run.document("tune", *MODEL, "--trials", 1)
    second = run.document("tune", *MODEL, "--trials", 2)
    assert (second["study"], len(second["trials"])) == (first["study"], 2)
    assert "resuming a study with 1 trial\n" in spectui.err
    assert second["trials"][0]["tokens_per_s"] == first["trials"][0]["tokens_per_s"]
    for more in ("--temp", 0.8), ("--temp", 0.7, "-n", 9):
        found = run.document("tune", *MODEL, "--trials", 1, *more)
        assert found["study"] != first["study"]
    assert list(elsewhere.iterdir()) == []
    assert (tmp_path / "home" / "data" / "studies.sqlite3").exists()


@pytest.mark.parametrize("text", ["150s", "2.5m", "0.5 h"])
def test_a_duration_has_the_units_that_it_is_told_in(spectui: Spectui, text: str) -> None:
    assert spectui("tune", "-m", "none.gguf", "--time-budget", text) == 3
    assert "none.gguf" in spectui.err


def test_a_preset_gives_defaults_and_the_command_line_wins(
    spectui: Spectui, pair: list[object], prompts: Path, home: Path
) -> None:
    folder = home / "config" / "presets"
    folder.mkdir(parents=True)
    (folder / "mine.toml").write_text("[options]\ndraft-max = 7\ndraft-p-min = 0.25")
    arguments = ["--preset", "mine", "--draft-max", 2, "--prompts", prompts, "--json", "-"]
    assert spectui("bench", *pair, *arguments) == 0
    config = json.loads(spectui.out)["config"]
    assert (config["draft_max"], config["draft_p_min"]) == (2, 0.25)


@pytest.mark.parametrize("error", [MemoryError(), OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))])
def test_memory_that_ends_is_no_defect(
    error: Exception, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report_failure(error) == 4
    said = "error: memory ran out; close other programs, or choose a shorter -c\n"
    assert capsys.readouterr().err == said


def test_a_defect_leaves_a_traceback_in_the_log(
    spectui: Spectui, pair: list[object], monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    def broken(_path: Path) -> None:
        raise ZeroDivisionError("on purpose")

    monkeypatch.setattr("spectui.cli.named_models.read_gguf", broken)
    assert spectui("bench", *pair) == 1
    assert_one_sentence(spectui.err)
    log = home / "data" / "logs" / "spectui.log"
    assert str(log) in spectui.err
    assert "ZeroDivisionError: on purpose" in log.read_text()


# A search that would go on for long, and whose forecasts take no time.
LONG_SEARCH = [*MODEL, "-n", 24, "--min-gain", 0, "--trials", 500]


@pytest.mark.ci
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_search_prints_its_best(
    pair: list[object], prompts: Path, home: Path, stop: signal.Signals
) -> None:
    child = spawn(home, "tune", *pair, "--prompts", prompts, *LONG_SEARCH)
    said_until(child, "trial 4")
    out, err = end(child, stop)
    assert child.returncode == 128 + stop
    assert "# the best so far, not confirmed:" in out
    assert "the same command goes on from there" in err


@pytest.mark.ci
def test_a_terminal_that_is_closed_costs_no_result(
    pair: list[object], prompts: Path, home: Path
) -> None:
    result = prompts.with_name("result.json")
    arguments = ["tune", *pair, "--prompts", prompts, *LONG_SEARCH, "--json", result]
    command = ["-m", "spectui", *map(str, arguments)]
    environment = {**os.environ, "SPECTUI_HOME": str(home), "TERM": "xterm-256color"}
    child: Any = pexpect.spawn(sys.executable, command, env=environment, timeout=90)
    child.expect("trial 3: ")
    child.ptyproc.fileobj.close()
    # Closing it the usual way would end the program by force.
    child.ptyproc.closed = child.closed = True
    assert child.ptyproc.wait() == 128 + signal.SIGHUP
    assert json.loads(result.read_text())["interrupted"]


@pytest.mark.parametrize(
    ("command", "more"),
    [
        ("bench", ["--draft-max", 2]),
        ("sweep", ["--draft-max", 2]),
        ("tune", ["--trials", 2]),
    ],
)
def test_the_same_prompt_six_times_is_one(
    spectui: Spectui, pair: list[object], tmp_path: Path, command: str, more: list[object]
) -> None:
    path, out = tmp_path / "same.jsonl", tmp_path / "out.json"
    rows = [{"id": name, "prompt": "the rain on the other"} for name in "abcdef"]
    rows.append({"id": "g", "prompt": "all in one ring", "answer": "x"})
    path.write_text("\n".join(map(json.dumps, rows)))
    assert spectui(command, *pair, "--prompts", path, *more, "--json", out) == 0, spectui.err
    found = json.loads(out.read_text())
    note = "left out, the same text as another: 5 prompts"
    assert note in (spectui.err if command == "sweep" else " ".join(found["notes"]))
    assert command == "sweep" or note in " ".join(spectui.out.split())
    passed = "7 prompts of same.jsonl: passed over: answer"
    assert passed in found["notes"]
    assert f"{passed}\n" in spectui.err
    assert "passed over" not in spectui.out, "is said once"
    if command == "sweep":
        assert {run["prompt"] for run in found["cells"][0]["runs"]} == {"a", "g"}
    else:
        assert {one["id"] for one in found["prompts"]} <= {"a", "g"}


def test_bench_writes_its_document_and_is_verbose_where_asked_to(
    spectui: Spectui, pair: list[object], prompts: Path, tiny: TinyPath
) -> None:
    bench = ("bench", *pair, "--prompts", prompts, "--draft-max", 4, "--json", "-")
    assert spectui(*bench) == 0, spectui.err
    assert re.search(r"a: \S+ .s off, ", spectui.err)
    assert "llama_" not in spectui.err
    greedy = json.loads(spectui.out)
    assert (greedy["schema"], greedy["lossless"]) == ("spectui.bench/1", True)
    # Whatever drafts.
    other = [tiny(OTHER) if word == tiny(CLOSE_DRAFT) else word for word in bench]
    assert spectui(*other, "--quiet") == 0
    hashes = [row["output_sha256"] for row in json.loads(spectui.out)["prompts"]]
    assert hashes == [row["output_sha256"] for row in greedy["prompts"]]
    assert spectui(*bench, "--temp", 0.8, "--verbose") == 0
    assert "llama_" in spectui.err
    sampled = json.loads(spectui.out)
    assert (sampled["lossless"], bool(sampled["lossless_reason"])) == (None, True)


def test_a_small_batch_bounds_the_search(run: Run) -> None:
    found = run.document("tune", "-b", 8, *MODEL, "--trials", 1)
    lengths = {one["params"].get("draft_max", 0) for one in found["forecasts"]}
    assert 1 < max(lengths) <= 7
