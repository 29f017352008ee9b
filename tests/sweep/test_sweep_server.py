"""``spectui sweep --backend server``: the real llama-server, and what is none."""

import json
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.architectures import write_eagle3
from tests.support.cli import Spectui
from tests.support.models import CLOSE_DRAFT, ROUGH_DRAFT, TARGET, TinyPath

pytest_plugins = ["tests.support.fixtures", "tests.support.cli_fixtures"]
pytestmark = [pytest.mark.slow, pytest.mark.server, pytest.mark.usefixtures("home")]

Arguments = list[object]
_COUNTS = ("n_drafted", "n_accepted")


@pytest.fixture
def sweep(tiny: TinyPath, prompts: Path) -> Arguments:
    drafts = ["-md", tiny(CLOSE_DRAFT), "-md", tiny(ROUGH_DRAFT)]
    return [
        *("sweep", "-m", tiny(TARGET), *drafts, "-c", 256, "-t", 1, "-n", 12, "--temp", 0),
        *("--prompts", prompts, "--json", "-", "--draft-max", 4, "--draft-p-min", 0.1),
    ]


@pytest.fixture
def served(sweep: Arguments, llama_server_binary: Path) -> Arguments:
    return [*sweep, "--backend", "server", "--server-bin", llama_server_binary]


def ran(spectui: Spectui, *arguments: object) -> dict[str, Any]:
    assert spectui(*arguments) == 0, spectui.err
    document: dict[str, Any] = json.loads(spectui.out)
    assert not [one for one in psutil.Process().children() if "llama-server" in one.name()]
    return document


def counts(document: dict[str, Any]) -> dict[str, list[list[int]]]:
    return {
        cell["name"]: [[run[key] for key in _COUNTS] for run in cell["runs"]]
        for cell in document["cells"]
    }


def test_the_server_counts_what_the_engine_counts(
    spectui: Spectui, sweep: Arguments, served: Arguments
) -> None:
    through_server = ran(spectui, *served)
    assert through_server["backend"] == "server"
    assert through_server["server"]["path"] == str(served[-1])
    in_process = ran(spectui, *sweep)
    assert in_process["backend"] == "engine"
    assert in_process["name"] != through_server["name"]
    assert counts(through_server) == counts(in_process)
    ran(spectui, *served)
    assert "nothing is left to measure" in spectui.err


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
    assert spectui(*served, "-md", draft, "--spec-type", "draft-eagle3", "--dry-run") == 0
    assert json.loads(spectui.out)["n_cells"] == 2
    assert "drafts as draft-simple, and not as draft-eagle3" in spectui.err


def test_a_server_that_never_starts_ends_it(
    spectui: Spectui, served: Arguments, tmp_path: Path
) -> None:
    target = tmp_path / "broken.gguf"
    target.write_bytes(b"GGUF" + bytes(64))
    arguments = [target if served[index - 1] == "-m" else one for index, one in enumerate(served)]
    assert spectui(*arguments) == 5
    assert spectui.err.count("error: ") == 1


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
