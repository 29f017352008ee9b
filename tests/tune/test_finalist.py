"""The setting that is raced."""

import math
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pytest

from spectui.measure.arm import OFF, Arm
from spectui.measure.measurer import Measurer
from spectui.measure.speedup import PairedMeasurement
from spectui.measure.workload import Workload
from spectui.options.drafters import DraftSimple, NgramSimple
from spectui.options.setup import SamplingConfig
from spectui.options.speculation import Speculation
from spectui.tune.confirmation import corrected, rivals
from spectui.tune.forecast import Answers, Forecast
from spectui.tune.pace import Pace
from spectui.tune.race import BASELINE_SHARE, finalist
from spectui.tune.setup import Limits, SearchSetup
from spectui.tune.trials import PromptScore, TrialRecord, TrialState
from tests.support.search import NoModels, forecast_of, items


def arm(draft_max: int) -> Arm:
    return Arm(draft="d", speculation=Speculation(DraftSimple(draft_max=draft_max)))


def trial(which: Arm, speedup: float = 1.0) -> TrialRecord:
    score = PromptScore(
        prompt_id="p",
        category="c",
        n_tokens=64,
        decode_s=6.4 / speedup,
        n_drafted=0,
        n_accepted=0,
        n_rounds=64,
    )
    return TrialRecord(
        number=0,
        state=TrialState.COMPLETE,
        arm=which,
        prompts=(score,),
        speedup=speedup,
    )


def forecast(longest: int, speedup: float) -> Forecast:
    return forecast_of(arm(longest), speedup)


def unmeasured(state: TrialState) -> TrialRecord:
    return TrialRecord(number=9, state=state, arm=arm(6), error="e")


FAILED, AGAIN = unmeasured(TrialState.FAIL), unmeasured(TrialState.INTERRUPTED)


@pytest.mark.parametrize(
    ("records", "forecasts", "best"),
    [
        # Without forecasts the best trial, even where off is faster.
        ([trial(arm(3), 1.2), trial(arm(6), 1.21), trial(arm(16), 0.9)], {}, 6),
        ([trial(arm(3), 0.97), trial(arm(6), 0.96)], {}, 3),
        ([trial(arm(2), 1.1), trial(arm(6), 1.2), AGAIN], {}, 6),
        ([], {}, None),
        # A forecast chooses, whatever trials say.
        ([trial(arm(3), 1.4)], {6: 1.3, 3: 1.2}, 6),
        ([AGAIN], {6: 1.3, 3: 1.2}, 6),
        # But for what cannot run.
        ([FAILED], {6: 1.3, 3: 1.2}, 3),
        # A setting without a forecast has to be better in its trial.
        ([trial(arm(2), 1.4)], {6: 1.3, 3: 1.2}, 2),
        ([trial(arm(2), 1.25)], {6: 1.3, 3: 1.2}, 6),
    ],
)
def test_the_best_forecast_is_raced(
    records: list[TrialRecord], forecasts: dict[int, float], best: int | None
) -> None:
    ordered = [forecast(n, speedup) for n, speedup in forecasts.items()]
    found = finalist([trial(OFF), *records], ordered)
    assert found == (None if best is None else arm(best))


@dataclass
class Free:
    """Prompts that cost nothing."""

    n_beside_off: int | None = None
    prompt_token_s: float = 0.0


def test_a_race_takes_what_its_forecast_says_or_what_trials_have_taken() -> None:
    unused: Any = None
    # Of twelve prompts four choose.
    setup = SearchSetup(
        engine=cast("Any", NoModels()),
        study=unused,
        workload=Workload(items=items(12), n_predict=33, sampling=SamplingConfig(temp=0.0)),
        measurer=cast("Measurer", Free()),
        loader=unused,
        limits=Limits(time_budget_s=100.0),
        on_event=lambda _event: None,
    )
    pace = Pace(setup, lambda: 0.0)
    assert pace.race_s(arm(3), items(4)) == 0.0
    pace.trial_s.append(12.0)
    assert pace.race_s(arm(3), items(8)) == pytest.approx(2 * 12.0)
    pace.expected_s = {OFF: 6.4, arm(3): 3.2}
    assert pace.race_s(arm(3), items(4)) == pytest.approx(4 * (0.5 + BASELINE_SHARE) * 6.4)
    assert pace.race_s(arm(2), items(4)) == pytest.approx(4 * (1 + BASELINE_SHARE) * 6.4)


def recorded(draft: str | None, longest: int, gains: tuple[float, ...]) -> Forecast:
    """A forecast of prompts p0, p1, ... that gain so much, a second each without a draft."""
    own = NgramSimple(size_m=longest) if draft is None else DraftSimple(draft_max=longest)
    off_s = np.ones((len(gains), 1))
    answers = Answers(
        tokens=10 * off_s,
        drafted=8 * off_s,
        accepted=6 * off_s,
        on_s=off_s / np.array(gains)[:, None],
        off_s=off_s,
    )
    return Forecast(
        arm=Arm(draft=draft, speculation=Speculation(own)),
        speedup=float(off_s.sum() / answers.on_s.sum()),
        n_drafted=8,
        n_accepted=6,
        answers=answers,
    )


def test_the_best_settings_of_drafts_near_each_other_are_rivals() -> None:
    best, second = recorded("a", 6, (1.5,) * 8), recorded("a", 4, (1.45,) * 8)
    near, far = recorded(None, 8, (1.3,) * 8), recorded("b", 4, (0.9,) * 8)
    assert rivals([near, second, far, best]) == (best, near)
    assert rivals([]) == ()


def test_timed_prompts_correct_a_forecast() -> None:
    """By what they gained over what was predicted of them, not of all prompts."""
    one = recorded("a", 6, (1.1, 1.1, 1.1, 2.2))
    names = [f"p{n}" for n in range(4)]

    def moved(*gains: float) -> float:
        timed = [
            PairedMeasurement(
                prompt_id=f"p{n}",
                category="c",
                baseline_s=1.0,
                baseline_tokens=10,
                speculative_s=1 / gain,
                speculative_tokens=10,
                n_accepted=6,
            )
            for n, gain in enumerate(gains)
        ]
        return corrected(one, names, timed) - one.shrunk

    assert moved(1.65, 1.65, 1.65) == pytest.approx(math.log(1.5))
    # Beside other programs they are further off than the forecast, and count for less.
    assert 0 < moved(1.5, 1.7, 1.77) < math.log(1.5)
    assert abs(moved(0.6, 3.0, 1.2)) < 0.03
