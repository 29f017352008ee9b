"""The confirmed setting's gain by category."""

import pytest

from spectui.engine.events import GenerationResult
from spectui.measure.measurer import Pair
from spectui.measure.workload import WorkItem
from spectui.tune.evidence import by_category
from tests.support.search import result


def pair(name: str, category: str, off: GenerationResult, on: GenerationResult) -> Pair:
    return Pair(
        item=WorkItem(id=name, category=category, tokens=(1, 2)), baseline=off, speculative=on
    )


def test_each_category_has_its_own_speedup_and_acceptance() -> None:
    code = pair("a", "code", result(10.0), result(20.0, drafted=8))
    again = pair("a", "code", result(10.0), result(30.0, drafted=8))
    # The target decodes a part of what speculation does.
    prose = pair("b", "prose", result(10.0, n_tokens=9), result(8.0))
    ended = pair("c", "none", result(10.0, n_tokens=1), result(10.0, n_tokens=1))
    first, second, third = by_category((code, prose, again, ended))
    assert (first.category, first.n_prompts, first.acceptance_rate) == ("code", 1, 0.5)
    assert first.speedup == pytest.approx(2 / (1 / 2 + 1 / 3))
    assert second.speedup == pytest.approx(0.8)
    assert second.acceptance_rate is None
    assert third.document()["speedup_reason"] == "nothing was decoded"
