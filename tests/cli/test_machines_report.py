"""The table of machines, where names and settings are long."""

import pytest

from spectui.cli.machines_report import machines_table
from spectui.measure.arm import Arm
from spectui.options.drafters import DraftSimple, NgramSimple
from spectui.options.speculation import Speculation
from spectui.tune.studies.machines import MachineResult


@pytest.mark.parametrize("width", [80, 100])
def test_a_long_setting_leaves_the_names(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    speculation = Speculation(DraftSimple(), (NgramSimple(),))
    best = Arm(draft="a-draft-with-a-long-name", speculation=speculation)
    rows = [
        MachineResult(
            study="a-study", host=host, n_trials=2, off_tokens_per_s=6.1, best=best, speedup=None
        )
        for host in ("alpha", "beta")
    ]
    table = machines_table(rows)
    assert all(len(line) <= width for line in table.splitlines())
    for word in ("a-study", "alpha", "beta", "machine"):
        assert word in table
