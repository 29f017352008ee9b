"""Progress in a log, a line for each thing done; on a terminal, what leads and what is left."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from spectui.cli.display import Lines, Screen
from spectui.engine.events import LoadProgress, Role
from spectui.measure.arm import OFF, Arm
from spectui.options.drafters import DraftSimple
from spectui.options.speculation import Speculation
from spectui.tune.progress import (
    Phase,
    PhaseStarted,
    StepDone,
    TrialFinished,
)
from spectui.tune.trials import PromptScore, TrialRecord, TrialState

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
    """A load, two trials, a recording and a race."""
    told.later().on_engine(
        LoadProgress(role=Role.TARGET, path=Path("/models/t.gguf"), fraction=0.5)
    )
    for number in range(2):
        told.later().on_tune(started(Phase.SEARCHING, f"trial {number}: {ARM.label}", 2))
        for prompt in ("a", "b"):
            told.later().on_tune(StepDone(text=f"{prompt}: {RATE}"))
    told.later().on_tune(started(Phase.RECORDING, RECORDING, 1))
    told.later().on_tune(StepDone(text="a: good along 9 tokens in 2.0 s"))
    told.later().on_tune(started(Phase.CONFIRMING, CONFIRMING, 9))
    told.later().on_tune(StepDone(text=f"c: {RATE}"))
    return told.lines


RATE = "10.0 tokens/s"
RECORDING = "recording the prompts, to replay every setting on them"
CONFIRMING = f"confirming {ARM.label} against off, until it is decided, on 9 prompts at most"


@pytest.mark.parametrize("each_s", [0.0, 1.0])
def test_what_is_quick_is_a_line_for_each_thing(each_s: float) -> None:
    assert searched(Told(each_s=each_s)) == [RECORDING, CONFIRMING]


def test_what_is_slow_tells_its_small_steps() -> None:
    assert searched(Told(each_s=20.0)) == [
        "loading the target t.gguf: 50 %",
        f"trial 0: {ARM.label}",
        f"1 of 2 · trial 0: {ARM.label} · a: {RATE}",
        f"2 of 2 · trial 0: {ARM.label} · b: {RATE}",
        f"trial 1: {ARM.label}",
        f"1 of 2 · trial 1: {ARM.label} · a: {RATE}",
        f"2 of 2 · trial 1: {ARM.label} · b: {RATE}",
        RECORDING,
        "1 of 1 · a: good along 9 tokens in 2.0 s",
        CONFIRMING,
        f"1 of 9 · {CONFIRMING} · c: {RATE}",
    ]


class Terminal:
    """A terminal that is repainted at every event: a minute passes before each."""

    def __init__(self, width: int = 120) -> None:
        self._now_s = 0.0
        self._file = io.StringIO()
        console = Console(file=self._file, force_terminal=True, width=width, color_system=None)
        self.screen = Screen(console, clock=lambda: self._now_s)

    def after(self, event: object) -> str:
        """What an event paints."""
        self._now_s += 60.0
        self._file.truncate(0)
        self.screen.on_tune(event)  # type: ignore[arg-type]
        return self._file.getvalue()


def started(phase: Phase, text: str, n_steps: int) -> PhaseStarted:
    return PhaseStarted(phase=phase, text=text, n_steps=n_steps, arm=ARM)


def measured(seconds_left: float | None) -> StepDone:
    return StepDone(text=f"a: {RATE}", seconds_left=seconds_left)


def finished(number: int, arm: Arm, tokens_per_s: float) -> TrialFinished:
    score = PromptScore(
        prompt_id="a",
        category="c",
        n_tokens=60,
        decode_s=60 / tokens_per_s,
        n_drafted=0,
        n_accepted=0,
        n_rounds=60,
    )
    record = TrialRecord(
        number=number,
        state=TrialState.COMPLETE,
        arm=arm,
        prompts=(score,),
        speedup=tokens_per_s / 10,
    )
    return TrialFinished(record=record)


def test_it_counts_prompts_and_the_time_left() -> None:
    terminal = Terminal()
    assert "trial 0: off" in terminal.after(started(Phase.SEARCHING, "trial 0: off", 2))
    told = terminal.after(measured(None))
    assert "1 of 2 · trial 0: off · a: " in told
    assert "left" not in told
    assert "up to 5 min 00 s left" in terminal.after(measured(300.0))
    # The estimate is a minute old by now.
    assert "up to 4 min 00 s left" in terminal.after(finished(0, OFF, 10.0))
    terminal.after(started(Phase.CONFIRMING, CONFIRMING, 1))
    assert "time is up: last step" in terminal.after(measured(0.0))
    # A race that goes faster than planned.
    assert "2 of 2 · confirming" in terminal.after(measured(0.0))
    terminal.screen.close()


def test_what_is_slower_than_off_leads_nothing() -> None:
    terminal = Terminal()
    terminal.after(finished(0, OFF, 10.0))
    told = terminal.after(finished(1, ARM, 8.0))
    assert "0.80×" in told
    assert "best" not in told
    faster = Arm(draft="good", speculation=Speculation(DraftSimple(draft_max=2)))
    assert "best so far 1.20× (" in terminal.after(finished(2, faster, 12.0))
    terminal.screen.close()
