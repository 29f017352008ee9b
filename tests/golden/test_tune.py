"""``spectui tune``: each verdict, and what stands below it."""

import json
import re
from functools import partial

import pytest

from spectui import __version__
from spectui.tune.pace import Pace
from tests.golden.conftest import Golden
from tests.golden.support import (
    Cost,
    Place,
    Ways,
    compute_bound,
    document_text,
    even,
    memory_bound,
)
from tests.support.machine import DISTURBED, seen_by_watches

RUN = ("-c", 256, "-t", 1, "-n", 24, "--temp", 0, "--ignore-eos", "--prompts", "sixteen.jsonl")
PAIR = ("-m", "target.gguf", "-md", "close.gguf", *RUN)
FEW_PROMPTS = (*PAIR[:-1], "ten.jsonl")
NOTHING_LEFT = (*PAIR[:4], "-c", 48, *RUN[2:-1], "ten.jsonl")
FEW = ("--trials", 3)
LONGEST_ROUND = 10
MODEL = ("--spec-type", "draft-simple")
SERVED = ("--backend", "server", "--server-bin", "./llama-server")


def tuned(place: Place, cost: Cost, name: str, *arguments: object) -> dict[str, str]:
    """What a search says to people."""
    place.time.cost = cost
    return place.page(name, "tune", *arguments, "--study", name)


def documented(place: Place, cost: Cost, name: str, *arguments: object) -> dict[str, str]:
    """The same, and its document."""
    place.time.cost = cost
    return place.both(name, "tune", *arguments, "--study", name)


def test_verdicts_and_their_reports(golden: Golden, place: Place) -> None:
    texts = {
        **documented(place, memory_bound, "use", *PAIR, *MODEL, "--trials", 6),
        **tuned(place, compute_bound, "off", *PAIR, *MODEL, "--trials", 4),
        **tuned(place, even, "open", *PAIR, *MODEL, "--trials", 4),
    }
    golden("tune/verdicts", texts)
    golden("report", reported(place))
    page = place.run("report", "use")
    assert (page.code, page.out) == (0, "")
    assert page.err.startswith("written to spectui-report-use.html (")
    place.time.cost = memory_bound
    resumed = place.run("tune", *PAIR, *MODEL, "--trials", 6, "--study", "use")
    exported = place.run("export", "use")
    golden("tune/resumed", {"resumed.txt": resumed.text, "export.txt": exported.text})


_TODAY = re.compile(r"20\d\d-\d\d-\d\d( \d\d:\d\d)?")
_VERSION = re.compile(rf"(?<![\w.]){re.escape(__version__)}(?!\.?\w)")
_TOOK = re.compile(r"(the search took \|)[^|]*")


def reported(place: Place) -> dict[str, str]:
    """Reports of a verdict to use it, and of one to leave it off."""
    texts: dict[str, str] = {}
    for name, format_ in (("use", "md"), ("off", "md"), ("use", "row")):
        said = place.run("report", name, "--format", format_).text
        text = _TODAY.sub("<date>", _VERSION.sub("<spectui>", said))
        texts[f"{name}.{format_}.txt"] = _TOOK.sub(r"\1 <s> ", text)
    return texts


@pytest.mark.ci
def test_few_prompts_few_trials_and_a_sampled_search(golden: Golden, place: Place) -> None:
    sampled = (*PAIR[:4], *RUN[:6], *RUN[8:])
    texts = {
        **tuned(place, memory_bound, "later", *FEW_PROMPTS, *MODEL, "--trials", 6),
        **tuned(place, memory_bound, "same", *NOTHING_LEFT, *MODEL, "--trials", 3),
        **tuned(place, memory_bound, "one", *PAIR, *MODEL, "--trials", 1),
        **tuned(place, memory_bound, "sampled", *sampled, *MODEL, "--trials", 4),
    }
    golden("tune/few", texts)


@pytest.mark.ci
def test_little_time(golden: Golden, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spectui.tune.tuning.Pace", partial(Pace, clock=place.time))
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
        **tuned(place, memory_bound, "several", *PAIR, *several, "--trials", 5, "--quiet"),
    }
    golden("tune/drafts", texts)


@pytest.mark.ci
def test_interrupted(golden: Golden, place: Place) -> None:
    search = ("tune", *PAIR, *MODEL, "--trials", 6)
    place.interrupt_at("trial 2")
    texts = place.page("interrupted", *search, "--study", "mine")
    place.interrupt_at("trial 0")
    texts |= place.page("at-once", *search, "--study", "other")
    place.time.cost = memory_bound
    again = ("tune", *PAIR, *MODEL, "--trials", 3, "--study", "third")
    place.run(*again)
    place.interrupt_at("confirming")
    texts |= place.page("keeps-its-verdict", *again)
    golden("tune/interrupted", texts)


def test_disturbed(golden: Golden, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    seen_by_watches(monkeypatch, DISTURBED)
    search = (*PAIR, *MODEL, "--quiet", *FEW)
    golden("tune/disturbed", documented(place, memory_bound, "disturbed", *search))


@pytest.mark.ci
def test_server(golden: Golden, place: Place) -> None:
    served = (*MODEL, *SERVED, "--trials", 3)
    place.server("llama-server")
    texts = documented(place, memory_bound, "faster", *PAIR, *served)
    texts |= tuned(place, memory_bound, "few", *FEW_PROMPTS, *served)
    servers: dict[str, Ways] = {
        "slower": {"on_ms": 12.5},
        "noise": {"manner": "drafts nothing"},
        "fails": {"manner": "exits with a draft"},
    }
    for name, how in servers.items():
        place.server("llama-server", **how)
        texts |= tuned(place, memory_bound, name, *PAIR, *served)
    golden("tune/server", texts)


def dear_prompts(model: str, n_tokens: int) -> float:
    """A draft that drafts cheaply and reads prompts as slowly as the target does."""
    is_prompt = n_tokens > LONGEST_ROUND and model != "target"
    return 0.001 * n_tokens if is_prompt else memory_bound(model, n_tokens)


@pytest.mark.ci
def test_requests(golden: Golden, place: Place) -> None:
    requests = ("--request", "12+24", "--request", "200+16")
    trials = ("--trials", 3)
    several = documented(place, memory_bound, "several", *PAIR, *MODEL, *trials, *requests)
    requests_of = json.loads(several.pop("several.json"))["requests"]
    texts = {
        **several,
        **tuned(place, dear_prompts, "dear", *PAIR, *MODEL, *trials, "--request", "200+8"),
        "requests.json": document_text(json.dumps(requests_of)),
    }
    texts["refused.txt"] = "\n".join(
        place.run("tune", *PAIR, *MODEL, *wrong).text
        for wrong in (("--request", "250+24"), ("--request", "many"))
    )
    golden("tune/requests", texts)
