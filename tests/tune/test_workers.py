"""Several processes on one study: leases, joining, and storages that are away."""

import os
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import optuna
import pytest

from spectui.errors import BadInputError, UsageError
from spectui.measure.arm import OFF, Arm
from spectui.tune.search import Search
from spectui.tune.studies.conducting import Offer, Phase
from spectui.tune.studies.lease import RENEW_S, STALE_S, Watch, has_ended, this_process
from spectui.tune.studies.listing import StudyState, list_studies
from spectui.tune.studies.machines import compare_machines
from spectui.tune.studies.sampling import Sampler
from spectui.tune.studies.storage import close_storage, open_storage
from spectui.tune.studies.study import StudyOptions, TuningStudy
from spectui.tune.trials import TrialRecord, TrialState, n_measured
from spectui.tune.working import Worker
from tests.support.postgres import PASSWORD, Postgres, needs_postgres, postgres
from tests.support.search import ScriptedMeasurer
from tests.support.workers import SPACE, open_study, setup_of

pytestmark = pytest.mark.slow


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'studies.sqlite3'}"


@pytest.fixture(scope="module")
def database() -> Iterator[Postgres]:
    with postgres() as server:
        yield server


class Clock:
    """Goes on as far as a lease takes to be renewed, whenever it is looked at."""

    now_s = 0.0

    def __call__(self) -> float:
        self.now_s += RENEW_S
        return self.now_s


def looks_until_gone(watch: Watch, owner: dict[str, object] | None) -> int:
    return next(n for n in range(100) if watch.is_gone("trial", owner))


def elsewhere() -> dict[str, object]:
    return {**this_process(isolated=True, worker=True), "host": "elsewhere"}


def test_a_lease_is_stale_when_its_counter_stands_still_for_a_minute() -> None:
    watch, owner = Watch(Clock()), elsewhere()
    assert looks_until_gone(watch, owner) == STALE_S / RENEW_S
    assert not watch.is_gone("trial", {**owner, "beat": 1})
    assert looks_until_gone(watch, None) > 1


def test_time_in_which_nobody_looked_does_not_count() -> None:
    clock = iter([0.0, 10_000.0, 10_001.0, -5_000.0])
    watch, owner = Watch(lambda: next(clock)), elsewhere()
    assert [watch.is_gone("trial", owner) for _ in range(4)] == [False] * 4


def test_a_process_of_this_machine_that_has_ended_is_gone_at_once() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        pass
    own = this_process(isolated=True, worker=False)
    assert not has_ended(own)
    assert has_ended({**own, "pid": process.pid})
    # Another process with the same number.
    assert has_ended({**own, "started": 1.0})
    assert not has_ended({**own, "pid": process.pid, "host": "elsewhere"})


def complete(study: TuningStudy) -> Counter[int]:
    return Counter(r.number for r in study.records() if r.state is TrialState.COMPLETE)


def test_a_trial_of_a_holder_that_is_gone_is_taken_over_and_its_late_result_dropped(
    url: str,
) -> None:
    said: list[str] = []
    with (
        open_study(url) as study,
        open_study(url, worker=True) as slow,
        open_study(url, worker=True, say=said.append, watch=Watch(Clock())) as other,
    ):
        study.begin()
        study.enqueue(study.space.defaults[:1])
        assert slow.ask().arm == OFF
        late = slow.ask()
        for _ in range(int(STALE_S / RENEW_S) + 1):
            other.n_elsewhere()
        assert len(said) == 2
        assert "is queued again" in said[0]
        again = [other.ask() for _ in range(2)]
        assert {one.arm for one in again} == {OFF, late.arm}
        assert not {one.number for one in again} & {0, late.number}
        assert not slow.finish(record(late.number, late.arm))
        assert other.finish(record(again[1].number, again[1].arm))
        assert list(complete(study)) == [again[1].number]


def record(number: int, arm: Arm) -> TrialRecord:
    return TrialRecord(number=number, state=TrialState.COMPLETE, arm=arm, anchor_tokens_per_s=1.0)


def test_a_result_that_was_kept_before_the_connection_ended_counts(url: str) -> None:
    with open_study(url) as study:
        proposal = study.ask()
        trial = study._leases.held[proposal.number]
        done = record(proposal.number, proposal.arm)
        assert study.finish(done)
        study._leases.held[proposal.number] = trial
        assert study.finish(done)


def test_a_worker_measures_off_first_and_ends_with_the_study(url: str) -> None:
    with open_study(url) as study:
        search = setup_of(study, ScriptedMeasurer(), n_trials=9)
        study.begin()
        study.follow(study.space.defaults)
        study.conducting.offer(Offer(phase=Phase.TRIALS, n_trials=6))

        def wait() -> None:
            study.conducting.offer(Offer(phase=Phase.ENDED, n_trials=6))

        with open_study(url, worker=True) as joined:
            setup = setup_of(joined, ScriptedMeasurer(), n_trials=100)
            result = Worker(setup, wait=wait).run()
        assert result.error is None
        assert result.trials[0].arm == OFF
        assert n_measured(result.trials) == 6
        found = Search(search).run()
    assert found.verdict.use_speculation
    assert len(found.trials) == 9
    (row,) = compare_machines(url, "s")
    assert (row.host, row.n_trials) == (os.uname().nodename, 9)
    assert row.best is not None


def test_a_worker_waits_while_there_is_nothing_to_ask_for(url: str) -> None:
    with open_study(url) as study:
        study.begin()
        waits: list[int] = []

        def wait() -> None:
            waits.append(1)
            if len(waits) == 3:
                study.conducting.offer(Offer(phase=Phase.TRIALS, n_trials=1))

        with open_study(url, worker=True) as joined:
            setup = setup_of(joined, ScriptedMeasurer(), n_trials=1)
            result = Worker(setup, wait=wait).run()
    assert (len(waits), n_measured(result.trials)) == (3, 1)


def test_an_interrupted_worker_gives_its_trial_back(url: str) -> None:
    with open_study(url) as study:
        study.begin()
        study.conducting.offer(Offer(phase=Phase.TRIALS, n_trials=5))
        measurer = ScriptedMeasurer()
        measurer.interrupt_at = 3
        with open_study(url, worker=True) as joined:
            result = Worker(setup_of(joined, measurer, n_trials=5)).run()
        assert result.interrupted
        assert study.n_elsewhere() == 0
        assert [one.state for one in study.records()] == [TrialState.INTERRUPTED]


def test_a_worker_ends_where_nobody_conducts_the_study_any_more(url: str) -> None:
    with open_study(url) as study:
        study.begin()
        study.conducting.offer(Offer(phase=Phase.TRIALS, n_trials=5))
        ended = {**this_process(isolated=True, worker=False), "started": 1.0}
        study.stored.set_user_attr("conductor", ended)
        with open_study(url, worker=True) as joined:
            assert joined.conducting.offered().phase is Phase.ENDED


def group_of(url: str, machine: str, *, group: str | None) -> TuningStudy:
    return TuningStudy(
        "s",
        StudyOptions(storage=url, sampler=Sampler.RANDOM, joins=True, group=group),
        spec={"machine": machine},
        space=SPACE,
    )


def test_other_hardware_is_refused_or_kept_beside(url: str) -> None:
    with open_study(url) as study:
        Search(setup_of(study, ScriptedMeasurer(), n_trials=4)).run()
        tried = {one.arm for one in study.records()}
    with pytest.raises(UsageError, match=r"made on another machine.*; --group NAME keeps"):
        group_of(url, "other", group=None)
    with group_of(url, "other", group="laptop") as beside:
        assert beside.name == "s/laptop"
        result = Worker(setup_of(beside, ScriptedMeasurer(gain=0.9), n_trials=100)).run()
    assert {one.arm for one in result.trials} == tried
    rows = compare_machines(url, "s")
    assert [(row.study, row.n_trials) for row in rows] == [("s", 4), ("s/laptop", 4)]
    gains = [row.speedup.estimate for row in rows if row.speedup is not None]
    assert gains[0] > 1 > gains[1]
    states = {entry.name: entry.state(url) for entry in list_studies(url)}
    assert states["s/laptop"] is StudyState.GROUP


def test_a_worker_of_other_models_is_refused(url: str) -> None:
    with open_study(url):
        pass
    for group in (None, "laptop"):
        with pytest.raises(UsageError, match="with another target"):
            TuningStudy(
                "s",
                StudyOptions(storage=url, sampler=Sampler.RANDOM, joins=True, group=group),
                spec={"machine": "m", "target": "other"},
                space=SPACE,
            )


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("grpc://example.org:13000", "make a tunnel .ssh -N -L 13000:localhost:13000 example.org"),
        ("grpc://localhost", "grpc://HOST:PORT"),
        ("grpc://user:geheim@localhost:1", r"grpc://user:\*\*\*@localhost:1"),
    ],
)
def test_a_proxy_is_spoken_to_on_this_machine_alone(address: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        open_storage(address)


@pytest.mark.parametrize(
    ("address", "extra"),
    [("postgresql://u@localhost/db", "postgresql"), ("grpc://localhost:1", "grpc")],
)
def test_a_missing_driver_is_named_with_its_extra(
    monkeypatch: pytest.MonkeyPatch, address: str, extra: str
) -> None:
    monkeypatch.setattr("spectui.tune.studies.storage.find_spec", lambda _name: None)
    with pytest.raises(BadInputError, match=rf"pip install '\.\[{extra}\]'"):
        open_storage(address)


def programs(
    url: str, name: str, kinds: dict[str, int], seconds: float = 0.2
) -> dict[str, "subprocess.Popen[str]"]:
    return {
        f"{kind}{n}": subprocess.Popen(
            [
                *(sys.executable, "-m", "tests.support.workers"),
                *(name, str(seconds), kind, "12" if kind == "tune" else "100"),
            ],
            env={**os.environ, "SPECTUI_STORAGE": url},
            stdout=subprocess.PIPE,
            text=True,
        )
        for kind, count in kinds.items()
        for n in range(count)
    }


def await_begin(url: str, name: str, n_begun: int = 1) -> None:
    """Wait until so many trials have begun."""
    storage = open_storage(url)
    try:
        while True:
            if name in optuna.get_all_study_names(storage):
                study = optuna.load_study(study_name=name, storage=storage)
                begun = [one for one in study.get_trials(deepcopy=False) if one.user_attrs]
                if sum("record" in one.user_attrs for one in begun) >= n_begun:
                    return
            time.sleep(0.05)
    finally:
        close_storage(storage)


def ended(program: "subprocess.Popen[str]") -> list[str]:
    lines = program.communicate()[0].splitlines()
    assert program.returncode == 0, lines
    return lines


@needs_postgres
@pytest.mark.ci
def test_workers_share_a_study_on_postgresql_that_restarts(database: Postgres) -> None:
    url = database.url
    tune = programs(url, "shared", {"tune": 1})["tune0"]
    await_begin(url, "shared")
    with pytest.raises(UsageError, match=rf"process {tune.pid} on .* is working on the study"):
        open_study(url, "shared")
    workers = programs(url, "shared", {"worker": 2})
    await_begin(url, "shared", 4)
    killed = workers.pop("worker0")
    killed.kill()
    killed.communicate()
    database.stop()
    database.start()
    workers |= {"again": programs(url, "shared", {"worker": 1})["worker0"]}
    said = [line for one in (tune, *workers.values()) for line in ended(one)]
    with open_study(url, "shared") as study:
        counted = complete(study)
        assert all(one.state is not TrialState.RUNNING for one in study.records())
    assert sum(counted.values()) == len(counted) >= 12
    own = Counter(int(line.split()[1]) for line in said if line.startswith("own"))
    assert set(own) <= set(counted)
    assert set(own.values()) == {1}
    assert not any(PASSWORD in line for line in said)


PROXY = """
import sys, warnings
warnings.simplefilter("ignore")
import optuna
from spectui.tune.studies.storage import open_storage, usual_storage
storage = open_storage(usual_storage())
optuna.storages.run_grpc_proxy_server(storage, host="localhost", port=int(sys.argv[1]))
"""


@needs_postgres
@pytest.mark.ci
def test_workers_share_a_study_through_optunas_proxy(database: Postgres) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"grpc://localhost:{port}"
    proxy = subprocess.Popen(
        [sys.executable, "-c", PROXY, str(port)],
        env={**os.environ, "SPECTUI_STORAGE": database.url},
    )
    try:
        # It waits for the server to be ready.
        close_storage(open_storage(url))
        tune = programs(url, "proxied", {"tune": 1})["tune0"]
        await_begin(url, "proxied")
        worker = programs(url, "proxied", {"worker": 1})["worker0"]
        said = [line for one in (tune, worker) for line in ended(one)]
    finally:
        proxy.kill()
        proxy.wait()
    own = Counter(line for line in said if line.startswith("own"))
    assert own.total() == len(own) >= 12
