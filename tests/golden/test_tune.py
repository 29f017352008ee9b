"""``spectui tune``: each verdict, and what stands below it."""

import re
from functools import partial

import pytest

from spectui.tune.search import Search
from tests.golden.conftest import Golden
from tests.golden.support import Cost, Place, Ways, compute_bound, even, memory_bound
from tests.support.machine import DISTURBED, seen_by_watches

RUN = ("-c", 256, "-t", 1, "-n", 24, "--temp", 0, "--ignore-eos", "--prompts", "sixteen.jsonl")
PAIR = ("-m", "target.gguf", "-md", "close.gguf", *RUN)
FEW_PROMPTS = (*PAIR[:-1], "ten.jsonl")
NOTHING_LEFT = (*PAIR[:4], "-c", 48, *RUN[2:-1], "ten.jsonl")
FEW = ("--trials", 3)
LONGEST_ROUND = 10
LENGTH = ("--tune", "draft_max", "--quiet")
MODEL = ("--spec-type", "draft-simple")
SERVED = ("--backend", "server", "--keep-both", "--server-bin", "./llama-server")


def tuned(place: Place, cost: Cost, name: str, *arguments: object) -> dict[str, str]:
    place.time.cost = cost
    return place.both(name, "tune", *arguments, "--study", name)


def test_verdicts(golden: Golden, place: Place) -> None:
    texts = {
        **tuned(place, memory_bound, "use", *PAIR, *MODEL, "--trials", 6),
        **tuned(place, compute_bound, "off", *PAIR, *MODEL, "--trials", 4),
        **tuned(place, even, "open", *PAIR, *MODEL, "--trials", 4),
    }
    golden("tune/verdicts", texts)
    few = {
        **tuned(place, memory_bound, "later", *FEW_PROMPTS, *MODEL, "--trials", 6),
        **tuned(place, memory_bound, "same", *NOTHING_LEFT, *MODEL, "--trials", 3),
        **tuned(place, memory_bound, "one", *PAIR, *MODEL, "--trials", 1),
    }
    golden("tune/few", few)
    sampled = (*RUN[:6], *RUN[8:])
    as_served = tuned(place, memory_bound, "served", *PAIR[:4], *sampled, *MODEL, "--trials", 6)
    golden("tune/sampled", as_served)
    place.time.cost = memory_bound
    again = place.run("tune", *PAIR, *MODEL, "--trials", 6, "--study", "use")
    exported = place.run("export", "use")
    golden("tune/resumed", {"resumed.txt": again.text, "export.txt": exported.text})


@pytest.mark.ci
def test_little_time(golden: Golden, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    timed = partial(Search, clock=place.time)
    monkeypatch.setattr("spectui.tune.tuning.Search", timed)
    texts: dict[str, str] = {}
    for seconds in (1, 6, 12):
        budget = ("--trials", 3, "--time-budget", f"{seconds}s")
        texts |= tuned(place, memory_bound, f"within-{seconds}-s", *PAIR, *MODEL, *budget)
    golden("tune/little-time", texts)


@pytest.mark.ci
def test_drafts(golden: Golden, place: Place) -> None:
    several = ("-md", "rough.gguf", "-md", "misfit.gguf", *MODEL)
    texts = {
        **tuned(place, memory_bound, "ngrams", "-m", "target.gguf", *RUN, "--trials", 4),
        **tuned(place, memory_bound, "several", *PAIR, *several, "--trials", 5, *LENGTH),
        **tuned(place, memory_bound, "length", *PAIR, *MODEL, *LENGTH, *FEW),
        **tuned(place, memory_bound, "ik", *PAIR, *MODEL, "--dialect", "ik", *FEW, *LENGTH),
    }
    golden("tune/drafts", texts)


@pytest.mark.ci
def test_interrupted(golden: Golden, place: Place) -> None:
    place.interrupt_at("trial 2")
    texts = place.both("interrupted", "tune", *PAIR, *MODEL, "--trials", 6, "--study", "mine")
    place.interrupt_at("trial 0")
    texts |= place.both("at-once", "tune", *PAIR, *MODEL, "--trials", 6, "--study", "other")
    place.time.cost = memory_bound
    again = ("tune", *PAIR, *MODEL, "--trials", 3, "--study", "third")
    place.run(*again)
    place.interrupt_at("confirming")
    texts |= place.both("keeps-its-verdict", *again)
    texts["export.txt"] = place.run("export", "third").text
    golden("tune/interrupted", texts)


def test_disturbed(golden: Golden, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    seen_by_watches(monkeypatch, DISTURBED)
    golden("tune/disturbed", tuned(place, memory_bound, "disturbed", *PAIR, *MODEL, *LENGTH, *FEW))


@pytest.mark.ci
def test_server(golden: Golden, place: Place) -> None:
    texts: dict[str, str] = {}
    servers: dict[str, Ways] = {
        "faster": {},
        "slower": {"on_ms": 12.5},
        "noise": {"manner": "drafts nothing"},
        "fails": {"manner": "exits with a draft"},
    }
    for name, how in servers.items():
        place.server("llama-server", **how)
        served = (*PAIR, *MODEL, *SERVED, "--tune", "draft_max", "--trials", 3)
        texts |= tuned(place, memory_bound, name, *served)
    place.server("llama-server")
    few = (*FEW_PROMPTS, *MODEL, *SERVED, "--tune", "draft_max", "--trials", 3)
    texts |= tuned(place, memory_bound, "few", *few)
    golden("tune/server", texts)


@pytest.mark.ci
def test_verified(golden: Golden, place: Place) -> None:
    texts: dict[str, str] = {}
    for name, cost, on_ms in (("noise", memory_bound, 5.0), ("overrules", compute_bound, 8.0)):
        place.server("llama-server", on_ms=on_ms)
        found = (*PAIR, *MODEL, "--trials", 2, *LENGTH[:2], "--server-bin", "./llama-server")
        texts |= tuned(place, cost, name, *found)
    golden("tune/verified", texts)


class Wall:
    """The clock by which llama-server's part of the time budget ends."""

    now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s

    def go_on(self) -> None:
        self.now_s += 7200


@pytest.mark.ci
@pytest.mark.parametrize(("name", "at"), [("few", "d: off"), ("enough", "d2: off")])
def test_time_ends_on_llama_server(
    name: str, at: str, golden: Golden, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    wall = Wall()
    monkeypatch.setattr("spectui.tune.served.time", wall)
    place.server("llama-server", on_ms=12.5)
    place.at(at, wall.go_on)
    found = (*PAIR, *MODEL, "--trials", 2, *LENGTH[:2], "--server-bin", "./llama-server")
    texts = tuned(place, memory_bound, name, *found, "--time-budget", "1h")
    # The search took a few seconds of the real clock.
    told = {
        file: re.sub(r"it took \d+ (h|min) \d+ (min|s)", "it took <time>", texts[file])
        for file in texts
    }
    golden(f"tune/cut-{name}", told)


def dear_prompts(model: str, n_tokens: int) -> float:
    """A draft that drafts cheaply and reads prompts as slowly as the target does."""
    is_prompt = n_tokens > LONGEST_ROUND and model != "target"
    return 0.001 * n_tokens if is_prompt else memory_bound(model, n_tokens)


@pytest.mark.ci
def test_requests(golden: Golden, place: Place) -> None:
    depths, requests = ("--depth", "0,60,200"), ("--request", "12+24", "--request", "200+16")
    trials = ("--trials", 3)
    texts = {
        **tuned(place, memory_bound, "depths", *PAIR, *MODEL, *trials, *depths),
        **tuned(place, dear_prompts, "dear", *PAIR, *MODEL, *trials, "--request", "200+8"),
        **tuned(place, memory_bound, "several", *PAIR, *MODEL, *trials, *requests),
    }
    texts["refused.txt"] = "\n".join(
        place.run("tune", *PAIR, *MODEL, *wrong).text
        for wrong in (("--depth", "0,300"), ("--request", "250+24"), ("--request", "many"))
    )
    golden("tune/requests", texts)
