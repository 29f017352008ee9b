"""What has no room is refused by every command, and experts are placed where there is some."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from spectui.closing import Closing
from spectui.engine import planning
from spectui.engine.demand import MARGIN_BYTES, FreeMemory
from spectui.llama.buffers import DeviceMemory
from spectui.llama.planned import Plan, PlanRequest
from spectui.options.setup import ContextOptions, ModelOptions
from tests.support.cli import Run, Spectui
from tests.support.engine import have_models_here
from tests.support.models import CLOSE_DRAFT, MOE, TARGET, Tiny, TinyPath
from tests.support.plans import Script, room
from tests.support.scripted_server import write_server

pytest_plugins = ["tests.support.fixtures", "tests.support.cli_fixtures"]
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("home")]

LARGE = Tiny(n_extra=20_000)
"""A draft's vocabulary need not be the target's: it is refused for its size before that."""


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Set the RAM that is free."""
    have_models_here(monkeypatch)

    def set_free(n_bytes: int) -> None:
        monkeypatch.setattr("spectui.engine.guard.free_memory", lambda _gpus: room(CPU=n_bytes))

    return set_free


def sizes(target: Path, draft: Path | None, *, max_draft: int) -> tuple[int, int]:
    """Bytes that are allocated and mapped for a pair."""
    request = PlanRequest(
        target=ModelOptions(path=target),
        draft=None if draft is None else ModelOptions(path=draft),
        context=ContextOptions(ctx_size=256, threads=1),
        max_draft=max_draft,
    )
    # The one of the commands, which stays.
    plan: Plan = planning.Planner().plan(request)
    mapped = sum(one.size_bytes for one in plan.buffers if one.is_mapped)
    return sum(one.size_bytes for one in plan.buffers) - mapped, mapped


def test_what_has_no_room_is_refused(
    run: Run, spectui: Spectui, tmp_path: Path, free: Callable[[int], None]
) -> None:
    free(1 << 10)
    binary = write_server(tmp_path / "llama-server")
    for command, code in (
        (("bench",), 4),
        # --yes is for what would be slow.
        (("trace", "--yes"), 4),
        (("tune", "--trials", 1, "--spec-type", "draft-simple"), 4),
        (("sweep", "--draft-max", 2), 3),
        (("bench", "--backend", "server", "--server-bin", binary), 4),
    ):
        assert run(*map(str, command)) == code
        assert "RAM has no room" in spectui.err
        assert "1 kB are free" in spectui.err
        assert spectui.out == "" or command[0] == "sweep"


@pytest.mark.parametrize("command", ["bench", "trace"])
def test_what_would_be_slow_needs_yes(
    run: Run, spectui: Spectui, tiny: TinyPath, free: Callable[[int], None], command: str
) -> None:
    # Searches and recordings load the target first, and have as much again for each draft.
    draft = tiny(CLOSE_DRAFT) if command == "bench" else None
    own, mapped = sizes(tiny(TARGET), draft, max_draft=16)
    free(own + mapped // 2)
    assert run(command) == 4
    assert "read from disk again and again" in spectui.err
    assert "--yes loads it all the same" in spectui.err
    assert run(command, "--yes") == 0, spectui.err
    assert "note: " in spectui.err


@pytest.mark.ci
def test_drafts_without_room_are_left_out_of_a_search(
    spectui: Spectui, tiny: TinyPath, prompts: Path, free: Callable[[int], None]
) -> None:
    own, mapped = sizes(tiny(TARGET), tiny(CLOSE_DRAFT), max_draft=16)
    large_own, large_mapped = sizes(tiny(TARGET), tiny(LARGE), max_draft=16)
    enough = max(own + mapped, large_own)
    assert large_mapped > enough
    free(enough)
    models = ["-m", tiny(TARGET), "-md", tiny(CLOSE_DRAFT), "-md", tiny(LARGE)]
    options = ["-c", 256, "-t", 1, "-n", 12, "--temp", 0, "--prompts", prompts, "--trials", 2]
    assert spectui("tune", *models, *options, "--json", "-") == 0, spectui.err
    document: dict[str, Any] = json.loads(spectui.out)
    reasons = {one["name"]: one["reason"] for one in document["drafts"]}
    assert "read from disk again and again" in str(reasons[tiny(LARGE).stem])
    assert reasons[tiny(CLOSE_DRAFT).stem] is None
    assert f"left out {tiny(LARGE).stem}: " in spectui.err


def test_a_trial_that_has_lost_its_room_fails(
    run: Run, spectui: Spectui, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of the memory is taken once the drafts were examined, and loaded no more."""
    n_asked = 0

    def free_memory(_gpus: object) -> FreeMemory:
        nonlocal n_asked
        n_asked += 1
        # The target, and each draft once.
        return room(CPU=1 << 40 if n_asked <= 2 else 1)

    have_models_here(monkeypatch)
    monkeypatch.setattr("spectui.engine.guard.free_memory", free_memory)
    arguments = ["--trials", 2, "--json", "-"]
    assert run("tune", *arguments) == 0, spectui.err
    document = json.loads(spectui.out)
    failed = [one for one in document["trials"] if one["state"] == "fail"]
    assert failed
    assert all("RAM has no room" in one["error"] for one in failed)
    assert "failed: " in spectui.err


SEARCHED = ["--tune", "n_cpu_moe", "--min-gain", 1]
"""All places are as fast here, whatever the clock says."""


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
    monkeypatch.setattr("spectui.tune.layouts.Planner", ScriptedPlanner)


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
    document = tuned(spectui, *experts, *SEARCHED, "--trials", 8, "--cpu-moe")
    draft = tiny(CLOSE_DRAFT).stem
    layouts = document["layouts"]
    assert layouts["alone"]["n_cpu_moe"] == 1
    assert {name: one["n_cpu_moe"] for name, one in layouts["beside"].items()} == {draft: 2}
    assert (
        "layers with their experts in RAM, whatever the command says of them: n_cpu_moe 1 without "
        f"a draft; "
        f"n_cpu_moe 2 beside {draft} at least; fewer do not fit\n"
    ) in spectui.err
    assert document["baseline"]["params"] == {"draft": None, "layout": "n_cpu_moe 1"}
    tried = {(one["params"]["draft"], one["params"]["layout"]) for one in document["trials"]}
    assert tried == {(None, "n_cpu_moe 1"), (draft, "n_cpu_moe 2")}
    assert {one["state"] for one in document["trials"]} == {"complete"}
    replayed = {one["params"]["layout"] for one in document["drafters"]}
    assert replayed == {"n_cpu_moe 1", "n_cpu_moe 2"}
    # What drafts decides where the experts lie, in the command as well.
    for command, uses in (
        (document["command"], document["verdict"]["use_speculation"]),
        (document["best_command"], True),
    ):
        own = document["best"]["params"] if uses else {"layout": "n_cpu_moe 1"}
        assert own["layout"].replace("n_cpu_moe", "--n-cpu-moe") in command
        assert "--cpu-moe" not in command
    assert document["lossless"]


@pytest.mark.usefixtures("gpu")
def test_a_study_goes_on_with_its_placements(
    spectui: Spectui, experts: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    search = (*experts, "--spec-type", "draft-simple", "--trials", 1)
    first = tuned(spectui, *search, *SEARCHED)
    # Less is free by now.
    monkeypatch.setattr(ScriptedPlanner, "n_free", 4.5)
    again = tuned(spectui, *search, *SEARCHED)
    assert again["study"] == first["study"]
    assert again["layouts"] == first["layouts"]
    monkeypatch.setattr(ScriptedPlanner, "n_free", 0.9)
    assert spectui("tune", *search, *SEARCHED) == 4
    assert "does not fit even with the experts of all layers in RAM" in spectui.err
    fixed = tuned(spectui, *search)
    assert fixed["study"] != first["study"]
    assert fixed["layouts"] is None
    assert "layout" not in fixed["trials"][0]["params"]
