"""``-np``: as many streams at once as llama-server has slots."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from spectui.engine.demand import FreeMemory
from spectui.engine.planning import Planner
from spectui.llama.planned import PlanRequest
from spectui.measure.servers import keeps_off
from spectui.options.setup import ContextOptions, ModelOptions, Setup
from spectui.options.speculation import Speculation
from spectui.tune.studies.listing import list_studies
from tests.support.architectures import write_qwen35
from tests.support.cli import Run, Spectui
from tests.support.models import CLOSE_DRAFT, TARGET, TinyPath
from tests.support.scripted_server import write_server

pytest_plugins = ["tests.support.fixtures", "tests.support.cli_fixtures"]
pytestmark = [pytest.mark.ci, pytest.mark.slow, pytest.mark.usefixtures("no_process_is_left")]


@pytest.fixture
def served(tmp_path: Path) -> tuple[object, ...]:
    """Options of a scripted server that answers when all of its slots are busy."""
    binary = write_server(tmp_path / "llama-server")
    return ("--backend", "server", "--server-bin", binary)


def option(words: list[str], flag: str) -> str:
    return [value for one, value in pairwise(words) if one == flag][-1]


def test_bench_measures_as_many_streams(
    run: Run, spectui: Spectui, served: tuple[object, ...]
) -> None:
    for n_slots, speedup in ((1, 1.25), (2, 1.25), (4, 0.8)):
        found = run.document("bench", *served, "-np", n_slots)
        assert found["speedup"] == pytest.approx(speedup)
        assert found["baseline"]["tokens_per_s"] == 100.0
        assert [run["id"] for run in found["prompts"]] == list("abcdef")
        assert found["config"].get("n_slots", 1) == n_slots
    assert run("bench", *served, "-np", 4) == 0
    assert "in each of 4 streams" in spectui.out
    assert run("bench", *served, "-np", "1,4") == 2
    assert "--parallel: '1,4' is no whole number" in spectui.err


def test_the_command_of_from_says_how_many_slots_there_are(
    spectui: Spectui, tiny: TinyPath, prompts: Path, served: tuple[object, ...]
) -> None:
    command = f"llama-server -m {tiny(TARGET)} -md {tiny(CLOSE_DRAFT)} -t 1 -c 1024 -np 2"
    rest = ["-n", 8, "--prompts", prompts, "--json", "-", *served]

    def words(*more: object) -> list[str]:
        assert spectui("bench", "--from", command, *rest, *more) == 0, spectui.err
        found: list[str] = json.loads(spectui.out)["server"]["arguments"]["on"]
        return found

    for more, size, n_slots in (
        ((), "1024", "2"),
        (("-np", 1), "512", "1"),
        (("-np", 4, "-c", 256), "1024", "4"),
    ):
        found = words(*more)
        assert (option(found, "-c"), option(found, "-np")) == (size, n_slots)


def test_sweep_has_slots_as_an_axis(
    run: Run, spectui: Spectui, served: tuple[object, ...], tmp_path: Path
) -> None:
    found = run.document(
        "sweep", *served, "--draft-max", "4", "-np", "1,2,4", "--out", tmp_path / "o"
    )
    cells = {one["config"]["n_slots"]: one for one in found["cells"]}
    assert {*cells} == {1, 2, 4}
    for n_slots, speedup in ((1, 1.25), (2, 1.25), (4, 0.8)):
        on = cells[n_slots]
        assert on["speedup"] == pytest.approx(speedup)
        assert ("on_all_tokens_per_s" in on) is (n_slots > 1)
    assert run("sweep", *served, "--draft-max", "4", "-np", "1,2,4") == 0
    assert "nothing is left to measure" in spectui.err
    told = " ".join(spectui.out.split())
    assert all(text in told for text in ("1.25", "0.80"))
    assert "off all" in (tmp_path / "o" / "report.md").read_text()


def test_tune_searches_with_as_many_streams(run: Run, served: tuple[object, ...]) -> None:
    search = (*served, "--trials", 3, "--spec-type", "draft-simple")
    crowded = run.document("tune", *search, "-np", "4")
    assert crowded["best"]["speedup"] == pytest.approx(0.8)
    assert (option(crowded["flags"], "-np"), option(crowded["flags"], "-c")) == ("4", "1024")
    plain = run.document("tune", *search)
    assert crowded["study"] != plain["study"]
    assert plain["best"]["speedup"] == pytest.approx(1.25)
    assert "-np" not in plain["flags"]


def test_a_promise_of_several_slots_is_verified_with_as_many(
    run: Run, spectui: Spectui, served: tuple[object, ...]
) -> None:
    search = ("--trials", 2, "--spec-type", "draft-simple", "--study", "mine")
    assert run("tune", *served, *search, "-np", "2") == 0, spectui.err
    (entry,) = list_studies(None)
    assert entry.promise is not None
    assert spectui("verify", "mine", *served[2:], "--json", "-") == 0, spectui.err
    found = json.loads(spectui.out)
    assert found["delivered"]["speedup"] == pytest.approx(1.25)
    words = found["server"]["arguments"]["on"]
    assert (option(words, "-np"), option(words, "-c")) == ("2", "512")


def test_both_servers_need_room_for_the_caches_of_all_slots(
    tiny: TinyPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, draft = (ModelOptions(path=tiny(one)) for one in (TARGET, CLOSE_DRAFT))
    context = ContextOptions(ctx_size=256, threads=1)
    setup = Setup(target=target, draft=draft, context=context, speculation=Speculation(), n_slots=8)
    with Planner() as planner:
        plans = [planner.plan(PlanRequest.of(one)) for one in (setup.off, setup)]
    own = [one for plan in plans for one in plan.buffers if not one.is_mapped]
    needed = sum(one.size_bytes for one in own)
    needed += sum(one.size_bytes for one in plans[1].buffers if one.is_mapped)
    free: dict[str, int] = {}
    monkeypatch.setattr(
        "spectui.engine.guard.free_memory", lambda _gpus: FreeMemory(by_memory=dict(free))
    )
    for n_bytes, fits in ((needed, True), (needed - 1, False)):
        free["CPU"] = n_bytes
        assert keeps_off(setup) is fits


def ran(spectui: Spectui, *arguments: object) -> dict[str, Any]:
    assert spectui(*arguments) == 0, spectui.err
    document: dict[str, Any] = json.loads(spectui.out)
    return document


def counts(document: dict[str, Any]) -> list[tuple[str, int, int]]:
    return sorted((one["id"], one["n_drafted"], one["n_accepted"]) for one in document["prompts"])


@pytest.mark.server
@pytest.mark.parametrize("kind", ["draft-simple", "draft-mtp"])
def test_the_real_server_drafts_in_every_slot(
    spectui: Spectui, pair: list[object], prompts: Path, llama_server_binary: Path, kind: str
) -> None:
    if kind == "draft-mtp":
        target = prompts.with_name("mtp.gguf")
        write_qwen35(TARGET, target)
        pair = ["-m", target, *pair[4:]]
    setting = [*pair, "--prompts", prompts, "--spec-type", kind, "-n", 24, "--ignore-eos"]
    served = ("--backend", "server", "--server-bin", llama_server_binary)
    one, two = (ran(spectui, "bench", *setting, *served, "-np", n, "--json", "-") for n in (1, 2))
    if kind == "draft-simple":
        # Each slot drafts for itself, so that company changes no count. MTP layers begin where
        # the request before ended, which may be any in another slot.
        assert counts(two) == counts(one)
    assert sum(n_drafted for _id, n_drafted, _n in counts(two)) > 0
    assert two["lossless"] is True
    for found in (one, two):
        assert found["speedup_ci95"] is not None
