"""The command line as a user meets it: exit codes, one-sentence errors, streams, documents."""

import errno
import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from shutil import copyfile
from typing import Any

import click
import pexpect
import pytest

from spectui.cli.app import app
from spectui.cli.failure import report_failure
from spectui.demo import DemoModel
from spectui.demo.build import smollm2_path
from spectui.demo.recipes import file_name
from spectui.errors import BadInputError
from spectui.measure.comparison import Comparison, compare
from spectui.measure.measurer import Measurer
from spectui.options.drafters import NGRAM_KINDS
from spectui.options.speculation import Speculation
from spectui.paths import demo_folder
from tests.support.cli import Run, Searched, Spectui
from tests.support.models import CLOSE_DRAFT, OTHER, TARGET, Tiny, TinyPath

pytest_plugins = ["tests.support.fixtures", "tests.support.cli_fixtures"]
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("home")]

MODEL = ("--spec-type", "draft-simple")
"""Without n-gram drafters, whose many forecasts take most of a search of tiny models."""


def assert_one_sentence(text: str) -> None:
    assert text.startswith("error: ")
    assert text.count("\n") == 1
    assert "Traceback" not in text


def test_importing_the_command_line_loads_nothing_heavy() -> None:
    heavy = ("numpy", "optuna", "textual", "llama_cpp", "rich", "httpx", "huggingface_hub")
    code = f"import sys, spectui.cli; sys.exit(str([m for m in {heavy} if m in sys.modules]))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == "[]"


def commands(group: click.Group, *names: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command of a group and of those within, with the names that lead to it."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield (*names, name), command
        if isinstance(command, click.Group):
            yield from commands(command, *names, name)


def test_help_names_every_option(spectui: Spectui) -> None:
    for names, command in commands(app):
        assert spectui(*names, "--help") == 0
        # The cockpit is what there is without a command.
        shown = [name for name in names if name != "cockpit"]
        assert spectui.out.startswith(" ".join(["Usage: spectui", *shown, ""]))
        words = spectui.out.replace(",", " ").split()
        for option in command.params:
            if isinstance(option, click.Option) and not option.hidden:
                assert option.opts[0] in words, (names, option.opts)


def test_help_loads_nothing_heavy() -> None:
    heavy = ("numpy", "optuna", "textual", "llama_cpp", "huggingface_hub", "matplotlib")
    code = (
        "import sys; from spectui.cli import main\n"
        "for words in (['tune'], ['sweep'], ['export'], ['models', 'demo'], ['models', 'pull']):\n"
        "    sys.argv = ['spectui', *words, '--help']\n"
        "    try: main()\n"
        "    except SystemExit: pass\n"
        f"    print(words, [m for m in {heavy} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    told = [line for line in done.stdout.splitlines() if line.startswith("['")]
    assert len(told) == 5
    assert all(line.endswith(" []") for line in told), told


def test_bench_prints_the_contracts_document(
    spectui: Spectui, pair: list[object], prompts: Path, tiny: TinyPath, tmp_path: Path
) -> None:
    bench = ("bench", *pair, "--prompts", prompts, "--draft-max", 4)
    assert spectui(*bench, "--json", "-") == 0, spectui.err
    assert "a: off" in spectui.err
    assert "llama_" not in spectui.err
    document = json.loads(spectui.out)
    assert document["schema"] == "spectui.bench/1"
    assert document["target"]["path"] == str(tiny(TARGET))
    assert document["target"]["rollback"] == "truncate"
    assert document["draft"]["kind"] == "model"
    assert document["config"]["draft_max"] == 4
    assert document["lossless"] is True
    assert [row["id"] for row in document["prompts"]] == ["a", "b", "c", "d", "e", "f"]
    assert_consistent(document)
    other = [*pair[:2], "-md", tiny(OTHER), *pair[4:]]
    path = tmp_path / "out.json"
    assert spectui("bench", *other, "--prompts", prompts, "--json", path, "--quiet") == 0
    assert (spectui.err, "lossless    yes" in spectui.out) == ("", True)
    hashes = [row["output_sha256"] for row in json.loads(path.read_text())["prompts"]]
    assert hashes == [row["output_sha256"] for row in document["prompts"]]
    assert spectui(*bench, "--temp", 0.8, "--json", "-", "--verbose") == 0
    assert "llama_" in spectui.err
    document = json.loads(spectui.out)
    assert (document["lossless"], bool(document["lossless_reason"])) == (None, True)


def assert_consistent(document: dict[str, Any]) -> None:
    """Sums, rates and per-prompt rows must tell the same story."""
    on = document["speculative"]
    rows = document["prompts"]
    for count in ("n_drafted", "n_accepted", "n_rounds"):
        assert on[count] == sum(row[count] for row in rows)
    assert on["acceptance_rate"] == pytest.approx(on["n_accepted"] / on["n_drafted"])
    assert on["mean_accepted_length"] == pytest.approx(1 + on["n_accepted"] / on["n_rounds"])
    assert sum(on["accepted_per_position"]) == on["n_accepted"]
    assert sum(on["time_s"].values()) == pytest.approx(on["decode_s"])
    assert on["n_tokens"] == document["baseline"]["n_tokens"]
    low, high = document["speedup_ci95"]
    assert low <= document["speedup"] <= high


def test_tune_ends_with_a_verdict_and_a_command(one_search: Searched, tiny: TinyPath) -> None:
    lines, document = one_search.out.splitlines(), one_search.document
    arguments = shlex.split(lines[-1])
    assert arguments[0] == "llama-server"
    assert str(tiny(TARGET)) in arguments
    assert document["schema"] == "spectui.tune/1"
    assert document["verdict"]["reason"] == lines[0]
    assert document["flags"] == arguments[1:]
    assert shlex.split(document["command"]) == arguments
    assert [trial["number"] for trial in document["trials"]] == list(range(3))
    assert document["trials"][0]["params"] == {"draft": None}
    assert [row["category"] for row in document["per_category"]] == ["x", "y"]
    speculates = any("spec" in argument for argument in arguments)
    assert speculates == document["verdict"]["use_speculation"]
    assert "replayed" in one_search.err
    assert_replayed_and_measured(document)
    (draft,) = document["drafts"]
    tried = {trial["params"]["draft"] for trial in document["trials"]}
    assert tried - {None} == {draft["name"]} == {tiny(CLOSE_DRAFT).stem}
    assert draft["memory_bytes"] > tiny(CLOSE_DRAFT).stat().st_size / 2


def assert_replayed_and_measured(document: dict[str, Any]) -> None:
    assert {trial["source"] for trial in document["trials"]} == {"measured"}
    assert document["forecasts"][0]["source"] == "replayed"
    # What looks best in the forecast, or as good and more even, comes right after off.
    speedups = [one["speedup"] for one in document["forecasts"] if one["n_drafted"]]
    first = document["trials"][1]["params"]
    # One that is not listed is behind the last one that is.
    listed = [one for one in document["forecasts"] if one["params"] == first]
    assert (listed or document["forecasts"])[-1]["speedup"] >= 0.97 * max(speedups)
    assert document["n_replayed"] > len(document["forecasts"])


def test_tune_explains_its_verdict_and_looks_at_the_categories(one_search: Searched) -> None:
    document = one_search.document
    # Wrapped for people.
    told = " ".join(one_search.out.split())
    profiles, terms = document["profiles"], document["explanation_terms"]
    assert "Why: - " in told
    assert profiles["reason"] in told
    assert profiles["reason"].startswith("One setting for all")
    assert not profiles["recommended"]
    # Of tiny models beside other programs, all of the gain can be noise.
    if terms is None:
        assert document["explanation"].startswith("Not explained: ")
        assert " ".join(document["explanation"].split()) in told
    else:
        assert f"α is {terms['alpha']:.2f}" in told
        assert terms["speedup"] == document["best"]["speedup"]
    # Of six prompts, three choose.
    assert sum(row["trials"]["n_prompts"] for row in document["per_category"]) == 3
    for row in document["per_category"]:
        trials = row["trials"]
        assert trials["best"]["speedup"] >= trials["winner_speedup"]


def test_without_a_draft_the_n_gram_drafters_are_tuned(
    spectui: Spectui, tiny: TinyPath, prompts: Path
) -> None:
    options = ["-m", tiny(TARGET), "-c", 256, "-t", 1, "-n", 12, "--temp", 0, "--prompts", prompts]
    assert spectui("tune", *options, "--trials", 2, "--json", "-") == 0, spectui.err
    document = json.loads(spectui.out)
    assert document["drafts"] == []
    off, other = [trial["params"] for trial in document["trials"]]
    assert off == {"draft": None}
    assert other["ngram"]["kind"] in NGRAM_KINDS


def test_the_same_command_resumes_and_another_sampling_is_another_study(
    spectui: Spectui, run: Run, tiny: TinyPath, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "cwd"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    drafts = ["-md", tiny(CLOSE_DRAFT), "-md", tiny(Tiny(n_extra=200))]
    tune = [*drafts, *MODEL, "--json", "-"]
    assert run("tune", *tune, "--trials", 1) == 0, spectui.err
    first = json.loads(spectui.out)
    # One that is given twice is one, and one that does not fit says why.
    assert [draft["compatible"] for draft in first["drafts"]] == [True, False]
    assert "differ in size" in first["drafts"][1]["reason"]
    assert run("tune", *tune, "--trials", 2) == 0, spectui.err
    second = json.loads(spectui.out)
    assert (second["study"], len(second["trials"])) == (first["study"], 2)
    assert "resuming a study with 1 trial\n" in spectui.err
    assert second["trials"][0]["tokens_per_s"] == first["trials"][0]["tokens_per_s"]
    assert "goes on with it" not in spectui.err
    note = f"({first['study']}); --temp 0 goes on with it"
    for more, is_told in (
        (["--temp", 0.8], True),
        (["--temp", 0.8], False),
        (["--temp", 0.7, "-n", 9], False),
    ):
        assert run("tune", *tune, "--trials", 1, *more) == 0, spectui.err
        assert json.loads(spectui.out)["study"] != first["study"]
        assert spectui.err.count(note) == is_told
        assert is_told or "goes on with it" not in spectui.err
    assert list(elsewhere.iterdir()) == []
    assert (tmp_path / "home" / "data" / "studies.sqlite3").exists()


def test_a_file_that_is_left_over_belongs_to_an_option(spectui: Spectui, tmp_path: Path) -> None:
    for name, option in (("run.sh", "--from"), ("a.gguf", "-m")):
        file = tmp_path / name
        file.touch()
        assert spectui("tune", file) == 2
        assert f"did you mean {option} {file}?" in spectui.err
    target, draft = tmp_path / "a.gguf", tmp_path / "b.gguf"
    draft.touch()
    assert spectui("tune", "-m", target, draft) == 2
    assert f"did you mean -md {draft}?" in spectui.err
    for words in ((tmp_path / "none.sh",), ("-m", target, "none")):
        assert spectui("tune", *words) == 2
        assert "did you mean" not in spectui.err


def test_a_duration_has_the_units_that_it_is_told_in(spectui: Spectui) -> None:
    arguments = ("tune", "-m", "none.gguf", "--time-budget")
    for text in ("2m30s", "2 min 30 s", "1h 5min", "90sec"):
        assert spectui(*arguments, text) == 3
        assert "none.gguf" in spectui.err
    for text in ("30s2m", "0s", "2m 30"):
        assert spectui(*arguments, text) == 2
        assert "is no duration" in spectui.err


def test_malformed_prompts_stop_everything_before_it_starts(
    spectui: Spectui, pair: list[object], prompts: Path
) -> None:
    prompts.write_text('{"prompt": "fine"}\n{"prompt": 3}\n')
    assert spectui("tune", *pair, "--prompts", prompts, "--trials", 2) == 3
    assert_one_sentence(spectui.err)
    assert f"{prompts}:2: " in spectui.err


def test_an_unwritable_data_folder_exits_with_3(
    spectui: Spectui, pair: list[object], prompts: Path, home: Path
) -> None:
    home.write_text("a file where a folder should be")
    assert spectui("tune", *pair, "--prompts", prompts, "--trials", 2, "--quiet") == 3
    assert_one_sentence(spectui.err)


def test_an_unwritable_cache_exits_with_3(spectui: Spectui, home: Path) -> None:
    home.write_text("a file where a folder should be")
    assert spectui("bench", "--demo", "--quiet") == 3
    assert_one_sentence(spectui.err)
    assert str(home) in spectui.err


def test_the_demos_drafts_are_named_by_their_files(spectui: Spectui, tiny: TinyPath) -> None:
    demo_folder().mkdir(parents=True)
    for model in (DemoModel.DENSE, DemoModel.DRAFT_THIN):
        copyfile(tiny(TARGET), demo_folder() / file_name(model, 0))
    spectui("doctor", "--demo", "-c", 256, "--json", "-")
    found = json.loads(spectui.out)
    files = [smollm2_path(), demo_folder() / file_name(DemoModel.DRAFT_THIN, 0)]
    assert [one["name"] for one in found["drafts"]] == [file.stem for file in files]


def test_a_shown_preset_can_be_used_as_one(spectui: Spectui, tmp_path: Path) -> None:
    assert spectui("presets", "show", "demo") == 0
    path = tmp_path / "copy.toml"
    path.write_text(spectui.out)
    assert spectui("presets", "show", path) == 0
    assert "n-predict = 32" in spectui.out


def test_the_result_does_not_overwrite_an_input(
    spectui: Spectui, pair: list[object], prompts: Path
) -> None:
    arguments = [*pair, "--prompts", prompts]
    for option in ("-m", "-md", "--prompts"):
        victim = Path(str(arguments[arguments.index(option) + 1]))
        before = victim.read_bytes()
        assert spectui("bench", *arguments, "--json", victim) == 3
        assert_one_sentence(spectui.err)
        assert victim.read_bytes() == before


def test_a_small_batch_bounds_the_search(
    spectui: Spectui, pair: list[object], prompts: Path
) -> None:
    arguments = [*pair, "-b", 8, "--prompts", prompts, *MODEL, "--trials", 6, "--json", "-"]
    assert spectui("tune", *arguments) == 0
    trials = json.loads(spectui.out)["trials"]
    # It may end before the sixth, where the forecasts see nothing better.
    assert len(trials) >= 4
    assert {trial["state"] for trial in trials} == {"complete"}
    assert all(trial["params"].get("draft_max", 0) <= 7 for trial in trials)


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
    said = "error: memory ended; close other programs, or choose a shorter -c\n"
    assert capsys.readouterr().err == said


def test_a_defect_leaves_a_traceback_in_the_log(
    spectui: Spectui, pair: list[object], monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    def broken(_path: Path) -> None:
        raise ZeroDivisionError("on purpose")

    monkeypatch.setattr("spectui.cli.given.check_file", broken)
    assert spectui("bench", *pair) == 1
    assert_one_sentence(spectui.err)
    log = home / "data" / "logs" / "spectui.log"
    assert str(log) in spectui.err
    assert "ZeroDivisionError: on purpose" in log.read_text()


def spawn(arguments: list[object], home: Path) -> "pexpect.spawn[str]":
    """Start the real program on a real terminal."""
    environment = {**os.environ, "SPECTUI_HOME": str(home), "TERM": "xterm-256color"}
    command = ["-m", "spectui", *map(str, arguments)]
    return pexpect.spawn(
        sys.executable, command, env=environment, encoding="utf-8", dimensions=(30, 120), timeout=90
    )


# A search that would go on for long, and whose forecasts take no time.
LONG_SEARCH = [*MODEL, "-n", 24, "--min-gain", 0, "--trials", 500]


@pytest.mark.ci
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_search_prints_its_best_and_can_be_resumed(
    pair: list[object], prompts: Path, home: Path, stop: signal.Signals
) -> None:
    arguments = ["tune", *pair, "--prompts", prompts, *LONG_SEARCH]
    child = spawn(arguments, home)
    child.expect("trial 4: ")
    child.kill(stop)
    child.expect("Best so far: ")
    child.expect("# the best so far, not confirmed:")
    child.expect("# llama-server -m .* --spec-")
    child.expect("llama-server -m")
    child.expect("the same command goes on from there")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 128 + stop
    # What is left behind is the same, whichever signal it was.
    if stop is signal.SIGINT:
        resumed = spawn([*arguments[:-1], 5], home)
        resumed.expect("llama-server -m")
        resumed.expect(pexpect.EOF)
        resumed.close()
        assert resumed.exitstatus == 0


@pytest.mark.ci
def test_a_terminal_that_is_closed_costs_no_result(
    pair: list[object], prompts: Path, home: Path
) -> None:
    result = prompts.with_name("result.json")
    arguments = ["tune", *pair, "--prompts", prompts, *LONG_SEARCH, "--json", result]
    child: Any = spawn(arguments, home)
    child.expect("trial 3: ")
    child.ptyproc.fileobj.close()
    # Closing it the usual way would end the program by force.
    child.ptyproc.closed = child.closed = True
    assert child.ptyproc.wait() == 128 + signal.SIGHUP
    assert json.loads(result.read_text())["interrupted"]


def test_a_terminal_shows_trials_and_which_leads(
    pair: list[object], prompts: Path, home: Path
) -> None:
    child = spawn(["tune", *pair, "--prompts", prompts, *MODEL, "--trials", 5], home)
    child.expect("acceptance now")
    child.expect("best so far|nothing beats off yet")
    child.expect("confirming")
    child.expect("llama-server -m")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0


def test_bench_says_that_a_speedup_without_drafts_is_noise(
    spectui: Spectui, pair: list[object], prompts: Path
) -> None:
    drafts = ["--spec-type", "ngram-simple", "--spec-ngram-simple-size-n", 40]
    options = [*pair[:2], *pair[4:], "--prompts", prompts, *drafts, "--quiet"]
    said = "nothing was drafted, so that every round was the target's own: a gain is the machine's"
    assert spectui("bench", *options, "--json", "-") == 0, spectui.err
    document = json.loads(spectui.out)
    assert document["speculative"]["n_drafted"] == 0
    assert document["speedup_at_most"] == 1
    assert "prompt_length" not in document["config"]
    assert spectui("bench", *options) == 0, spectui.err
    assert f"NOTE: {said}" in spectui.out
    assert spectui("bench", *options, "--temp", "0,0.7") == 0, spectui.err
    assert f"Where rate is –, {said}" in " ".join(spectui.out.split())
    assert spectui("bench", *pair, "--prompts", prompts, "--quiet") == 0, spectui.err
    assert said not in spectui.out


def test_a_failure_costs_nothing_of_what_bench_has_measured_before(
    spectui: Spectui, pair: list[object], prompts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: list[float] = []

    def fails_later(
        measurer: Measurer,
        speculation: Speculation,
        **named: Any,  # noqa: ANN401 - passed on
    ) -> Comparison:
        if measured:
            raise BadInputError("there is no decoding to measure")
        measured.append(measurer.workload.sampling.temp)
        return compare(measurer, speculation, **named)

    monkeypatch.setattr("spectui.cli.run_bench.compare", fails_later)
    options = ["--prompts", prompts, "--temp", "0,0.7", "--json", "-", "--quiet"]
    assert spectui("bench", *pair, *options) == 3
    assert [run["config"]["temp"] for run in json.loads(spectui.out)["runs"]] == [0.0]
    assert spectui.err == "error: there is no decoding to measure\n"


_SIZES: dict[str, list[object]] = {
    "ngram-simple": ["--spec-ngram-simple-size-n", 2, "--spec-ngram-simple-size-m", 6],
    "ngram-map-k": ["--spec-ngram-map-k-size-m", 6],
    "ngram-map-k4v": ["--spec-ngram-map-k4v-size-m", 6],
    "ngram-mod": [
        *("--spec-ngram-mod-n-match", 2, "--spec-ngram-mod-n-min", 0),
        *("--spec-ngram-mod-n-max", 6),
    ],
}
"""What tiny models take of each drafter."""


def test_bench_runs_every_drafter(spectui: Spectui, pair: list[object], prompts: Path) -> None:
    drafters: tuple[tuple[str, list[str], str], ...] = (
        ("ngram-simple", [], "ngram-simple"),
        ("ngram-map-k", [], "ngram-map-k"),
        ("ngram-mod,ngram-map-k4v", ["ngram-map-k4v"], "ngram-mod"),
        ("ngram-cache", [], "ngram-cache"),
        ("draft-simple,ngram-simple", ["ngram-simple"], "model"),
    )
    for kinds, ahead, last in drafters:
        # Without -md, where nothing would use it.
        options = pair if last == "model" else pair[:2] + pair[4:]
        sizes = [word for kind in (*ahead, last) for word in _SIZES.get(kind, ())]
        bench = [*options, "--prompts", prompts, "--ignore-eos", "--spec-type", kinds, *sizes]
        assert spectui("bench", *bench, "--json", "-") == 0, spectui.err
        document = json.loads(spectui.out)
        assert document["lossless"] is True
        assert document["draft"]["kind"] == last
        asked_first = document["config"].get("ahead", [])
        assert [one["ngram"]["kind"] for one in asked_first] == ahead
