"""A wall clock that is set while a study is worked on."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Self

import pytest

from spectui.tune.studies.listing import find_study, list_studies
from spectui.tune.trials import TrialState
from tests.support.search import ScriptedMeasurer, open_study, search

pytestmark = pytest.mark.slow

_DAY_S = 86_400.0


class Wandering(datetime):
    """A wall clock that is set a day forward, and two days back, whenever it is looked at."""

    n_looked = 0

    @classmethod
    def now(cls, tz: object = None) -> Self:
        cls.n_looked += 1
        jump = timedelta(days=1 if cls.n_looked % 2 else -1)
        return cls.fromtimestamp(datetime.now(UTC).timestamp() + jump.total_seconds(), tz)  # type: ignore[arg-type] # as ``datetime`` takes it


def test_a_wandering_clock_costs_no_trial_and_no_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("optuna.storages._rdb.storage.datetime", Wandering)
    monkeypatch.setattr("time.time", lambda: Wandering.now().timestamp())
    with open_study(tmp_path) as study:
        result = search(study, ScriptedMeasurer(), n_trials=6, time_budget_s=_DAY_S / 24).run()
    assert (result.interrupted, result.error) == (False, None)
    assert result.took_s < _DAY_S / 24
    assert result.cut_trials is None
    assert [one.state for one in result.trials] == [TrialState.COMPLETE] * 6
    assert Wandering.n_looked >= 6
    url = f"sqlite:///{tmp_path / 'studies.sqlite3'}"
    assert find_study(list_studies(url), "s").problem is None
