"""Clocks that are set while a study is worked on, and machines that sleep."""

import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Self

import psutil
import pytest

from spectui.tune.search import Search
from spectui.tune.studies import lease
from spectui.tune.studies.conducting import Offer, Phase
from spectui.tune.studies.lease import RENEW_S, Watch, has_ended, is_here, this_process
from spectui.tune.studies.listing import find_study, is_gone, list_studies
from spectui.tune.trials import TrialState
from spectui.tune.working import Worker
from tests.support.search import ScriptedMeasurer
from tests.support.workers import open_study, setup_of

_DAY_S = 86_400.0


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'studies.sqlite3'}"


@pytest.mark.skipif(sys.platform != "linux", reason="where the start is told by the wall clock")
@pytest.mark.parametrize("jump_s", [_DAY_S, -_DAY_S, 1.0])
def test_a_process_lives_on_whatever_its_machines_clock_is_set_to(
    monkeypatch: pytest.MonkeyPatch, jump_s: float
) -> None:
    own = this_process(isolated=True, worker=True)
    begun = psutil.boot_time()
    monkeypatch.setattr("psutil._pslinux.boot_time", lambda: begun + jump_s)
    assert psutil.Process().create_time() != own["started"]
    assert not has_ended(own)
    assert not Watch().is_gone("trial", own)
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        pass
    assert has_ended({**own, "pid": process.pid})


def test_a_machine_of_the_same_name_is_another_one() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        pass
    own = this_process(isolated=True, worker=True)
    assert is_here(own)
    for one in ({**own, "boot": "other"}, {**own, "host": "elsewhere"}):
        assert not is_here(one)
        assert not has_ended({**one, "pid": process.pid})


def test_a_number_that_another_process_has_by_now_is_a_process_that_has_ended() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        own = {**this_process(isolated=True, worker=True), "pid": process.pid}
        assert is_gone({**own, "started": own["started"] - 100})
        assert not is_gone({**own, "started": lease._started_s(process.pid)})


class Wandering(datetime):
    """A wall clock that is set a day forward, and two days back, whenever it is looked at."""

    n_looked = 0

    @classmethod
    def now(cls, tz: object = None) -> Self:
        cls.n_looked += 1
        jump = timedelta(days=1 if cls.n_looked % 2 else -1)
        return cls.fromtimestamp(datetime.now(UTC).timestamp() + jump.total_seconds(), tz)  # type: ignore[arg-type] # as ``datetime`` takes it


def test_a_wandering_clock_costs_no_trial_and_no_budget(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("optuna.storages._rdb.storage.datetime", Wandering)
    monkeypatch.setattr("time.time", lambda: Wandering.now().timestamp())
    with open_study(url) as study:
        setup = setup_of(study, ScriptedMeasurer(), n_trials=6, time_budget_s=_DAY_S / 24)
        study.begin()
        study.conducting.offer(Offer(phase=Phase.TRIALS, n_trials=6))
        with open_study(url, worker=True) as joined:
            beside = Worker(setup_of(joined, ScriptedMeasurer(), n_trials=3)).run()
            left = joined.ask()
            result = Search(setup, wait=lambda: joined.interrupt(left)).run()
    assert [one.state for one in beside.trials] == [TrialState.COMPLETE] * 3
    assert (result.interrupted, result.error) == (False, None)
    assert result.spent.took_s < _DAY_S / 24
    assert not result.spent.ended_trials
    states = [one.state for one in result.trials if one.number != left.number]
    assert states == [TrialState.COMPLETE] * 6
    assert Wandering.n_looked > 12
    assert find_study(list_studies(url), "s").problem is None


class Clock:
    """Goes on as far as a lease takes to be renewed, whenever it is looked at."""

    now_s = 0.0

    def __call__(self) -> float:
        self.now_s += RENEW_S
        return self.now_s


def test_who_conducted_a_study_before_its_machine_slept_leaves_it_to_who_does_now(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # With parameters an address has no lock of a file, as that of a database.
    url, said = f"{url}?timeout=20", list[str]()
    awake = threading.Event()
    awake.set()
    monkeypatch.setattr("spectui.tune.studies.conducting._PAUSE", awake)
    with open_study(url, say=said.append) as slept:
        slept.conducting._owner["host"] = "laptop"
        slept.stored.set_user_attr("conductor", slept.conducting._owner)
        slept.conducting.offer(Offer(phase=Phase.TRIALS, n_trials=3))
        slept.begin()
        late = slept.ask()
        with open_study(url, say=said.append, watch=Watch(Clock())) as study:
            assert "a minute shows whether it still does" in said[0]
            study.conducting.offer(Offer(phase=Phase.TRIALS, n_trials=4))
            slept.conducting.renew()
            slept.conducting.offer(Offer(phase=Phase.ENDED, n_trials=3))
            assert "another process conducts the study s by now" in said[-1]
            assert study.conducting.offered() == Offer(phase=Phase.TRIALS, n_trials=4)
            study.begin()
            assert study.conducting._conductor() == {**study.conducting._owner}
            assert study.ask().arm == late.arm
        slept.stored.set_user_attr("conductor", {"id": "a third"})
    # The one that slept does not end the one that conducts.
    with closing(sqlite3.connect(url.removeprefix("sqlite:///").partition("?")[0])) as file:
        kept = file.execute("SELECT value_json FROM study_user_attributes WHERE key = 'conductor'")
        assert kept.fetchone() == ('{"id": "a third"}',)


def test_a_sleep_of_the_own_machine_makes_no_lease_of_others_stale() -> None:
    # Some systems' monotonic clock goes on in a sleep: a night of it counts as one look.
    night = iter([0.0, 10.0, 30_000.0, 30_001.0])
    watch = Watch(lambda: next(night))
    owner = {**this_process(isolated=True, worker=True), "host": "elsewhere"}
    assert not any(watch.is_gone("trial", owner) for _ in range(4))


def test_a_worker_ends_by_its_own_budget_whatever_the_wall_clock_says(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.time", lambda: Wandering.now().timestamp())
    ticks = iter(range(0, 10_000, 50))
    with open_study(url) as study:
        study.begin()
        study.conducting.offer(Offer(phase=Phase.TRIALS, n_trials=50))
        with open_study(url, worker=True) as joined:
            setup = setup_of(joined, ScriptedMeasurer(), n_trials=50, time_budget_s=300.0)
            result = Worker(setup, clock=lambda: float(next(ticks))).run()
    assert 1 <= len(result.trials) < 7
    assert result.spent.ended_trials
