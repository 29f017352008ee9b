"""Several searches on one study of a database, one of which is killed."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import optuna
import pytest

from spectui.errors import BadInputError, UsageError
from spectui.measure.arm import Arm
from spectui.options.speculation import Speculation
from spectui.tune.progress import Phase, PhaseStarted, TrialFinished, TuneEvent
from spectui.tune.studies.listing import delete_studies, list_studies, machines_of
from spectui.tune.studies.storage import close_storage, open_storage
from spectui.tune.studies.study import StudyOptions, TuningStudy
from spectui.tune.trials import TrialRecord, TrialState
from tests.support.postgres import Postgres, needs_postgres, postgres
from tests.support.search import SPACE, SPEC, ScriptedMeasurer, known, search

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def database() -> Iterator[Postgres]:
    with postgres() as server:
        # Who is late in making the tables would leave a connection behind.
        close_storage(open_storage(server.url))
        yield server


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Heartbeats each second; a busy machine may miss some, and a trial without eight is left."""
    monkeypatch.setattr("spectui.tune.studies.storage._HEARTBEAT_S", 1)
    monkeypatch.setattr("spectui.tune.studies.storage._STALE_S", 8)


def open_study(url: str, name: str) -> TuningStudy:
    return TuningStudy(name, StudyOptions(storage=url), spec=SPEC, space=SPACE)


def measured(proposal: TrialRecord) -> TrialRecord:
    return TrialRecord(
        number=proposal.number,
        state=TrialState.COMPLETE,
        arm=proposal.arm,
        speedup=1.0,
    )


class Unhurried(ScriptedMeasurer):
    """Takes its time before every trial."""

    def warm_up(self, speculation: Speculation | None) -> None:
        time.sleep(0.1)
        super().warm_up(speculation)


def searched(url: str, name: str) -> tuple[set[int], set[int]]:
    """Search, beside others; numbers of the own trials, and of all that this search knows."""
    own: set[int] = set()
    known: set[int] = set()

    def on_event(event: TuneEvent) -> None:
        if isinstance(event, PhaseStarted) and event.phase is Phase.SEARCHING:
            own.add(int(event.text.split()[1].removesuffix(":")))
        if isinstance(event, TrialFinished):
            known.add(event.record.number)

    with open_study(url, name) as study:
        result = search(study, Unhurried(), on_event, n_trials=12).run()
        assert result.error is None
        assert result.verdict.use_speculation
    return own, known


@needs_postgres
@pytest.mark.ci
def test_two_searches_measure_their_own_trials_and_know_of_all(database: Postgres) -> None:
    with ThreadPoolExecutor(2) as threads:
        searches = [threads.submit(searched, database.url, "shared") for _ in range(2)]
        (first, known), (second, also_known) = (one.result() for one in searches)
    assert not first & second
    assert min(len(first), len(second)) > 2
    assert 12 <= len(known | also_known) <= 13
    with open_study(database.url, "shared") as study:
        assert {one.number for one in study.records()} == first | second
        assert {one.state for one in study.records()} == {TrialState.COMPLETE}


KILLED = """
import sys
from spectui.tune.studies import storage
storage._HEARTBEAT_S, storage._STALE_S = 1, 8
from tests.tune.test_many_machines import open_study
study = open_study(storage.address_of(None), "killed")
study.follow(study.space.defaults)
print(study.ask().number, study.ask().number, flush=True)
sys.stdin.read()
"""


@needs_postgres
@pytest.mark.ci
@pytest.mark.usefixtures("impatient")
def test_a_trial_of_a_killed_search_is_queued_again(database: Postgres) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", KILLED],
        env={**os.environ, "SPECTUI_STORAGE": database.url},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        left = [int(word) for word in known(process.stdout).readline().split()]
        with open_study(database.url, "killed") as study:
            lost = {one.arm for one in study.records()}
            own = study.ask()
            assert own.arm not in lost
            process.kill()
            process.communicate()
            found: set[Arm] = set()
            until_s = time.monotonic() + 60
            while not lost <= found and time.monotonic() < until_s:
                again = study.ask()
                found.add(again.arm)
                study.interrupt(again)
            assert lost <= found
            # The heartbeat of the trial that is measured here has kept it.
            assert study.finish(measured(own))
            states = {one.number: one.state for one in study.records()}
    assert [states[number] for number in left] == [TrialState.INTERRUPTED] * 2
    assert states[own.number] is TrialState.COMPLETE
    delete_studies(database.url, ["killed"])


@needs_postgres
@pytest.mark.ci
def test_a_result_that_comes_too_late_is_dropped(database: Postgres) -> None:
    with open_study(database.url, "late") as slept:
        late = slept.ask()
        trial_id, _heartbeat = slept._held[late.number]
        # As another machine does where this one slept.
        storage = open_storage(database.url)
        storage.set_trial_state_values(trial_id, optuna.trial.TrialState.FAIL)
        close_storage(storage)
        assert not slept.finish(measured(late))
        assert slept.finish(measured(slept.ask()))


@needs_postgres
@pytest.mark.ci
def test_a_database_that_restarts_is_waited_for(database: Postgres) -> None:
    with open_study(database.url, "restarts") as study:
        asked = study.ask()
        database.stop()
        with ThreadPoolExecutor(1) as threads:
            threads.submit(database.start)
            assert study.finish(measured(asked))


def machine(url: str, **changed: object) -> TuningStudy:
    spec = {**SPEC, "context": {"ctx_size": 256, "threads": 1}, **changed}
    return TuningStudy("kinds", StudyOptions(storage=url), spec=spec, space=SPACE)


@needs_postgres
@pytest.mark.ci
def test_each_kind_of_machine_has_trials_of_its_own(database: Postgres) -> None:
    with machine(database.url) as first:
        first.finish(measured(first.ask()))
    with (
        machine(database.url, machine="other") as other,
        machine(database.url, context={"ctx_size": 256, "threads": 2}) as threads,
        machine(database.url) as again,
    ):
        assert again.name == "kinds"
        assert len(again.records()) == 1
        assert len({other.name, threads.name}) == 2
        for study in (other, threads):
            assert study.name.startswith("kinds@")
            assert study.records() == ()
            assert again.stored.user_attrs["machine"] == study.stored.user_attrs["machine"]
    for changed in ({"context": {"ctx_size": 512}}, {"target": {"file": "other.gguf"}}):
        with pytest.raises(UsageError, match=r"with (other options|another target)"):
            machine(database.url, **changed)
    with machine(database.url, machine="other") as resumed:
        assert resumed.name == other.name
    found = list_studies(database.url)
    for name in ("kinds", other.name):
        assert {one.name for one in machines_of(name, found)} == {
            *("kinds", other.name, threads.name)
        }


@needs_postgres
@pytest.mark.ci
def test_all_machines_read_what_one_has_recorded(database: Postgres) -> None:
    long = os.urandom(4_000_000)
    with machine(database.url) as one, machine(database.url, machine="other") as other:
        for study in (one, other):
            assert [*known(study.recordings).read()] == []
        known(other.recordings).add(b"short", 1)
        known(one.recordings).add(long, 48)
        for study in (one, other):
            assert [*known(study.recordings).read()] == [long, b"short"]
    assert not [one.name for one in list_studies(database.url) if "recordings" in one.name]
    delete_studies(database.url, ["kinds"])
    with machine(database.url) as one:
        assert [*known(one.recordings).read()] == []


def test_a_driver_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spectui.tune.studies.storage.find_spec", lambda _name: None)
    with pytest.raises(BadInputError, match=r"spectui's folder: pip install '\.\[postgresql\]'"):
        open_storage("postgresql://u@localhost/db")
