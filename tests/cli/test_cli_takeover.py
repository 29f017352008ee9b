"""``--from`` on commands that measure: what the user's command asks for, and what it gets back."""

import json
import os
import shlex
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import optuna
import pytest
from msgspec import structs

from spectui.cli.click_options import request_of
from spectui.cli.cockpit import Cockpit, make_launch
from spectui.cli.cockpit import command as cockpit
from spectui.commands.command import Start
from spectui.commands.measured import unmeasured
from spectui.documents import encoded
from spectui.live.sessions import LoadOptions
from spectui.secret import HIDDEN
from spectui.settings import Settings
from spectui.tui.export import export_choices
from spectui.tune.setup import CommandOptions
from spectui.tune.studies.records import OUTCOME
from spectui.tune.studies.storage import address_of
from tests.support.binaries import CURRENT, write_binary
from tests.support.cli import Spectui
from tests.support.commands import arguments_of
from tests.support.models import CLOSE_DRAFT, TARGET, TinyPath

pytest_plugins = ["tests.support.fixtures", "tests.support.cli_fixtures"]
pytestmark = pytest.mark.slow

OWN = ("--host", "::1", "--port", "9", "--alias", "my 'model'", "-np", "4", "--newfangled", "3")
"""What a measurement has no use for."""


@pytest.fixture
def line(tiny: TinyPath) -> str:
    """A command with old names, a variable and words of its own."""
    arguments = ["llama-server", "--model", str(tiny(TARGET)), "-md", str(tiny(CLOSE_DRAFT))]
    limits = ["--draft-max=9", "--draft-p-min", "0.33", "-t", "1"]
    return "LLAMA_ARG_CTX_SIZE=256 " + shlex.join([*arguments, *OWN, *limits])


TUNED = ("--trials", 2, "-n", 8, "--quiet", "--json", "-")
DRAFTED = ("--spec-type", "draft-simple", *TUNED)
"""Without n-gram drafters, whose many forecasts take most of a search of tiny models."""


def test_the_screen_hands_a_command_over_in_its_own_form(line: str) -> None:
    with cockpit.make_context("cockpit", []) as context:
        launch = make_launch(request_of(Cockpit, context), Settings()).with_command(line)
    assert launch.pair is not None
    setup = launch.make_setup(launch.pair)
    (live, _), (off, _) = export_choices(setup, None).values()
    for choice in (live, off):
        arguments = arguments_of(choice)
        assert arguments[-len(OWN) :] == list(OWN)
        assert not {"-b", "-ub", "-fa", "-ngl"} & set(arguments), "the command says none of them"
        assert arguments[arguments.index("-c") + 1] == "256"
    assert "--spec-draft-n-max" in arguments_of(live)
    command = CommandOptions.of(setup.taken)
    assert (command.extra, command.given) == (live.extra, live.given)
    # As in an earlier session, which keeps no command: with all of its options.
    load = LoadOptions(
        target=setup.target, draft=setup.draft, context=setup.context, extra=setup.extra
    )
    assert setup.loaded_as(load).sampling == setup.sampling, "of a file that keeps none"
    greedy = replace(setup.sampling, temp=0.0)
    assert setup.loaded_as(structs.replace(load, sampling=greedy)).sampling == greedy
    (again, _), _off = export_choices(setup.loaded_as(load), None).values()
    assert {"-b", "-ub", "-fa"} <= set(arguments_of(again))


def test_tune_gives_a_command_back_with_another_way_to_draft(
    spectui: Spectui, line: str, prompts: Path, tmp_path: Path
) -> None:
    options = ["--from", line, "--prompts", prompts, "--study", "mine", "--min-gain", 0]
    result = tmp_path / "tune.json"
    assert spectui("tune", *options, *DRAFTED, "--json", result) == 0, spectui.err
    assert spectui.err.count("measured without -np 4, --newfangled\n") == 1
    (said,) = [one for one in spectui.out.splitlines() if one.startswith("Your present setting")]
    assert "max 9, min 0, p_min 0.33" in said
    found = json.loads(result.read_text())
    arguments = shlex.split(found["command"])
    assert arguments[-len(OWN) :] == list(OWN)
    assert not {"-b", "-ub", "-fa", "-ngl"} & set(arguments), "the command says none of them"
    assert arguments[arguments.index("-c") + 1] == "256"
    setting = found["trials"][0]["params"]
    assert [setting[name] for name in ("draft_max", "draft_p_min")] == [9, 0.33]
    assert found["present"]["params"] == setting
    assert found["present"]["speedup"] > 0
    assert spectui("export", "mine") == 0
    assert shlex.split(spectui.out.splitlines()[-1])[-len(OWN) :] == list(OWN)


def test_the_chat_template_of_the_command_makes_the_prompts(
    spectui: Spectui, line: str, tmp_path: Path
) -> None:
    (tmp_path / "t.jinja").write_text("{{ messages[0].content * n }}")
    given = f"{line} --chat-template-file {tmp_path / 't.jinja'} --chat-template-kwargs"
    path = tmp_path / "p.jsonl"
    path.write_text('{"turns": ["in the", "and"]}')
    lengths = []
    for n in (1, 9):
        options = ["--from", f"{given} '{{\"n\": {n}}}'", "--prompts", path, "-n", 4]
        assert spectui("bench", *options, "--json", "-") == 0, spectui.err
        assert "measured without -np 4, --newfangled\n" in spectui.err
        lengths.append(json.loads(spectui.out)["prompts"][0]["n_prompt_tokens"])
    assert lengths[1] == 9 * lengths[0]


def test_options_of_llamas_own_file_are_said_to_be_left_out(
    spectui: Spectui, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    file = tmp_path / "llama.cpp" / "config.ini"
    file.parent.mkdir()
    told = f"note: examined without the options of {file}, which llama-servers"
    for text, n in (None, 0), ("[*]\nctx-size = 8192\n", 1):
        if text is not None:
            file.write_text(text)
        assert spectui("doctor", "--from", line) == 0, spectui.err
        assert spectui.err.count(told) == n


def test_old_names_without_all_lengths_say_which_defaults_they_are_read_with(
    spectui: Spectui, line: str
) -> None:
    assert spectui("doctor", "--from", line) == 0, spectui.err
    assert "names of builds before" not in spectui.err
    assert spectui("doctor", "--from", line.replace(" --draft-p-min 0.33", "")) == 0, spectui.err
    told = "read with their defaults: --draft-p-min 0.75; spectui lint writes it for today's\n"
    assert spectui.err.count(told) == 1


AROUND = "LLAMA_API_KEY='a b' GGML_CUDA_NO_PINNED=1"
WRAPPED = "nice -n 1 /opt/own/llama-server"


@pytest.mark.server
def test_a_study_keeps_what_starts_the_command(
    spectui: Spectui,
    line: str,
    prompts: Path,
    llama_server_binary: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Set, so that it is as it was afterwards.
    monkeypatch.setenv("GGML_CUDA_NO_PINNED", "0")
    given = f"{AROUND} {line}".replace("llama-server", WRAPPED).replace("newfangled 3", "slots")
    options = ["--from", given, "--prompts", prompts, "--study", "mine", "--min-gain", 0]
    assert spectui("tune", *options, *DRAFTED) == 0, spectui.err
    assert "measured without what starts the command: nice -n 1\n" in spectui.err
    command = json.loads(spectui.out)["command"]
    start = f"{AROUND} {WRAPPED}".replace("a b", HIDDEN)
    assert command.startswith(f"{start} -m ")
    assert spectui("export", "mine") == 0
    assert spectui.out.splitlines()[-1] == command
    monkeypatch.setenv("GGML_CUDA_NO_PINNED", "0")
    assert spectui("verify", "mine", "--server-bin", llama_server_binary) == 0, spectui.err
    assert os.environ["GGML_CUDA_NO_PINNED"] == "1"
    assert "LLAMA_API_KEY" not in os.environ
    assert "as the command of the study sets them: GGML_CUDA_NO_PINNED\n" in spectui.err
    assert "measured without what starts the command: nice -n 1\n" in spectui.err


@pytest.mark.usefixtures("study")
def test_files_of_a_study_hold_what_starts_the_command(spectui: Spectui, tmp_path: Path) -> None:
    url = address_of(None)
    study = optuna.load_study(study_name="mine", storage=url)
    outcome = study.user_attrs[OUTCOME]
    # As it was kept before there was such a field, and with it.
    without = {name: value for name, value in outcome.items() if name != "start"}
    study.set_user_attr(OUTCOME, without)
    assert spectui("export", "mine") == 0
    assert spectui.out.splitlines()[-1].startswith("llama-server -m ")
    start = Start(
        environment=(("LLAMA_API_KEY", "a b"), ("GGML_CUDA_NO_PINNED", "1")),
        program=tuple(WRAPPED.split()),
    )
    study.set_user_attr(OUTCOME, {**without, "start": encoded(start)})
    other = write_binary(tmp_path / "other", CURRENT)
    assert spectui("export", "mine", "--server-bin", other) == 0, spectui.err
    assert spectui.out.splitlines()[-1].startswith(f"{AROUND} nice -n 1 {other} -m ")


def test_a_command_without_a_draft_of_its_own_says_why_its_setting_is_not_compared(
    spectui: Spectui, tiny: TinyPath, prompts: Path
) -> None:
    plain = f"llama-server -m {tiny(TARGET)} -c 256 -t 1"
    eagle = f"{plain} -md eagle.gguf --spec-type draft-eagle3"
    ngrams = ("--prompts", prompts, *TUNED)
    assert spectui("tune", "--from", plain, *ngrams) == 0, spectui.err
    found = json.loads(spectui.out)
    assert (found["present"], found["present_reason"]) == (None, "the command does not draft")
    assert spectui("tune", "--from", eagle, *ngrams) == 0, spectui.err
    assert "measured without --spec-type draft-eagle3, -md eagle.gguf\n" in spectui.err
    found = json.loads(spectui.out)
    assert "only llama-server drafts with --spec-type draft-eagle3" in found["present_reason"]
    assert "eagle.gguf" not in found["command"]


def test_bench_measures_the_command_and_what_is_typed_wins(
    spectui: Spectui, line: str, prompts: Path
) -> None:
    options = ["--from", f"{line} --temp 0.5", "--prompts", prompts, "-n", 12, "--json", "-"]
    assert spectui("bench", *options, "--draft-max", 5) == 0, spectui.err
    document = json.loads(spectui.out)
    assert document["notes"] == ["the command is measured without -np 4, --newfangled"]
    config = document["config"]
    assert (config["draft_max"], config["draft_p_min"], config["temp"]) == (5, 0.33, 0.5)


SAMPLING = ("temp", "top_k", "top_p", "min_p", "seed")


def test_sampling_is_the_commands_else_the_presets_else_the_servers() -> None:
    defaults, greedy = (0.8, 40, 0.95, 0.05, 0), (0.0, 40, 0.95, 0.05, 0)
    pair = "llama-server -m t.gguf -md d.gguf"
    cases: tuple[tuple[list[str], tuple[float, ...]], ...] = (
        ([], defaults),
        (["--from", pair], defaults),
        (["--from", f"{pair} --temp 0.6 --top-k 20 --seed 5"], (0.6, 20, 0.95, 0.05, 5)),
        (
            ["--from", "llama-server -m t.gguf --temp 0.6 --min-p 0", "--temp", "1"],
            (1.0, 40, 0.95, 0.0, 0),
        ),
        (["--demo"], greedy),
        (["--preset", "demo-moe"], greedy),
        (["--demo", "--temp", "0.8"], defaults),
    )
    for command in ("bench", "tune", "sweep", "trace", "cockpit"):
        parsed = import_module(f"spectui.cli.{command}").command
        for arguments, expected in cases:
            with parsed.make_context(command, [*arguments]) as context:
                found = tuple(context.params[name] for name in SAMPLING)
            # Some take several temperatures; a sweep has its default from those of the grid.
            temps = found[0] if isinstance(found[0], tuple) else (found[0],)
            assert (temps or (0.8,), *found[1:]) == ((expected[0],), *expected[1:]), command


LEFT = (
    "the command is measured with -c 4096, which it leaves to the server (there it is what the "
    "model was trained for, if that fits; -c changes it)"
)


def test_a_context_that_is_left_to_the_server_is_told(
    spectui: Spectui, tiny: TinyPath, prompts: Path
) -> None:
    commands: tuple[tuple[str, tuple[object, ...], str], ...] = (
        ("bench", (), ""),
        ("tune", ("--trials", 1, "--spec-type", "draft-simple"), "-c 0"),
        ("sweep", ("--spec-type", "draft-simple"), ""),
    )
    for command, more, said in commands:
        line = f"llama-server -m {tiny(TARGET)} -md {tiny(CLOSE_DRAFT)} -t 1 {said}"
        options = ["--from", line, "--prompts", prompts, "-n", 6, "--quiet", "--json", "-", *more]
        assert spectui(command, *options) == 0, spectui.err
        assert f"note: {LEFT}\n" in spectui.err
        assert json.loads(spectui.out)["notes"] == [LEFT]
    assert spectui(command, *options, "-c", 256) == 0, spectui.err
    assert json.loads(spectui.out)["notes"] == []


@pytest.mark.server
def test_so_it_is_where_a_server_is_started(
    spectui: Spectui, tiny: TinyPath, prompts: Path, llama_server_binary: Path
) -> None:
    line = f"llama-server -m {tiny(TARGET)} -md {tiny(CLOSE_DRAFT)} -t 1 --repeat-penalty 1.1"
    options = ["--from", line, "--prompts", prompts, "-n", 6, "--quiet", "--json", "-"]
    served = ("--backend", "server", "--server-bin", llama_server_binary)
    assert spectui("bench", *options, *served) == 0, spectui.err
    (note, *_others) = json.loads(spectui.out)["notes"]
    # A server that is started in its place gets what only the command knows.
    assert note == LEFT


def test_trace_records_the_draft_of_a_command(
    spectui: Spectui, line: str, prompts: Path, tmp_path: Path
) -> None:
    out = tmp_path / "t.json.gz"
    options = ["--from", line, "--prompts", prompts, "-n", 6, "--no-costs", "--draft-max", 4]
    assert spectui("trace", *options, "--out", out) == 0, spectui.err
    assert out.exists()


def test_doctor_examines_a_command(spectui: Spectui, line: str, tiny: TinyPath) -> None:
    left = line.replace("LLAMA_ARG_CTX_SIZE=256", "LLAMA_ARG_CTX_SIZE=0")
    assert spectui("doctor", "--from", left, "--json", "-") in {0, 3, 4}, spectui.err
    assert "examined without -np 4, --newfangled; with -c 4096, which it leaves" in spectui.err
    assert json.loads(spectui.out)["target"]["path"] == str(tiny(TARGET))


def test_a_value_that_cannot_be_is_named_with_its_option(spectui: Spectui, line: str) -> None:
    assert spectui("bench", "--from", f"{line} --top-p 7") == 3
    assert "--from: --top-p: 7" in spectui.err


BEARING: list[tuple[str, tuple[str, ...]]] = [
    ("--host x --port 8 --metrics --slots --no-webui --api-key k -n 9 -cb", ()),
    ("-ndio --load-mode none", ()),
    ("--mlock --load-mode mmap+mlock -lm dio --direct-io -nr", ()),
    ("-lzm on --no-host", ("-lzm on", "--no-host")),
    ("--numa isolate", ()),
    ("-np 1 --repeat-penalty 1.0 --dry-multiplier 0 --mirostat 0 --fit off", ()),
    ("-np 2 --repeat-penalty 1.1", ("-np 2", "--repeat-penalty 1.1")),
    ("--lora a.gguf --mmproj m --rpc h:1 --grammar g", ("--lora a.gguf",)),
    ("--no-kv-offload --kv-offload -nkvo", ("--no-kv-offload", "-nkvo")),
    ("-devd CUDA1 -td 4 -Cd f --prio-draft 1", ("-devd CUDA1", "-td 4")),
    ("-C f -Cr 0-1 --prio 2", ("-C f", "-Cr 0-1", "--prio 2")),
    ("--cpu-strict 1 --poll 0 -Cb 3 --n-cpu-ffn 2", ("--cpu-strict 1", "--poll 0", "-Cb 3")),
    ("-amb 512 -mla 2", ("-amb 512", "-mla 2")),
    ("--secret-of-mine abc", ("--secret-of-mine",)),
    ("--reasoning off --chat-template-file f --chat-template-kwargs {} --reasoning-budget -1", ()),
    ("--reasoning-budget 0 --no-jinja", ("--reasoning-budget 0", "--no-jinja")),
]


def test_what_bears_on_speed_or_output_is_named() -> None:
    for words, named in BEARING:
        found = unmeasured(words.split())
        assert found[: len(named)] == named
        assert bool(found) is bool(named)
