"""What recorded answers say of experts, in words, and when they are read."""

from dataclasses import replace
from typing import cast

import pytest

from spectui.documents import Known
from spectui.engine.commands import ReadExperts
from spectui.engine.driver import Engine
from spectui.errors import CancelledError, DoesNotFitError, SpectuiError
from spectui.measure.measurer import Measurer
from spectui.measure.workload import Workload
from spectui.options.setup import SamplingConfig
from spectui.trace.routing import BatchExperts, CacheShare, ExpertUse, LayerRouting, Routing
from spectui.tune.candidates import Loading
from spectui.tune.explain import batch_sentence, cache_sentence
from spectui.tune.forecaster import Forecaster
from spectui.tune.pace import Pace
from spectui.tune.search import read_experts
from spectui.tune.setup import Limits, SearchSetup
from spectui.tune.studies.study import TuningStudy
from tests.support.search import NoModels, ScriptedMeasurer, items

USE = ExpertUse(
    n_answers=24,
    n_tokens=1000,
    n_experts=128,
    ram_bytes=16 << 30,
    batches=(
        BatchExperts(n_tokens=1, measured=8, random=8),
        BatchExperts(n_tokens=4, measured=18.3, random=29.1),
    ),
    caches=tuple(
        CacheShare(size_mib=size_mib, hit_rate=rate, upload_bytes=upload)
        for size_mib, rate, upload in (
            *((512, 0, 1e9), (1024, 0.4, 6e8), (2048, 0.61, 4e8), (4096, 0.83, 1.7e8)),
            (8192, 0.95, 5e7),
        )
    ),
)


def test_two_sizes_and_a_batch_are_told_in_words() -> None:
    assert cache_sentence(Known(USE)) == (
        "On a GPU, --moe-cache-mib 1024 would hold 40 % of the experts that a token reads from "
        "RAM, 4096 83 %; the others, 600 MB and 170 MB for each token, would be copied there (by "
        "24 recorded answers)."
    )
    assert batch_sentence(Known(USE), 4.2) == (
        "4 consecutive tokens read 18.3 of a layer's 128 experts, 29.1 if they were routed at "
        "random; one reads 8."
    )
    # No draft is no batch, and answers of one token tell nothing of batches.
    assert str(batch_sentence(Known(USE), 1)).startswith("4 consecutive tokens read")
    assert batch_sentence(Known(replace(USE, batches=USE.batches[:1])), 4) is None
    unknown = Known[ExpertUse](None, "the target has no experts")
    assert cache_sentence(unknown) is batch_sentence(unknown, 4) is None


class Recorded:
    """A forecaster with answers, whose engine tells of one layer with as many experts as tokens."""

    def __init__(self, n_answers: int, error: SpectuiError | None = None) -> None:
        self.texts = (((1, 2), ()), *(((1,) * 10, (2,) * 400) for _ in range(n_answers)))
        self.error = error
        self.read: list[int] = []
        # Loads nothing, and is its own engine.
        self.loader = self.engine = self

    def read_experts(self, command: ReadExperts) -> Routing:
        if self.error is not None:
            raise self.error
        lengths = tuple(len(answer) for _prompt, answer in command.texts)
        self.read.extend(lengths)
        layer = LayerRouting(
            layer=0, expert_bytes=1, in_ram=True, n_used=1, experts=bytes(2 * sum(lengths))
        )
        return Routing(n_experts=4, lengths=lengths, layers=(layer,))


def run(recorded: Recorded | None, budget_s: float | None = None) -> Known[ExpertUse]:
    workload = Workload(items=items(8), n_predict=400, sampling=SamplingConfig())
    measurer = ScriptedMeasurer()
    measurer.prompt_token_s = 0.01
    setup = SearchSetup(
        engine=cast("Engine", NoModels()),
        study=cast("TuningStudy", None),
        workload=workload,
        measurer=cast("Measurer", measurer),
        loader=cast("Loading", None),
        limits=Limits(time_budget_s=budget_s),
        on_event=lambda _event: None,
    )
    return read_experts(Pace(setup, lambda: 0.0), cast("Forecaster | None", recorded))


def test_answers_are_read_as_far_as_time_allows() -> None:
    for budget_s, n_read in ((None, 3), (100.0, 3), (20.0, 2), (9.0, 1), (8.0, 0)):
        recorded = Recorded(8)
        found = run(recorded, budget_s)
        assert recorded.read == [400] * n_read
        assert (found.value is None) == (n_read == 0)
        assert n_read or "time budget" in str(found.reason)


def test_why_nothing_is_known_of_experts() -> None:
    assert "recorded" in str(run(None).reason)
    assert run(Recorded(2, DoesNotFitError("CUDA0 has no room"))).reason == "CUDA0 has no room"
    with pytest.raises(CancelledError):
        run(Recorded(2, CancelledError("stopped")))
