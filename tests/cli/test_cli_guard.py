"""The guard before loading on the command line: what has no room is refused by every command."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spectui.engine import planning
from spectui.engine.demand import FreeMemory
from spectui.llama.planned import Plan, PlanRequest
from spectui.options.setup import ContextOptions, ModelOptions
from tests.support.cli import Run, Spectui
from tests.support.models import CLOSE_DRAFT, TARGET, Tiny, TinyPath
from tests.support.plans import room
from tests.support.scripted_server import write_server

pytest_plugins = ["tests.support.fixtures", "tests.support.cli_fixtures"]
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("home")]

LARGE = Tiny(n_extra=20_000)
"""A draft's vocabulary need not be the target's: it is refused for its size before that."""


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Set the RAM that is free."""

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
    assert "mind that " in spectui.err


@pytest.mark.ci
def test_drafts_without_room_are_left_out_of_a_search(
    spectui: Spectui, tiny: TinyPath, prompts: Path, free: Callable[[int], None]
) -> None:
    own, mapped = sizes(tiny(TARGET), tiny(CLOSE_DRAFT), max_draft=16)
    _own, large_mapped = sizes(tiny(TARGET), tiny(LARGE), max_draft=16)
    assert large_mapped > own + mapped
    free(own + mapped)
    models = ["-m", tiny(TARGET), "-md", tiny(CLOSE_DRAFT), "-md", tiny(LARGE)]
    options = ["-c", 256, "-t", 1, "-n", 12, "--temp", 0, "--prompts", prompts, "--trials", 2]
    assert spectui("tune", *models, *options, "--json", "-") == 0, spectui.err
    document: dict[str, Any] = json.loads(spectui.out)
    reasons = {one["name"]: one["reason"] for one in document["drafts"]}
    assert "read from disk again and again" in str(reasons[tiny(LARGE).stem])
    assert reasons[tiny(CLOSE_DRAFT).stem] is None
    assert f"left out {tiny(LARGE).stem}: " in spectui.err


def test_a_trial_that_has_lost_its_room_is_pruned(
    run: Run, spectui: Spectui, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of the memory is taken once the drafts were examined, and loaded no more."""
    n_asked = 0

    def free_memory(_gpus: object) -> FreeMemory:
        nonlocal n_asked
        n_asked += 1
        # The target, and each draft once.
        return room(CPU=1 << 40 if n_asked <= 2 else 1)

    monkeypatch.setattr("spectui.engine.guard.free_memory", free_memory)
    arguments = ["--trials", 2, "--tune", "draft", "--json", "-"]
    assert run("tune", *arguments) == 0, spectui.err
    document = json.loads(spectui.out)
    pruned = [one for one in document["trials"] if one["state"] == "pruned"]
    assert pruned
    assert all("RAM has no room" in one["error"] for one in pruned)
    assert "pruned: " in spectui.err
