"""``tune --tune n_cpu_moe,draft`` on a real mixture of experts, with and without a GPU's plan."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from spectui.closing import Closing
from spectui.engine.demand import MARGIN_BYTES, FreeMemory
from spectui.llama.buffers import DeviceMemory
from spectui.llama.planned import Plan, PlanRequest
from tests.support.cli import Spectui
from tests.support.models import CLOSE_DRAFT, MOE, TinyPath
from tests.support.plans import Script, room

pytest_plugins = ["tests.support.fixtures", "tests.support.cli_fixtures"]
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("home")]

SEARCHED = ["--tune", "n_cpu_moe,draft"]


class ScriptedPlanner(Closing):
    """Plans for a GPU that is not there, in margins: a layer's experts take two, a draft two."""

    n_free = 5.0
    """Beside dense weights and cache."""

    def __init__(self, *, rpc: Sequence[str] = ()) -> None:
        assert not rpc
        two = 2 * MARGIN_BYTES
        self._script = Script(n_layers=3, expert_bytes=two, draft_bytes=two)

    def plan(self, request: PlanRequest) -> Plan:
        return self._script(request)

    def gpus(self) -> tuple[DeviceMemory, ...]:
        return (DeviceMemory(name="CUDA0", description="x", free_bytes=0, total_bytes=None),)

    def free_memory(self) -> FreeMemory:
        return room(CUDA0=50 + 256 + int(self.n_free * MARGIN_BYTES))

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plan for a GPU with room for two layers' experts, or for one's and a draft."""
    monkeypatch.setattr("spectui.tune.experts.Planner", ScriptedPlanner)


@pytest.fixture
def experts(tiny: TinyPath, prompts: Path) -> list[object]:
    models = ["-m", tiny(MOE), "-md", tiny(CLOSE_DRAFT)]
    return [*models, "-c", 256, "-t", 1, "-n", 12, "--temp", 0, "--prompts", prompts]


def tuned(spectui: Spectui, *arguments: object) -> dict[str, Any]:
    assert spectui("tune", *arguments, "--json", "-") == 0, spectui.err
    document: dict[str, Any] = json.loads(spectui.out)
    return document


@pytest.mark.usefixtures("gpu")
def test_the_draft_and_its_placement_are_searched(
    spectui: Spectui, experts: list[object], tiny: TinyPath
) -> None:
    document = tuned(spectui, *experts, *SEARCHED, "--trials", 2, "--cpu-moe")
    draft = tiny(CLOSE_DRAFT).stem
    assert document["placements"] == {"alone": 1, "beside": {draft: 2}}
    assert (
        f"layers with their experts in RAM, instead of --cpu-moe: 1 without a draft, 2 beside "
        f"{draft}; fewer do not fit, and more are not tried\n"
    ) in spectui.err
    assert document["baseline"]["params"] == {"draft": None, "n_cpu_moe": 1}
    tried = {(one["params"]["draft"], one["params"]["n_cpu_moe"]) for one in document["trials"]}
    assert tried == {(None, 1), (draft, 2)}
    assert {one["state"] for one in document["trials"]} == {"complete"}
    assert {one["params"]["n_cpu_moe"] for one in document["forecasts"]} == {1, 2}
    # What drafts decides where the experts lie, in the command as well.
    for command, uses in (
        (document["command"], document["verdict"]["use_speculation"]),
        (document["best_command"], True),
    ):
        own = document["best"]["params"] if uses else {"n_cpu_moe": 1}
        assert f"--n-cpu-moe {own['n_cpu_moe']}" in command
        assert "--cpu-moe" not in command
    assert document["lossless"]


@pytest.mark.usefixtures("gpu")
def test_a_study_goes_on_with_its_placements_or_says_why_not(
    spectui: Spectui, experts: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    search = (*experts, "--spec-type", "draft-simple", "--trials", 1)
    first = tuned(spectui, *search, *SEARCHED)
    # Less is free by now, and what was to spare makes up for it.
    monkeypatch.setattr(ScriptedPlanner, "n_free", 4.5)
    again = tuned(spectui, *search, *SEARCHED)
    assert again["study"] == first["study"]
    assert again["placements"] == first["placements"]
    monkeypatch.setattr(ScriptedPlanner, "n_free", 3.9)
    assert spectui("tune", *search, *SEARCHED) == 4
    assert f"the study {first['study']} measured with n_cpu_moe 1 without a draft" in spectui.err
    assert "does not fit alone or beside" in spectui.err
    monkeypatch.setattr(ScriptedPlanner, "n_free", 0.9)
    assert spectui("tune", *search, *SEARCHED) == 4
    assert "does not fit even with the experts of all layers in RAM" in spectui.err
    fixed = tuned(spectui, *search, "--tune", "draft")
    assert fixed["study"] != first["study"]
    assert fixed["placements"] is None
    assert fixed["trials"][0]["params"] == {"draft": None}
