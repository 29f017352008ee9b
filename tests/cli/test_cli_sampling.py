"""A model's own sampling is measured wherever nothing else was chosen, as llama-server does."""

import json
from pathlib import Path
from shutil import copyfile

import click
import pytest

from spectui.cli.click_options import request_of
from spectui.cli.cockpit import DEMO_TOKENS, Cockpit, make_launch
from spectui.cli.cockpit import command as cockpit
from spectui.options.setup import SamplingConfig
from spectui.paths import demo_folder
from spectui.settings import Settings
from spectui.trace.file import read_trace
from spectui.tui.launch import Pair
from tests.support.cli import Spectui
from tests.support.models import CLOSE_DRAFT, TARGET, Tiny, TinyPath
from tests.support.scripted_server import write_server

pytest_plugins = ["tests.support.fixtures", "tests.support.cli_fixtures"]

ASKING = Tiny(sampling=(("temp", 0.5), ("top_k", 7), ("penalty_repeat", 1.05)))
NOTE = "a repeat penalty of 1.05, which is not measured"


@pytest.fixture
def asking(tiny: TinyPath, prompts: Path) -> list[object]:
    """Options of a run on a target that asks for a sampling of its own."""
    models = ["-m", tiny(ASKING), "-md", tiny(CLOSE_DRAFT), "-c", 256, "-t", 1, "-n", 12]
    return [*models, "--prompts", prompts, "--json", "-"]


@pytest.fixture
def preset(home: Path) -> str:
    """One that says a temperature."""
    folder = home / "config" / "presets"
    folder.mkdir(parents=True)
    (folder / "mine.toml").write_text("[options]\ntemp = 0.8\n")
    return "mine"


def test_bench_measures_what_the_model_asks_for_and_says_what_it_does_not(
    spectui: Spectui, asking: list[object], tiny: TinyPath
) -> None:
    told = f"{tiny(ASKING).name} asks for {NOTE}"
    others = [tiny(TARGET) if one == tiny(ASKING) else one for one in asking]
    for options, temp, top_k in (
        (asking, 0.5, 7),
        # What is typed wins, even where it is llama-server's default.
        ([*asking, "--temp", 0.8], 0.8, 7),
        ([*asking, "--top-k", 40], 0.5, 40),
        (others, 0.8, 40),
    ):
        assert spectui("bench", *options) == 0, spectui.err
        found = json.loads(spectui.out)
        assert (found["config"]["temp"], found["config"]["top_k"]) == (temp, top_k)
        assert (found["config"]["top_p"], found["config"]["min_p"]) == (0.95, 0.05)
        assert (told in found["notes"]) is (options is not others)
        assert spectui.err.count(f"note: {told}\n") == (options is not others)


def test_answers_of_a_demo_model_have_a_limit_on_the_screen(tiny: TinyPath, home: Path) -> None:
    own = tiny(TARGET)
    demo = demo_folder() / own.name
    assert demo.is_relative_to(home)
    demo.parent.mkdir(parents=True)
    copyfile(own, demo)
    for arguments, of_demo, of_own in (([], DEMO_TOKENS, -1), (["-n", "500"], 500, 500)):
        with cockpit.make_context("cockpit", list(arguments)) as context:
            launch = make_launch(request_of(Cockpit, context), Settings())
            for target, n_predict in ((demo, of_demo), (own, of_own)):
                assert launch.make_setup(Pair(target=target, draft=None)).n_predict == n_predict


def test_sweep_and_trace_measure_the_same(
    spectui: Spectui, asking: list[object], tmp_path: Path
) -> None:
    for temps, expected in (((), [0.5]), (("--temp", "0,0.8"), [0.0, 0.8])):
        axes = ["--draft-max", 2, "--n-prompts", 1]
        assert spectui("sweep", *asking, *axes, *temps) == 0, spectui.err
        document = json.loads(spectui.out)
        assert sorted({cell["config"]["temp"] for cell in document["cells"]}) == expected
        assert [note for note in document["notes"] if NOTE in note]
    out = tmp_path / "t.json.gz"
    assert spectui("trace", *asking, "--no-costs", "--out", out) == 0, spectui.err
    assert spectui.err.count(NOTE) == 1
    sampling = read_trace(out).sampling
    assert (sampling.temp, sampling.top_k) == (0.5, 7)


@pytest.mark.usefixtures("no_process_is_left")
def test_a_server_is_asked_for_the_same(
    spectui: Spectui, asking: list[object], tmp_path: Path
) -> None:
    binary = write_server(tmp_path / "llama-server")
    command = ("bench", "--backend", "server", *asking, "--server-bin", binary)
    assert spectui(*command) == 0, spectui.err
    document = json.loads(spectui.out)
    assert (document["config"]["temp"], document["config"]["top_k"]) == (0.5, 7)
    assert len([note for note in document["notes"] if NOTE in note]) == 1
    assert spectui.err.count(NOTE) == 1


def test_the_screen_samples_so_too(
    tiny: TinyPath, preset: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The command sets it.
    monkeypatch.setenv("GGML_CUDA_FORCE_MMQ", "0")
    pair = Pair(target=tiny(ASKING), draft=None)
    for arguments, expected in (
        ([], (0.5, 7)),
        (["--temp", "0.8"], (0.8, 7)),
        (["--preset", preset], (0.8, 7)),
    ):
        with cockpit.make_context("cockpit", list(arguments)) as context:
            launch = make_launch(request_of(Cockpit, context), Settings())
            found = launch.make_setup(pair).sampling
            # A preset that is chosen on the screen says the same as one that was typed.
            chosen = launch.with_preset(preset).make_setup(pair).sampling
            assert click.get_current_context() is context
            words = f"GGML_CUDA_FORCE_MMQ=1 llama-server -m {pair.target} --temp 0.6 -c 512"
            of_command = launch.with_command(words)
            assert click.get_current_context() is context
        monkeypatch.setenv("GGML_CUDA_FORCE_MMQ", "0")
        assert of_command.pair == pair
        assert of_command.make_setup(pair).sampling.temp == 0.6
        assert (found.temp, found.top_k) == expected
        assert (chosen.temp, chosen.top_k) == (0.8, 7)
        plain = launch.make_setup(Pair(target=tiny(TARGET), draft=None)).sampling
        assert plain == SamplingConfig(temp=expected[0] if arguments else 0.8)


def test_tune_measures_the_temperature_of_whoever_chose_it(
    spectui: Spectui, asking: list[object], tiny: TinyPath, preset: str
) -> None:
    own = asking[asking.index("-n") : asking.index("--json")]
    command = f"llama-server -m {tiny(ASKING)} -md {tiny(CLOSE_DRAFT)} -c 256 -t 1 --temp 0.3"
    plain = [tiny(TARGET) if one == tiny(ASKING) else one for one in asking]
    for arguments, told in (
        (plain, "temperature 0.8"),
        ([*asking, "--temp", 0], "greedy"),
        ([*asking, "--preset", preset], "temperature 0.8"),
        (["--from", command, *own], "temperature 0.3"),
        (asking, "temperature 0.5"),
    ):
        tune = ("tune", *arguments, "--trials", 1, "--spec-type", "draft-simple", "-n", 12)
        assert spectui(*tune) == 0, spectui.err
        assert f"prompts, {told}: a recording" in spectui.err
    document = json.loads(spectui.out)
    assert (document["config"]["temp"], document["config"]["top_k"]) == (0.5, 7)
    assert "temperature 0.5" in document["verdict"]["reason"]
    assert [note for note in document["notes"] if NOTE in note]
