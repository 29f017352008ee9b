"""``spectui sweep`` as a user meets it, on tiny models."""

import json
from pathlib import Path
from typing import Any

import pytest

from spectui.models.gguf import weights_bytes
from tests.support.architectures import write_eagle3
from tests.support.cli import Spectui
from tests.support.models import CLOSE_DRAFT, ROUGH_DRAFT, TARGET, TinyPath

pytest_plugins = ["tests.support.fixtures", "tests.support.cli_fixtures"]
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("home")]

Arguments = list[object]
_AXES = ("--draft-max", 4, "--draft-p-min", 0.1)


@pytest.fixture
def sweep(tiny: TinyPath, prompts: Path) -> Arguments:
    """A sweep of two drafts, of which more axes can be asked for."""
    drafts = ["-md", tiny(CLOSE_DRAFT), "-md", tiny(ROUGH_DRAFT)]
    return [
        *("sweep", "-m", tiny(TARGET), *drafts, "-c", 256, "-t", 1, "-n", 12, "--temp", 0),
        *("--prompts", prompts, "--json", "-"),
    ]


def ran(spectui: Spectui, *arguments: object, code: int = 0) -> dict[str, Any]:
    assert spectui(*arguments) == code, spectui.err
    document: dict[str, Any] = json.loads(spectui.out)
    return document


def test_a_sweep_measures_every_cell_beside_off(
    spectui: Spectui, sweep: Arguments, tiny: TinyPath
) -> None:
    document = ran(
        spectui,
        *sweep,
        *("--draft-max", 3, "--spec-type", "draft-simple", "--spec-type", "ngram-simple"),
        *("--spec-ngram-simple-size-n", 2, "--prompt-length", "16,32"),
    )
    assert document["schema"] == "spectui.sweep/1"
    assert document["n_cells_left"] == 0
    draft = tiny(CLOSE_DRAFT)
    sized = [(document["target"], tiny(TARGET)), (document["drafts"][draft.stem], draft)]
    for model, path in sized:
        assert model["size_bytes"] == weights_bytes(path)
        assert model["file_bytes"] == path.stat().st_size > model["size_bytes"]
    drafters = [cell["config"]["drafter"] for cell in document["cells"]]
    assert {name: drafters.count(name) for name in drafters} == {
        tiny(CLOSE_DRAFT).stem: 2,
        tiny(ROUGH_DRAFT).stem: 2,
        "ngram-simple": 2,
    }
    for cell in document["cells"]:
        assert cell["state"] == "complete"
        assert cell["lossless"] is True
        low, high = cell["speedup_ci95"]
        assert low <= cell["speedup"] <= high
        assert len(cell["runs"]) == 6
        for count in ("n_drafted", "n_accepted", "n_rounds"):
            assert cell[count] == sum(run[count] for run in cell["runs"])
        assert {run["n_prompt_tokens"] for run in cell["runs"]} == {cell["config"]["prompt_length"]}


def test_counts_are_those_of_bench(
    spectui: Spectui, sweep: Arguments, pair: Arguments, prompts: Path
) -> None:
    document = ran(spectui, *sweep, *_AXES)
    cell = next(one for one in document["cells"] if one["config"].get("draft_max") == 4)
    bench = ran(spectui, "bench", *pair, *_AXES, "--prompts", prompts, "--json", "-")
    keys = ("n_drafted", "n_accepted", "n_rounds")
    assert [[run[key] for key in keys] for run in cell["runs"]] == [
        [run[key] for key in keys] for run in bench["prompts"]
    ]
    assert [run["output_sha256"] for run in cell["runs"]] == [
        run["output_sha256"] for run in bench["prompts"]
    ]


def test_the_same_command_measures_nothing_twice_unless_it_begins_anew(
    spectui: Spectui, sweep: Arguments, home: Path
) -> None:
    first = ran(spectui, *sweep, "--draft-max", 2)
    again = ran(spectui, *sweep, "--draft-max", 2)
    assert "nothing is left to measure" in spectui.err
    assert again["cells"] == first["cells"]
    more = ran(spectui, *sweep, "--draft-max", "2,4")
    assert "cell 3 of 4" in spectui.err
    assert spectui.err.count("left: ") == 2
    kept = {one["name"]: one for one in more["cells"]}
    assert all(kept[one["name"]] == one for one in first["cells"])
    repeated = ran(spectui, *sweep, "--draft-max", 2, "--repeats", 2)
    assert {one["n_repeats"] for one in repeated["cells"]} == {2}
    anew = ran(spectui, *sweep, "--draft-max", 2, "--restart")
    assert anew["cells"] != first["cells"]
    folder = home / "data" / "sweeps" / first["name"]
    files = sorted(path.name for path in folder.glob("*.jsonl"))
    assert files == ["cells.1.jsonl", "cells.jsonl"]
    other = [*sweep, "--draft-max", 2, "--name", first["name"], "--n-prompts", 3]
    assert spectui(*other) == 3
    assert "with other prompts" in spectui.err


def test_a_folder_of_somebody_else_is_not_written_to(
    spectui: Spectui, sweep: Arguments, tmp_path: Path
) -> None:
    out, mine = tmp_path / "out", tmp_path / "out" / "notes.md"
    out.mkdir()
    mine.write_text("mine")
    asked = [*sweep, "--draft-max", 2, "--out", out]
    assert spectui(*asked) == 3
    assert "is not empty, and sweep has not written it; give another folder" in spectui.err
    assert [*out.iterdir()] == [mine]
    mine.unlink()
    ran(spectui, *asked)
    # Its own it writes again.
    mine.write_text("mine")
    ran(spectui, *asked)
    assert mine.read_text() == "mine"


@pytest.fixture
def served(sweep: Arguments, llama_server_binary: Path, no_process_is_left: None) -> Arguments:
    assert no_process_is_left is None
    return [*sweep, *_AXES, "--backend", "server", "--server-bin", llama_server_binary]


def counts(document: dict[str, Any]) -> dict[str, list[list[int]]]:
    return {
        cell["name"]: [[run[key] for key in ("n_drafted", "n_accepted")] for run in cell["runs"]]
        for cell in document["cells"]
    }


@pytest.mark.server
def test_the_server_counts_what_the_engine_counts(
    spectui: Spectui, sweep: Arguments, served: Arguments
) -> None:
    through_server = ran(spectui, *served)
    assert through_server["backend"] == "server"
    assert through_server["server"]["path"] == str(served[-1])
    in_process = ran(spectui, *sweep, *_AXES)
    assert in_process["backend"] == "engine"
    assert in_process["name"] != through_server["name"]
    assert counts(through_server) == counts(in_process)
    ran(spectui, *served)
    assert "nothing is left to measure" in spectui.err


@pytest.mark.server
def test_drafts_that_only_the_server_runs_or_refuses_take_part(
    spectui: Spectui, served: Arguments, tmp_path: Path
) -> None:
    draft, broken = tmp_path / "eagle3.gguf", tmp_path / "broken.gguf"
    write_eagle3(TARGET, draft)
    broken.write_bytes(b"GGUF" + bytes(64))
    document = ran(spectui, *served, "-md", draft, "-md", broken)
    cells = {cell["config"]["drafter"]: cell for cell in document["cells"]}
    assert cells["eagle3"]["n_drafted"] > 0
    states = {name: cell["state"] for name, cell in cells.items()}
    assert [name for name, state in states.items() if state == "failed"] == ["broken"]
    document = ran(spectui, *served, "-md", draft, "--spec-type", "draft-eagle3")
    assert len(document["cells"]) == 1
    assert "drafts as draft-simple, and not as draft-eagle3" in spectui.err


@pytest.mark.server
def test_a_server_that_never_starts_ends_it(
    spectui: Spectui, served: Arguments, tmp_path: Path
) -> None:
    target = tmp_path / "broken.gguf"
    target.write_bytes(b"GGUF" + bytes(64))
    arguments = [target if served[index - 1] == "-m" else one for index, one in enumerate(served)]
    assert spectui(*arguments) == 5
    assert spectui.err.count("error: ") == 1


@pytest.mark.server
def test_an_existing_command_says_what_is_swept(
    spectui: Spectui, tiny: TinyPath, prompts: Path, llama_server_binary: Path
) -> None:
    command = (
        f"llama-server -m {tiny(TARGET)} -md {tiny(CLOSE_DRAFT)} -c 256 -t 1 --port 9 --slots "
        "--draft-max 9 --spec-draft-p-min 0.2 --no-such-option"
    )
    rest = ("--draft-max", "2,4", "-n", 8, "--prompts", prompts, "--json", "-")
    here = ran(spectui, "sweep", "--from", command, *rest)
    settings = [cell["config"] for cell in here["cells"] if "draft_max" in cell["config"]]
    assert [(one["draft_max"], one["draft_p_min"]) for one in settings] == [(2, 0.2), (4, 0.2)]
    assert "--no-such-option" in spectui.err
    command = command.replace(" --no-such-option", "")
    backend = ("--backend", "server", "--server-bin", llama_server_binary)
    through_server = ran(spectui, "sweep", "--from", command, *rest, *backend)
    assert sorted(counts(here).items()) == sorted(counts(through_server).items())
    assert spectui("sweep", "--demo", "--from", command, *rest) == 2
