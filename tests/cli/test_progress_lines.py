"""Progress in a log: one line for each thing done, and more where that takes long."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from spectui.cli.progress.lines import Lines
from spectui.engine.events import LoadProgress, Role
from spectui.measure.arm import OFF, Arm
from spectui.options.drafters import DraftSimple
from spectui.options.speculation import Speculation
from spectui.tune.events import (
    ConfirmationStarted,
    PromptMeasured,
    RaceDecided,
    TraceProgress,
    TrialStarted,
)
from spectui.tune.tracing import DraftRecorded
from tests.support.search import result

ARM = Arm(draft="good", speculation=Speculation(DraftSimple(draft_max=4)))


class Told:
    """What is told when things take so long each."""

    def __init__(self, *, each_s: float) -> None:
        self._now_s, self._each_s = 0.0, each_s
        self._file = io.StringIO()
        console = Console(file=self._file, width=200)
        self.progress = Lines(console, clock=self._clock)

    def _clock(self) -> float:
        return self._now_s

    def later(self) -> Lines:
        self._now_s += self._each_s
        return self.progress

    @property
    def lines(self) -> list[str]:
        return self._file.getvalue().splitlines()


def searched(told: Told) -> list[str]:
    """A load, the target alone, a trial, a recording and a race."""
    told.later().on_engine(
        LoadProgress(role=Role.TARGET, path=Path("/models/t.gguf"), fraction=0.5)
    )
    for number, arm in enumerate((OFF, ARM)):
        told.later().on_tune(TrialStarted(number=number, arm=arm, n_prompts=2))
        for prompt in ("a", "b"):
            told.later().on_tune(
                PromptMeasured(prompt_id=prompt, result=result(10.0), seconds_left=None)
            )
    told.later().on_tune(TraceProgress(step=None, n_steps=1))
    step = DraftRecorded(prompt_id="a", draft="good", n_tokens=9, seconds=2.0)
    told.later().on_tune(TraceProgress(step=step, n_steps=1))
    told.later().on_tune(ConfirmationStarted(arm=ARM, n_prompts=9))
    told.later().on_tune(PromptMeasured(prompt_id="c", result=result(10.0), seconds_left=None))
    told.later().on_tune(RaceDecided(n_prompts=1, n_planned=9))
    return told.lines


RECORDING = "recording the prompts, to replay every setting on them"
CONFIRMING = f"confirming {ARM.label} against off, until it is decided, on 9 prompts at most"
DECIDED = "decided after 1 of 9 prompts"
OFF_BEGINS = "measuring the target alone on 2 prompts"


@pytest.mark.parametrize("each_s", [0.0, 1.0])
def test_what_is_quick_is_a_line_for_each_thing(each_s: float) -> None:
    assert searched(Told(each_s=each_s)) == [OFF_BEGINS, RECORDING, CONFIRMING, DECIDED]


def test_what_is_slow_tells_its_small_steps() -> None:
    rate = f"{result(10.0).tokens_per_s:.1f} tokens/s"
    assert searched(Told(each_s=20.0)) == [
        "loading the target t.gguf: 50 %",
        OFF_BEGINS,
        f"a: {rate} (trial 0)",
        f"b: {rate} (trial 0)",
        f"a: {rate} (trial 1)",
        f"b: {rate} (trial 1)",
        RECORDING,
        "a: good along 9 tokens in 2.0 s",
        CONFIRMING,
        f"c: {rate} (confirming)",
        DECIDED,
    ]
