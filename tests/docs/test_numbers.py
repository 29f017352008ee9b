"""Numbers in README and ``docs/`` are those that were measured, or are computed as they say."""

import json
import re
from typing import Any

import pytest

from benchmarks.page import ESTIMATOR_SINCE
from spectui.speculative.expectation import expected_tokens, ideal_speedup
from tests.support.markdown import DOCS, ROOT, Document

_README = (ROOT / "README.md").read_text("utf-8")


def _result(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        (ROOT / f"benchmarks/results/{name}.json").read_text("utf-8")
    )
    return found


def _row(name: str, result: str) -> tuple[str, str]:
    """A row of the table, as it ends; marked where it is not of the present estimator."""
    date = _result(name)["date"]
    return name, f"| {result} | {date}{' ¹' * (date < ESTIMATOR_SINCE)} |"


def _stability() -> tuple[str, str]:
    found = _result("tuning_stability_demo")
    told = f'{found["n_verdicts_to_use_it"]} of {found["n_runs"]} say "use it"'
    return _row("tuning_stability_demo", told)


def _moe() -> tuple[str, str]:
    runs = [run for run in _result("demo_verdicts")["runs"] if run["preset"] == "demo-moe"]
    gains = [f"−{100 * (1 - run['best']['speedup']):.0f} %" for run in runs]
    return _row("demo_verdicts", f'"turn it off": {" and ".join(gains)}')


def _regret() -> tuple[str, str]:
    found = _result("tuning_regret_dense")
    together = found["speedups_together"]
    best, ours = found["of_the_best"]["spectui"], together["spectui"] / together["defaults"]
    told = f"{best:.2f} of the grid's best; {ours:.2f} of the server's defaults"
    return _row("tuning_regret_dense", told)


def _promise() -> tuple[str, str]:
    found = _result("verify_promise")["pairs"]["dense"]["delivered_over_promised"]
    told = f"{found['estimate']:.3f} ({found['low']:.3f} to {found['high']:.3f})"
    return _row("verify_promise", told)


def _identical() -> tuple[str, str]:
    found = _result("identical_pair")
    return _row("identical_pair", f"{found['n_use']} of {found['n_runs']}")


@pytest.mark.parametrize(
    "row", [_stability(), _moe(), _regret(), _promise(), _identical()], ids=lambda row: row[0]
)
def test_the_readme_tells_what_was_measured(row: tuple[str, str]) -> None:
    assert row[1] in _README


def test_the_example_of_a_verdict_was_one() -> None:
    reasons = [run["verdict"]["reason"] for run in _result("demo_verdicts")["runs"]]
    page = (DOCS / "quick-start.md").read_text("utf-8")
    assert any(reason in page for reason in reasons)
    assert any('"worth +15 % ± 5"' in _README and "worth +15 % ± 5" in one for one in reasons)


_ROW = re.compile(r"^\| (\d+) \| ([\d. |]+) \|$", re.MULTILINE)


def test_the_worked_example_is_computed() -> None:
    """A 30B-A3B target: 8 of 128 experts, 18.3 ms of experts and 1.9 ms of the rest."""
    experts_ms, rest_ms, draft_ms = 1.1 / 60 * 1e3, 0.7 / 360 * 1e3, 0.64 / 360 * 1e3
    token_ms = experts_ms + rest_ms
    rows = _ROW.findall(Document(DOCS / "does-it-pay.md").prose)
    assert len(rows) == 3
    for draft_max, told in rows:
        n = int(draft_max)
        times = (1 - (1 - 8 / 128) ** (n + 1)) / (8 / 128)
        computed = [expected_tokens(0.8, n)]
        for factor in (times, (1 + times) / 2, 1.0):
            verify = 1.0 if factor == 1 else (experts_ms * factor + rest_ms) / token_ms
            computed += [verify, ideal_speedup(0.8, n, draft_ms / token_ms, verify)]
        assert [float(part) for part in told.split(" | ")] == [round(one, 2) for one in computed]
