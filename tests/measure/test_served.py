"""Servers in the place of the engine: who is alive, in which order, what answers tell."""

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectui.engine.commands import Generate
from spectui.engine.events import GenerationResult
from spectui.errors import ServerError
from spectui.measure.arm import OFF, Arm
from spectui.measure.comparable import spec_digest
from spectui.measure.measurer import Measurer, Pair, total_counters
from spectui.measure.promise import Case
from spectui.measure.server_backend import ServerBackend, result_of
from spectui.measure.servers import Fleet, ServedModel, measuring_arguments
from spectui.measure.workload import WorkItem, Workload
from spectui.monitor.machine import Machine
from spectui.options.drafters import DraftSimple, NgramMapK
from spectui.options.setup import ContextOptions, ModelOptions, SamplingConfig, Setup
from spectui.options.speculation import Speculation
from spectui.server.binary import ServerBinary, examine
from spectui.server.process import LlamaServer
from spectui.server.replies import Completion, Timings
from spectui.speculative.counters import Counters, Detail
from spectui.tune.backends import served_spec
from spectui.tune.race import RaceRuns
from tests.support.scripted_server import LAST_WORDS, write_server
from tests.support.search import ScriptedMeasurer, items

pytest_plugins = ["tests.support.cli_fixtures"]

TARGET = ModelOptions(path=Path("t.gguf"))
OFF_SETUP = Setup(target=TARGET, draft=None, context=ContextOptions(), speculation=None)
ONE, OTHER = (
    replace(
        OFF_SETUP,
        draft=ModelOptions(path=Path("d.gguf")),
        speculation=Speculation(DraftSimple(draft_max=longest)),
    )
    for longest in (4, 8)
)
NGRAM = replace(
    OFF_SETUP,
    speculation=Speculation(NgramMapK(size_n=4, size_m=8)),
)
ARM = Arm(draft="d", speculation=Speculation(DraftSimple(draft_max=4)))


def completion(
    *,
    tokens: tuple[int, ...] = tuple(range(11)),
    stop: str = "limit",
    n_drafted: int = 8,
    n_accepted: int = 6,
    n_evaluated: int | None = None,
) -> Completion:
    timings = Timings(
        predicted_n=11,
        predicted_ms=500.0,
        prompt_ms=250.0,
        prompt_n=n_evaluated,
        draft_n=n_drafted,
        draft_n_accepted=n_accepted,
    )
    return Completion(text="", tokens=tokens, stop=stop, timings=timings)


def test_a_completion_is_a_result_of_the_engine_as_far_as_it_tells() -> None:
    result = result_of(completion(), 3, redoes_rounds=False)
    assert (result.n_decoded, result.tokens_per_s, result.prompt_s) == (10, 20.0, 0.25)
    assert (result.counters.known_rounds, result.counters.tokens_per_round) == (4, 2.5)
    assert result.counters.acceptance_rate == 0.75
    assert result.counters.alpha is None
    for n_evaluated in (3, 2, None):
        done = result_of(completion(n_evaluated=n_evaluated), 3, redoes_rounds=False)
        assert (done.n_evaluated, done.prompt_draft_s) == (n_evaluated, None)


@pytest.mark.parametrize(
    ("changes", "redoes_rounds", "n_rounds"),
    [
        ({}, False, 4),
        ({}, True, None),
        ({"stop": "eos"}, False, None),
        ({"stop": "eos", "n_drafted": 0, "n_accepted": 0}, True, 10),
        ({"tokens": tuple(range(3))}, False, None),
        ({"tokens": (), "n_drafted": 0, "n_accepted": 0}, False, None),
    ],
)
def test_rounds_are_counted_where_that_follows_from_the_tokens(
    changes: dict[str, Any], *, redoes_rounds: bool, n_rounds: int | None
) -> None:
    counters = result_of(completion(**changes), 3, redoes_rounds=redoes_rounds).counters
    assert counters.known_rounds == n_rounds
    assert counters.mean_accepted_length == (
        None if not n_rounds else 1 + counters.n_accepted / n_rounds
    )


@given(st.lists(st.sampled_from(Detail)))
def test_a_sum_knows_no_more_than_the_least_of_its_parts(details: list[Detail]) -> None:
    parts = [Counters(n_rounds=2, n_drafted=3, n_accepted=1, detail=one) for one in details]
    total = sum(parts, Counters())
    assert total.detail == min(details, default=Detail.ROUNDS)
    assert (total.known_rounds is None) is (Detail.TOTALS in details)
    assert total.n_drafted == 3 * len(parts)


@pytest.fixture
def fleets(tmp_path: Path, home: Path) -> Iterator["Fleets"]:
    assert home.parent == tmp_path
    with_servers = Fleets(tmp_path)
    yield with_servers
    assert with_servers.alive() == []


@dataclass(eq=False, kw_only=True)
class Listed(Fleet):
    """A fleet that lists what it starts."""

    started: list[Setup]

    def start(self, setup: Setup, arguments: Sequence[str]) -> LlamaServer:
        self.started.append(setup)
        return super().start(setup, arguments)


class Fleets:
    """Fleets of scripted servers, and what they start."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.started: list[Setup] = []

    def open(self, *, keeps_off: bool, manner: str = "is good", n_good: int = 1_000_000) -> Fleet:
        binary = write_server(self._folder / "llama-server", manner, n_good=n_good)
        return Listed(
            examine(str(binary)),
            keeps_off=keeps_off,
            timeout_s=20.0,
            say=lambda _text: None,
            started=self.started,
        )

    def alive(self) -> list[psutil.Process]:
        name = str(self._folder / "llama-server")
        return [p for p in psutil.Process().children(recursive=True) if name in p.cmdline()]


@pytest.mark.parametrize(
    ("keeps_off", "n_starts"), [(True, 5), (False, 7)], ids=["beside off", "one at a time"]
)
def test_who_is_alive(fleets: Fleets, *, keeps_off: bool, n_starts: int) -> None:
    asked = [OFF_SETUP, ONE, OFF_SETUP, ONE, OTHER, NGRAM, ONE]
    with fleets.open(keeps_off=keeps_off) as fleet:
        for setup in asked:
            server = fleet.of(setup)
            assert fleet.of(setup) is server
            assert server.is_ready(timeout_s=20.0)
    distinct = [one for one, _ in itertools.groupby(asked)]
    wanted = [OFF_SETUP, ONE, OTHER, NGRAM, ONE] if keeps_off else distinct
    assert fleets.started == wanted
    assert fleet.n_starts == n_starts


def test_arguments_are_the_binarys_own_and_nobody_else_may_reach_it(tmp_path: Path) -> None:
    binary = examine(str(write_server(tmp_path / "llama-server")))
    extra = ("-lm", "none", "--port", "1", "--api-key", "secret", "--host", "example.org")
    arguments = measuring_arguments(replace(ONE, extra=extra), binary)
    assert arguments[arguments.index("-lm") + 1] == "none"
    assert not {"--port", "--api-key", "secret", "--host"} & set(arguments)
    assert arguments[-2:] == ("-np", "1")
    assert arguments[arguments.index("--spec-draft-n-max") + 1] == "4"
    assert "-md" not in measuring_arguments(ONE.off, binary)
    assert replace(ONE, speculation=None).models == (TARGET,)


def decoding(fleet: Fleet) -> ServerBackend:
    drafts = {"d": ModelOptions(path=Path("d.gguf"))}
    return ServerBackend(fleet, OFF_SETUP, drafts, redoes_rounds=False)


def test_what_a_server_tells_of_a_prompt_counts_only_where_the_draft_is_part_of_it(
    fleets: Fleets, monkeypatch: pytest.MonkeyPatch
) -> None:
    setting = Speculation(DraftSimple(draft_max=4))
    with fleets.open(keeps_off=True) as fleet:
        for tells in (True, False):
            monkeypatch.setattr(ServerBinary, "prompt_times_include_draft", tells)
            servers = decoding(fleet)
            servers.load("d")
            for speculation, counts in ((setting, tells), (None, True)):
                command = Generate(prompt=(1, 2), n_predict=4, speculation=speculation)
                assert (servers.generate(command).n_evaluated is not None) is counts


def test_a_server_that_fails_is_started_anew_when_it_is_asked_again(
    fleets: Fleets, home: Path
) -> None:
    setting = Speculation(DraftSimple(draft_max=4))
    # The first answer is that of the warm-up.
    with fleets.open(keeps_off=True, manner="is killed", n_good=2) as fleet:
        servers = decoding(fleet)
        servers.load("d")
        command = Generate(prompt=(1, 2), n_predict=4, speculation=setting)
        assert servers.generate(command).counters.n_drafted > 0
        with pytest.raises(ServerError, match=LAST_WORDS):
            servers.generate(command)
        assert servers.generate(command).n_decoded == 3
        assert fleets.started == [ONE, ONE]
        assert servers.move_s > 0

    with fleets.open(keeps_off=True, manner="is killed", n_good=0) as fleet:
        for setup in (ONE, OTHER):
            with pytest.raises(ServerError, match=LAST_WORDS) as caught:
                fleet.of(setup)
            named = re.search(r"all of it in (.*)\)$", str(caught.value))
            assert named is not None
            assert Path(named[1]) == home / "data" / "logs" / "llama-server-failed-on.log"
            assert LAST_WORDS in Path(named[1]).read_text()


def test_an_ngram_drafter_is_not_asked_twice_what_it_remembers(fleets: Fleets) -> None:
    with fleets.open(keeps_off=True) as fleet:
        servers = decoding(fleet)
        for prompt in (1, 2, 1, 2, 2):
            ngram = Generate(prompt=(prompt,), n_predict=4, speculation=NGRAM.speculation)
            servers.generate(ngram)
            servers.generate(replace(ngram, speculation=None))
    assert fleets.started == [NGRAM, OFF_SETUP, NGRAM, NGRAM]


def test_off_may_lie_otherwise_than_the_target_beside_a_draft(fleets: Fleets) -> None:
    case = Case(
        baseline=TARGET,
        target=replace(TARGET, n_gpu_layers=7),
        draft=ONE.draft,
        context=ContextOptions(),
        speculation=Speculation(DraftSimple(draft_max=4)),
        sampling=SamplingConfig(temp=0.0),
        n_predict=4,
    )
    with fleets.open(keeps_off=True) as fleet:
        servers = ServerBackend(fleet, case, {}, redoes_rounds=False)
        for speculation in (None, case.speculation):
            servers.generate(Generate(prompt=(1, 2), n_predict=4, speculation=speculation))
    assert fleets.started == [OFF_SETUP, case]


@pytest.mark.parametrize(
    ("keeps_off", "starts", "order"),
    [
        (True, 2, ["p0", "p1", "p2", "p3"] * 2),
        (False, 5, ["p0", "p1", "p2", "p3", "p2", "p3", "p0", "p1"]),
    ],
    ids=["beside off", "one at a time"],
)
def test_both_take_turns_without_starting_more_servers_than_needed(
    fleets: Fleets, *, keeps_off: bool, starts: int, order: list[str]
) -> None:
    with fleets.open(keeps_off=keeps_off) as fleet:
        servers = decoding(fleet)
        servers.load("d")
        workload = Workload(items=items(4), n_predict=5, sampling=SamplingConfig(temp=0.0))
        measurer = Measurer(servers, workload)
        measurer.warm_up(None)
        pairs = list(measurer.pairs(workload.items, Speculation(DraftSimple(draft_max=4)), 2))
    assert [pair.item.id for pair in pairs] == order
    assert not total_counters([pair.baseline for pair in pairs]).n_drafted
    assert all(pair.speculative.counters.n_drafted for pair in pairs)
    assert fleet.n_starts == starts


class Recorder(ScriptedMeasurer):
    """Notes what decoded what."""

    def __init__(self, n_beside_off: int | None) -> None:
        super().__init__()
        self.n_beside_off = n_beside_off
        self.order: list[tuple[str, Speculation | None]] = []

    def decode(self, item: WorkItem, speculation: Speculation | None) -> GenerationResult:
        self.order.append((item.id, speculation))
        return super().decode(item, speculation)


def legs(sizes: Sequence[int]) -> Iterator[tuple[WorkItem, ...]]:
    every, start = items(sum(sizes)), 0
    for size in sizes:
        yield every[start : start + size]
        start += size


@given(
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=4),
    interrupt_at=st.integers(1, 80),
)
def test_a_race_apart_pairs_every_prompt_with_its_own_run_of_off(
    sizes: list[int], interrupt_at: int
) -> None:
    measurer, told = Recorder(0), list[Pair]()
    measurer.interrupt_at = interrupt_at
    runs = RaceRuns(
        cast("Measurer", measurer), ARM, off=OFF, load=lambda _arm: None, on_pair=told.append
    )
    done = 0
    try:
        for leg in legs(sizes):
            runs.measure(leg)
            done += len(leg)
    except KeyboardInterrupt:
        pass
    pairs = runs.pairs
    assert [pair.item.id for pair in pairs] == [f"p{i}" for i in range(len(pairs))]
    assert done <= len(pairs) <= runs.n_items
    assert all(pair.speculative.counters.n_drafted for pair in pairs)
    assert len(told) == len(pairs)
    changes = sum(one[1] != two[1] for one, two in itertools.pairwise(measurer.order))
    assert changes <= len(sizes), "the next leg begins with what is loaded"


MACHINE = Machine(cpu="c", n_cores=2, memory_bytes=1, gpus=())


def test_studies_of_other_binaries_are_others() -> None:
    def digest(**server: str) -> str:
        spec = served_spec(
            machine=MACHINE,
            server=server,
            off=OFF_SETUP,
            target=ServedModel(options=TARGET, file_bytes=7),
            drafts={},
            workload=Workload(items=items(2), n_predict=4, sampling=SamplingConfig(temp=0.0)),
        )
        assert spec["backend"] == "server"
        return spec_digest(spec)

    one = {"path": "/a/llama-server", "version": "1", "commit": "c"}
    found = [digest(**one), *(digest(**{**one, name: "other"}) for name in one)]
    assert len(set(found)) == len(found)
    assert digest(**one) == found[0]
