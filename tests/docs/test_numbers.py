"""Numbers in README and ``docs/`` are those that were measured, or are computed as they say."""

import json
import re
from typing import Any

from benchmarks.page import ANSWERS, ESTIMATOR_SINCE
from spectui.trace.terms import expected_tokens, ideal_speedup
from tests.support.markdown import DOCS, ROOT, Document

_README = (ROOT / "README.md").read_text("utf-8")


def _result(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        (ROOT / f"benchmarks/results/{name}.json").read_text("utf-8")
    )
    return found


def _answers(preset: str) -> str:
    """The answers of two searches, in words."""
    runs = [run for run in _result("demo_verdicts")["runs"] if run["preset"] == preset]
    return ", ".join(ANSWERS[run["verdict"]["answer"]] for run in runs)


def test_the_readme_tells_what_was_measured() -> None:
    stable, regret = _result("tuning_stability_demo"), _result("tuning_regret_dense")
    together, best = regret["speedups_together"], regret["of_the_best"]["spectui"]
    ours = together["spectui"] / together["defaults"]
    kept = _result("verify_promise")["pairs"]["dense"]["delivered_over_promised"]
    same = _result("identical_pair")
    for name, told in (
        (
            "tuning_stability_demo",
            f'{stable["n_verdicts_to_use_it"]} of {stable["n_runs"]} say "use it"',
        ),
        ("demo_verdicts", f"dense: {_answers('demo')}; experts: {_answers('demo-moe')}"),
        (
            "tuning_regret_dense",
            f"{best:.2f} of the grid's best; {ours:.2f} of the server's defaults",
        ),
        ("verify_promise", f"{kept['estimate']:.3f} ({kept['low']:.3f} to {kept['high']:.3f})"),
        ("identical_pair", f"{same['n_use']} of {same['n_runs']}"),
    ):
        # Marked where it is not of the present estimator.
        date = _result(name)["date"]
        assert f"| {told} | {date}{' ¹' * (date < ESTIMATOR_SINCE)} |" in _README


def test_the_examples_of_an_answer_were_one() -> None:
    runs = _result("demo_verdicts")["runs"]
    page = (DOCS / "quick-start.md").read_text("utf-8")
    assert any(run["verdict"]["reason"] in page for run in runs)
    shown = _README.partition("<!-- answer -->\n```text\n")[2].partition("```")[0].split()
    answers = [line for run in runs for line in run["answer"] if not line.startswith("note:")]
    assert shown
    assert " ".join(shown) in " ".join(" ".join(answers).split())


def test_the_verdict_is_as_often_right_as_was_simulated() -> None:
    found = _result("race_coverage")
    cases = [case for case in found["settings"] if case["coverage"] is not None]
    timed = [case for case in cases if case["judged_on"] == "unseen"]
    recorded = [case for case in cases if case["judged_on"] != "unseen"]
    page = (DOCS / "verdict.md").read_text("utf-8")
    rates = [found["mean_coverage"]]
    rates += [min(case["coverage"] for case in some) for some in (recorded, timed)]
    rates += [max(case["wrong_recommendations"] for case in some) for some in (recorded, timed)]
    told = page.partition("**How often it is right.**")[2].partition("([benchmarks]")[0]
    named = re.findall(r"(\d+\.\d) %", told)
    assert named == [f"{100 * rate:.1f}" for rate in rates]


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
