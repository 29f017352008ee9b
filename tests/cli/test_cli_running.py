"""``bench --server-url`` on scripted servers that run: what they tell, and that they stay."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from spectui.server.client import Identity
from spectui.server.process import LlamaServer
from spectui.server.replies import CompletionReply
from tests.support.cli import Spectui
from tests.support.locks import HOLD
from tests.support.scripted_server import write_server

pytest_plugins = ["tests.support.fixtures", "tests.support.cli_fixtures"]

Start = Callable[..., str]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a scripted server as a user would, and gives its address."""
    with ExitStack() as running:

        def run(manner: str = "is good", *, drafts: bool = True, n_good: int = 1_000_000) -> str:
            # By its name it is known for a llama-server.
            name = f"llama-{manner}-{drafts}".replace(" ", "-")
            binary = write_server(tmp_path / name, manner, n_good=n_good)
            arguments = ("--spec-type", "draft-simple") if drafts else ()
            server = LlamaServer(binary, arguments, log_path=tmp_path / f"{name}.log")
            return running.enter_context(server).base_url

        yield run


@pytest.fixture
def bench(spectui: Spectui, prompts: Path) -> Callable[..., int]:
    options = ["--prompts", prompts, "-n", 12, "--json", "-"]
    return lambda url, *more: spectui("bench", *options, "--server-url", url, *more)


def test_a_server_that_tells_of_no_drafts_may_have_drafted(
    spectui: Spectui, bench: Callable[..., int], start: Start
) -> None:
    silent, alone = start("drafts nothing"), start(drafts=False)
    for more in ((), ("--baseline-url", alone)):
        assert bench(silent, *more) == 0, spectui.err
        found: dict[str, Any] = json.loads(spectui.out)
        for part in (found["speculative"], *found["prompts"]):
            assert (part["n_drafted"], part["n_accepted"]) == (None, None)
            assert "it drafted nothing, or does not tell" in part["n_drafted_reason"]
        assert found["speculative"]["acceptance_rate"] is None
    assert found["speedup"] == pytest.approx(1.25)
    assert (found["speedup_at_most"], found["speedup_is_noise"]) == (None, False)


def test_a_server_to_compare_with_that_drafts_is_refused(
    spectui: Spectui, bench: Callable[..., int], start: Start
) -> None:
    assert bench(start(), "--baseline-url", start("drafts always", drafts=False)) == 5
    assert "the server of --baseline-url drafts as well" in spectui.err


def test_a_running_server_whose_cores_another_process_measures_on_is_left_alone(
    spectui: Spectui, bench: Callable[..., int], start: Start
) -> None:
    url, core = start(), min(os.sched_getaffinity(0))
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(core)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        assert bench(url) == 2
        assert f"another spectui measures on core {core}, " in spectui.err
        other.kill()
    assert bench(url) == 0, spectui.err


ONE = Identity(model="a.gguf", build="b1", n_slots=1, marker="m", speculates=True)


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (ONE, None),
        (replace(ONE, model="b.gguf"), "its model was a.gguf"),
        (replace(ONE, build="b2"), "its build was b1 and is b2"),
        (replace(ONE, speculates=False), "it does not speculate any more"),
        (replace(ONE, marker="n"), "it was started again"),
        (replace(ONE, n_slots=4), "it was started again"),
    ],
)
def test_what_tells_servers_apart(now: Identity, said: str | None) -> None:
    change = ONE.change(now)
    assert change is None if said is None else change is not None and said in change


def reply(n: int, stop: str, **timings: object) -> bytes:
    told = {"predicted_n": n, "predicted_ms": 5.0, "prompt_ms": 1.0, **timings}
    return json.dumps(
        {"content": "", "tokens": [1] * n, "stop_type": stop, "timings": told}
    ).encode()


@pytest.mark.parametrize(
    ("stop", "timings"),
    [
        ("limit", {"draft_n": 73}),
        ("limit", {"draft_n_accepted": 0}),
        ("limit", {"draft_n": 73, "draft_n_accepted": 73}),
        ("limit", {"draft_n": 48, "draft_n_accepted": 48}),
        ("eos", {"draft_n": 10**30, "draft_n_accepted": 1}),
    ],
)
def test_counters_that_cannot_be_are_refused(stop: str, timings: dict[str, int]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(reply(48, stop, **timings), type=CompletionReply)


@pytest.mark.parametrize(("stop", "accepted"), [("limit", 47), ("eos", 50)])
def test_a_text_may_end_within_a_draft(stop: str, accepted: int) -> None:
    text = reply(48, stop, draft_n=60, draft_n_accepted=accepted)
    assert msgspec.json.decode(text, type=CompletionReply).timings.n_accepted == accepted
