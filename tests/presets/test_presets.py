"""Presets: what a file may say, the shipped ones, and the models that they name."""

import os
from importlib import import_module
from pathlib import Path

import click
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectui.cli.click_options import HELP_NAMES, request_of
from spectui.cli.cockpit import Cockpit, make_launch
from spectui.cli.cockpit import command as cockpit
from spectui.errors import BadInputError
from spectui.presets import ModelFiles, find_preset, list_presets, read_preset
from spectui.settings import Settings
from spectui.tui.launch import Pair
from tests.support.cli import Spectui
from tests.support.models import write_empty
from tests.support.tables import table

pytest_plugins = ["tests.support.fixtures", "tests.support.cli_fixtures"]

SHIPPED = sorted((Path(__file__).parent.parent.parent / "presets").glob("*.toml"))
DEMOS = {"demo", "demo-moe"}
PAIRS = {path.stem for path in SHIPPED} - DEMOS
MODELS = """
[target]
repo = "them/Target-GGUF"
files = ["Target-*.gguf"]

[[draft]]
repo = "them/Draft-GGUF"
files = ["Draft.gguf"]

[[draft]]
repo = "them/Other-GGUF"
files = ["Other.gguf"]
"""


@pytest.fixture
def mine(home: Path) -> Path:
    """A preset of one's own, whose models are not there yet."""
    path = home / "config" / "presets" / "mine.toml"
    path.parent.mkdir(parents=True)
    path.write_text(MODELS)
    return path


@pytest.fixture
def models(home: Path) -> Path:
    """Where the models of that preset belong."""
    folder = home / "cache" / "models" / "mine"
    folder.mkdir(parents=True)
    return folder


def put(folder: Path, *names: str) -> None:
    for name in names:
        write_empty(folder / name)


def refusal(tmp_path: Path, content: str) -> str:
    path = tmp_path / "mine.toml"
    path.write_text(content)
    with pytest.raises(BadInputError) as caught:
        read_preset(path)
    assert str(caught.value).startswith(f"{path}")
    return str(caught.value)


@table("path", SHIPPED)
def test_a_shipped_preset_says_what_it_is_for_and_every_command_takes_it(path: Path) -> None:
    shipped = read_preset(path)
    assert shipped.description.endswith(".")
    assert shipped.placement["note"]
    for sentence in (*shipped.traps, *(one["source"] for one in shipped.expect)):
        assert sentence.strip().endswith(".")
    for one in shipped.expect:
        assert one.get("measured_by_spectui", False) == (shipped.name in DEMOS)
    for module in ("bench", "cockpit", "trace", "tune"):
        command: click.Command = import_module(f"spectui.cli.{module}").command
        context = command.make_context(
            module, ["--preset", str(path)], help_option_names=HELP_NAMES
        )
        assert context.params["ctx_size"] == shipped.options["ctx-size"]


@table("name", sorted(PAIRS))
def test_a_pair_names_models_and_a_placement_for_every_size(name: str) -> None:
    preset = find_preset(name)
    assert preset.target is not None
    assert preset.draft
    assert preset.placement.keys() == {"note", "8gb", "12gb", "16gb", "24gb"}
    # Typed options win, but nothing typed can take a flag back.
    assert "cpu-moe" not in preset.options
    placed = {name: value for name, value in preset.options.items() if name != "spec-type"}
    assert placed == preset.placement["8gb"]


@table(
    ("content", "message"),
    [
        ("name = 'mine'", "unknown field `name`"),
        ("[target]\nrepo = 'a/b'\nfiles = []", "`$.target.files`"),
        ("[target]\nrepo = '../a'\nfiles = ['x.gguf']", "`$.target.repo`"),
        ("a = " + "[" * 100_000, "is not valid TOML (nested too deep); correct it"),
        ("#" * 1_000_001, "cannot be read (larger than 1 MB); give the name of a preset"),
    ],
)
def test_what_a_preset_does_not_say_is_refused_by_name(
    tmp_path: Path, content: str, message: str
) -> None:
    assert message in refusal(tmp_path, content)


OUTSIDE = ("../x.gguf", "/x.gguf", "a/../../b.gguf", "..\\x.gguf", "C:\\x.gguf", "a/**/x.gguf")


@table("name", (*OUTSIDE, "a**.gguf", "..", "", "x.bin"))
def test_a_path_that_is_no_model_inside_its_folder_is_refused_by_name(
    tmp_path: Path, name: str
) -> None:
    for of in ("[target]", "[[draft]]"):
        said = refusal(tmp_path, f"{of}\nrepo = 'a/b'\nfiles = ['fine.gguf', '{name}']")
        assert "files[1]`" in said


@given(st.lists(st.sampled_from(["..", ".", "a", "*", "/", "\\", "..gguf"]), max_size=6))
def test_an_accepted_path_stays_in_its_folder(parts: list[str]) -> None:
    name = "/".join([*parts, "x.gguf"])
    try:
        model = msgspec.convert({"repo": "a/b", "files": [name]}, ModelFiles)
    except msgspec.ValidationError:
        return
    folder = Path("/models/mine")
    assert Path(f"{folder}/{name}").resolve().is_relative_to(folder)
    assert (folder / model.files[0]).is_relative_to(folder)


@table("command", ["bench", "tune", "trace"])
def test_missing_models_are_said_with_where_to_get_them(
    spectui: Spectui, home: Path, command: str
) -> None:
    assert spectui(command, "--preset", "qwen3-next-80b-a3b") == 3
    assert spectui.err == (
        "error: models of preset qwen3-next-80b-a3b are missing: fetch the target "
        "Qwen3-Next-80B-A3B-Instruct-Q8_0*.gguf of unsloth/Qwen3-Next-80B-A3B-Instruct-GGUF and "
        "the draft Qwen3-0.6B-Q8_0.gguf of Qwen/Qwen3-0.6B-GGUF or Qwen3-1.7B-Q8_0.gguf of "
        "Qwen/Qwen3-1.7B-GGUF or Qwen3-4B-Q8_0.gguf of Qwen/Qwen3-4B-GGUF into "
        f"{home / 'cache' / 'models' / 'qwen3-next-80b-a3b'}, as spectui presets show "
        "qwen3-next-80b-a3b says, or give your own with -m and -md\n"
    )


def test_a_preset_is_ready_once_all_of_its_target_and_a_draft_are_there(
    mine: Path, models: Path
) -> None:
    def ready() -> set[str]:
        return {preset.name for preset in list_presets(pytest.fail) if preset.is_ready}

    def pair(preset: object) -> Pair | None:
        arguments = ["--preset", str(preset)]
        context = cockpit.make_context("cockpit", arguments, help_option_names=HELP_NAMES)
        return make_launch(request_of(Cockpit, context), Settings()).pair

    assert ready() == DEMOS
    put(models, "Target-00002-of-00002.gguf", "Other.gguf")
    assert find_preset("mine").find_target() is None
    assert ready() == DEMOS
    target = models / "Target-00001-of-00002.gguf"
    put(models, target.name)
    assert find_preset("mine").find_target() == target
    assert ready() == {*DEMOS, "mine"}
    # The screen starts with the first draft that is there.
    assert pair("mine") == Pair(target=target, draft=models / "Other.gguf")
    put(models, "Draft.gguf")
    assert pair(mine) == Pair(target=target, draft=models / "Draft.gguf")


def test_the_others_are_listed_beside_one_that_is_broken(spectui: Spectui, mine: Path) -> None:
    broken = mine.with_name("broken.toml")
    broken.write_text("name = 3")
    os.mkfifo(mine.with_name("pipe.toml"))
    assert spectui("presets", "list") == 0
    listed = {line.split()[0] for line in spectui.out.splitlines() if line[0] != " "}
    assert listed == {"preset", *PAIRS, *DEMOS, "mine"}
    first, second = spectui.err.splitlines()
    assert first.startswith(f"passed over: {broken}: Object contains unknown field `name`")
    assert second.startswith(
        f"passed over: {mine.with_name('pipe.toml')} cannot be read (no regular file)"
    )
    assert spectui("presets", "show", "broken") == 3
    assert str(broken) in spectui.err
