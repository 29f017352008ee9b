"""Attaching to the real llama-server."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from spectui.server.process import LlamaServer
from spectui.server.replies import SlotPhase
from spectui.server.watch import poller
from spectui.server.watch.locator import Address, parse_address
from spectui.server.watch.poller import ask
from spectui.server.watch.sample import Failure, Sample, ServerSample
from spectui.server.watch.tracker import Tracker
from tests.server.test_attach_poller import Watch
from tests.support.models import TARGET, TinyPath

pytest_plugins = ["tests.support.fixtures"]
pytestmark = pytest.mark.server

PROMPT = "The capital of France is"
N_PREDICT = 48
# One thread: where cores are shared, two spend their time waiting for each other.
SMALL = ("-c", "512", "-np", "1", "-t", "1")


def attachment(server: LlamaServer) -> Address:
    return parse_address(server.base_url, server.api_key)


def watch_of(server: LlamaServer) -> Watch:
    return Watch(attachment(server))


def asked(server: LlamaServer) -> ServerSample:
    (found,) = asyncio.run(ask(attachment(server)))
    assert isinstance(found, ServerSample), found
    return found


@pytest.fixture(scope="module")
def speculating(
    llama_server_binary: Path, smollm2: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LlamaServer]:
    log = tmp_path_factory.mktemp("attach") / "server.log"
    arguments = ["-m", str(smollm2), "-md", str(smollm2), "--metrics", *SMALL]
    arguments += ["--spec-type", "draft-simple", "--spec-draft-n-max", "4"]
    with LlamaServer(llama_server_binary, arguments, log_path=log) as server:
        yield server


def test_facts_of_the_real_server(speculating: LlamaServer) -> None:
    found = asked(speculating)
    facts = found.facts.value
    assert facts is not None
    assert (facts.n_ctx, facts.n_slots, facts.quantization) == (512, 1, "Q4_1")
    assert facts.n_params == 134_515_008
    assert not facts.is_sleeping
    process = found.process.value
    assert process is not None
    assert (process.pid, process.name) == (speculating.pid, "llama-server")


def test_a_request_is_seen_while_it_runs_and_counted_when_it_ends(speculating: LlamaServer) -> None:
    before, tracker = asked(speculating), Tracker(speculating.base_url)
    tracker.add(before)
    phases: set[SlotPhase] = set()
    watch = watch_of(speculating)
    watch.poller.start()
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(speculating.complete, PROMPT, n_predict=N_PREDICT, ignore_eos=True)
        done = run.result()
    while not _has_ended(sample := watch.next(), before):
        tracker.add(sample)
        phases |= _phases(sample)
    tracker.add(sample)
    watch.poller.close()

    state = tracker.state
    assert SlotPhase.GENERATING in phases
    assert state.last_drafts is not None
    assert state.last_drafts.n_drafted == done.n_drafted
    assert state.last_drafts.n_accepted == done.n_accepted
    assert state.sample.counters.value is not None
    assert state.sample.counters.value.drafts is not None
    assert sum(state.sample.counters.value.drafts.accepted_per_position) == done.n_accepted
    assert any(value for value in state.speeds)


def _has_ended(sample: Sample, before: ServerSample) -> bool:
    assert isinstance(sample, ServerSample)
    assert sample.counters.value is not None
    assert before.counters.value is not None
    return sample.counters.value.n_predicted > before.counters.value.n_predicted


def _phases(sample: Sample) -> set[SlotPhase]:
    assert isinstance(sample, ServerSample)
    return {slot.phase for slot in sample.slots.value or ()}


@pytest.mark.ci
def test_a_connection_is_used_longer_than_the_server_keeps_it(speculating: LlamaServer) -> None:
    # Llama-server closes a connection after a hundred requests.
    watch = watch_of(speculating)
    watch.poller.start()
    samples = [watch.next() for _ in range(250)]
    watch.poller.close()
    assert not [each for each in samples if isinstance(each, Failure)]


def test_a_server_that_sleeps_is_not_woken(
    llama_server_binary: Path, tiny: TinyPath, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(poller, "_RENEWED_S", 0.1)
    arguments = ["-m", str(tiny(TARGET)), "--metrics", "--sleep-idle-seconds", "1", *SMALL]
    with LlamaServer(llama_server_binary, arguments, log_path=tmp_path / "log") as server:
        # Questions for its slots would keep it awake.
        headers = {"Authorization": f"Bearer {server.api_key}"}
        while not httpx.get(f"{server.base_url}/props", headers=headers).json()["is_sleeping"]:
            pass
        watch = watch_of(server)
        watch.poller.start()
        assert all(_sleeps(watch.next()) for _ in range(20))
        server.complete(PROMPT, n_predict=2)
        while _sleeps(watch.next()):
            pass
        watch.poller.close()


def _sleeps(sample: Sample) -> bool:
    assert isinstance(sample, ServerSample), sample
    assert sample.facts.value is not None
    return sample.facts.value.is_sleeping
