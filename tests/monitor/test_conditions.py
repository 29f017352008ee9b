"""Under which conditions a search measured."""

from types import SimpleNamespace

import psutil
import pytest

from spectui.measure.arm import OFF
from spectui.monitor.host import hottest_c
from spectui.monitor.readings import Reading
from spectui.tune.conditions import conditions
from spectui.tune.trials import TrialRecord, TrialState
from tests.support.machine import QUIET

COOL = Reading(50.0)


def trial(anchor: float | None, *, noisy: bool = False) -> TrialRecord:
    return TrialRecord(
        number=0, state=TrialState.COMPLETE, arm=OFF, anchor_tokens_per_s=anchor, noisy=noisy
    )


def test_drift_and_heat_are_told() -> None:
    found = conditions([trial(10.0), trial(10.5), trial(None)], COOL, COOL, QUIET)
    assert found.drift == pytest.approx(0.05)
    assert (found.n_noisy, found.notes) == (0, ())
    found = conditions([trial(10.0), trial(13.0, noisy=True)], COOL, Reading(91.2), QUIET)
    assert found.n_noisy == 1
    moved, hot = found.notes
    assert "moved by 30 %" in moved
    assert "91 °C" in hot
    assert conditions([trial(10.0)], COOL, COOL, QUIET).drift is None


def test_the_hottest_sensor_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    groups = {
        "coretemp": [SimpleNamespace(current=61.0), SimpleNamespace(current=72.5)],
        "nvme": [SimpleNamespace(current=40.0)],
    }
    for told, expected in (
        (groups, Reading(72.5)),
        ({}, Reading(None, "the system tells no temperature")),
    ):
        monkeypatch.setattr(psutil, "sensors_temperatures", lambda told=told: told)
        assert hottest_c() == expected
