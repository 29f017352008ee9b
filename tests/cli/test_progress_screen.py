"""Progress on a terminal: where the search is, how long it may take, and what leads."""

import io

from rich.console import Console

from spectui.cli.progress.screen import Screen
from spectui.measure.arm import OFF, Arm
from spectui.options.drafters import DraftSimple
from spectui.options.speculation import Speculation
from spectui.tune.events import ConfirmationStarted, PromptMeasured, TrialFinished, TrialStarted
from spectui.tune.trials import PromptScore, TrialRecord, TrialState
from tests.support.search import result

ARM = Arm(draft="good", speculation=Speculation(DraftSimple(draft_max=4)))


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


def measured(seconds_left: float | None) -> PromptMeasured:
    return PromptMeasured(prompt_id="a", result=result(10.0), seconds_left=seconds_left)


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
        anchor_tokens_per_s=10.0,
    )
    return TrialFinished(record=record)


def test_it_counts_prompts_and_the_time_left() -> None:
    terminal = Terminal()
    assert "trial 0: off" in terminal.after(TrialStarted(number=0, arm=OFF, n_prompts=2))
    told = terminal.after(measured(None))
    assert "1 of 2 · trial 0: off · a: " in told
    assert "left" not in told
    assert "up to 5 min 00 s left" in terminal.after(measured(300.0))
    # The estimate is a minute old by now.
    assert "up to 4 min 00 s left" in terminal.after(finished(0, OFF, 10.0))
    terminal.after(ConfirmationStarted(arm=ARM, n_prompts=1))
    assert "time is up: last step" in terminal.after(measured(0.0))
    # A race that goes faster than planned.
    assert "2 of 2 · confirming" in terminal.after(measured(0.0))
    terminal.screen.close()


def test_what_is_slower_than_off_leads_nothing() -> None:
    terminal = Terminal()
    terminal.after(finished(0, OFF, 10.0))
    told = terminal.after(finished(1, ARM, 8.0))
    assert "nothing beats off yet" in told
    assert "0.80×" in told
    assert "best" not in told
    faster = Arm(draft="good", speculation=Speculation(DraftSimple(draft_max=2)))
    assert "best so far 1.20× (" in terminal.after(finished(2, faster, 12.0))
    terminal.screen.close()
