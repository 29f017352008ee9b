"""Commands with MTP layers in a file of their own."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.architectures import Part, write_pair, write_qwen35
from tests.support.cli import Spectui
from tests.support.models import Tiny

pytest_plugins = ["tests.support.fixtures", "tests.support.cli_fixtures"]
pytestmark = pytest.mark.usefixtures("home")


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """A target without MTP layers, and the file of them."""
    return write_pair("qwen35", tmp_path)


@pytest.fixture
def options(pair: tuple[Path, Path], prompts: Path) -> list[object]:
    target, layers = pair
    greedy = ["-n", 12, "--ignore-eos", "--temp", 0, "--prompts", prompts, "--quiet"]
    return ["-m", target, "-md", layers, "-c", 256, "-t", 1, *greedy]


def document(spectui: Spectui, *arguments: object) -> dict[str, Any]:
    assert spectui(*arguments, "--json", "-") == 0, spectui.err
    found: dict[str, Any] = json.loads(spectui.out)
    return found


def test_bench_drafts_with_the_layers_of_the_file(
    spectui: Spectui, options: list[object], pair: tuple[Path, Path]
) -> None:
    found = document(spectui, "bench", *options)
    assert found["lossless"] is True
    assert found["draft"]["kind"] == "draft-mtp"
    assert found["draft"]["path"] == str(pair[1])
    assert found["config"]["mtp"] is True
    assert 0 < found["speculative"]["n_accepted"] < found["speculative"]["n_drafted"]


@pytest.mark.server
def test_both_backends_count_the_same(
    spectui: Spectui, options: list[object], llama_server_binary: Path
) -> None:
    ours = document(spectui, "bench", *options)["speculative"]
    served = ["--backend", "server", "--server-bin", llama_server_binary]
    theirs = document(spectui, "bench", *options, *served)["speculative"]
    assert theirs["n_drafted"] > 0
    # A server begins a prompt with the hidden state that the one before it ended with.
    assert theirs["n_drafted"] == pytest.approx(ours["n_drafted"], abs=4)


@pytest.mark.slow
def test_tune_tries_the_targets_own_layers_and_those_of_a_file(
    spectui: Spectui, options: list[object], tmp_path: Path
) -> None:
    options[1] = tmp_path / "whole.gguf"
    write_qwen35(Tiny(), tmp_path / "whole.gguf")
    found = document(spectui, "tune", *options, "--trials", 3, "--spec-type", "draft-mtp")
    assert [one["name"] for one in found["drafts"]] == ["draft-mtp", "mtp-qwen35"]
    tried = {one["params"]["draft"] for one in found["trials"] if one["params"].get("mtp")}
    assert tried
    assert tried <= {"draft-mtp", "mtp-qwen35"}
    assert found["drafts"][1]["path"] == str(options[3])


def test_a_replay_counts_what_bench_counts(
    spectui: Spectui, options: list[object], tmp_path: Path
) -> None:
    path, setting = tmp_path / "x.trace.json.gz", ["--draft-max", 3]
    assert spectui("trace", *options, "--no-costs", "--out", path) == 0, spectui.err
    configs = document(spectui, "replay", path)["configs"]
    wanted = {"draft_max": 3, "draft_min": 0, "draft_p_min": 0.0}
    (replayed,) = [one for one in configs if one.get("mtp") and wanted.items() <= one.items()]
    measured = document(spectui, "bench", *options, *setting)["speculative"]
    assert replayed["mtp"] is True
    for name in ("n_rounds", "n_drafted", "n_accepted"):
        assert replayed[name] == measured[name], name


def test_a_scan_knows_them_by_their_header_and_pairs_them_with_their_target(
    spectui: Spectui, pair: tuple[Path, Path], tmp_path: Path
) -> None:
    target, layers = pair
    folder = tmp_path / "models"
    folder.mkdir()
    # Their names say nothing.
    shutil.copy(layers, folder / "a.gguf")
    shutil.copy(write_pair("gemma4", tmp_path / "other")[1], folder / "b.gguf")
    write_qwen35(Tiny(renamed=(70, "else")), folder / "c.gguf", part=Part.MTP)
    found = document(spectui, "models", "scan", folder, "--quiet")
    assert {one["facts"]["drafts_as"] for one in found["models"]} == {"draft-mtp"}
    assert all("cannot generate without the model" in one["reason"] for one in found["models"])
    beside = document(spectui, "models", "scan", folder, "-m", target, "--quiet")
    fits = {Path(one["path"]).stem: one["reason"] for one in beside["models"]}
    assert fits["a"] is None
    assert "is larger than the target" in fits["b"] or "of a gemma4" in fits["b"]
    assert "token 70 differs" in fits["c"]
    assert spectui("models", "scan", folder, "-m", target, "--quiet") == 0
    assert "qwen35, MTP alone" in spectui.out
    assert f"-md {folder / 'a.gguf'}" in spectui.out.replace("\n", " ")


def test_doctor_plans_them_and_says_what_they_are(
    spectui: Spectui, pair: tuple[Path, Path]
) -> None:
    target, layers = pair
    (mine,) = document(spectui, "doctor", "-m", target, "-md", layers, "-c", 256)["drafts"]
    assert (mine["compatible"], mine["model"]["mtp_layers"]) == (True, 1)
    assert spectui("doctor", "-m", target, "-md", layers, "-c", 256, "--quiet") == 0
    assert "Draft mtp-qwen35" in spectui.out


@pytest.mark.slow
@pytest.mark.parametrize("given", ["the file", "none"])
def test_a_sweep_measures_the_layers_of_the_file_where_there_is_one(
    spectui: Spectui, options: list[object], tmp_path: Path, given: str
) -> None:
    write_qwen35(Tiny(), tmp_path / "whole.gguf")
    options[1] = tmp_path / "whole.gguf"
    if given == "none":
        options[2:4] = ["--spec-type", "draft-mtp"]
    cells = document(spectui, "sweep", *options, "--draft-max", "2,3")["cells"]
    drafting = [one for one in cells if one["config"]["drafter"] != "off"]
    expected = "draft-mtp" if given == "none" else "mtp-qwen35"
    assert {one["config"]["drafter"] for one in drafting} == {expected}
    assert all(one["config"]["mtp"] and one["n_accepted"] for one in drafting)
