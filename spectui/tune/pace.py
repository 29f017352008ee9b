"""A search's own clock, its estimates of what trials and races take, and its runs beside off."""

import math
import time
from collections.abc import Callable, Mapping, Sequence

from spectui.engine.events import GenerationResult
from spectui.format import rate_text
from spectui.measure.arm import Arm
from spectui.measure.workload import WorkItem
from spectui.tune.progress import Phase, PhaseStarted, StepDone
from spectui.tune.race import BASELINE_SHARE, LOOK_EVERY, RaceRuns
from spectui.tune.setup import SearchSetup, divide

RESERVED = 2 * LOOK_EVERY
"""Prompts of the race that trials leave time for."""
ENDED, NO_TIME = "it was ended before", "the time budget had no room for it"
"""Why a search knows nothing of something."""
_GRACE = 0.5
"""Share of the time budget that the first prompts of a race may take beyond it: without them there
is no verdict."""
_MOST = 2
"""Time budgets after which everything ends, even within a prompt."""


class OutOfTimeError(Exception):
    """The time budget is used up; measurements so far count."""


class Pace:
    """Time keeper of one search."""

    def __init__(
        self,
        setup: SearchSetup,
        clock: Callable[[], float] = time.monotonic,
        *,
        spent_s: float = 0.0,
    ) -> None:
        """Begin.

        Args:
            setup: inputs of the search.
            clock: seconds; what the engine gave to others meanwhile is taken off.
            spent_s: seconds of the time budget that are gone, as for finding the target's place.
        """
        self.setup = setup
        self.spent_s = spent_s
        self._clock = clock
        budget_s = setup.limits.time_budget_s
        self.budget_s = None if budget_s is None else max(0.0, budget_s - spent_s)
        """Seconds that the search may take; None for as long as it takes."""
        self.division = divide(setup.workload)
        self._seen = {item.tokens for item in self.division.trial_items}
        """Prompts of the trials, which a race on them finds evaluated."""
        self._began_s = self._now_s()
        self.reserved_s = 0.0
        """Seconds that are kept for what comes in the end."""
        self.expected_s: Mapping[Arm, float] = {}
        """Forecast seconds of a prompt by arm, off's included; empty without forecasts."""
        self.trial_s: list[float] = []
        """Seconds of each trial."""
        self.race_left_s: Callable[[], float] = lambda: math.inf
        """Estimates the seconds until the end of the race; infinite before it."""

    def _now_s(self) -> float:
        """Clock of the search's own work: it stands still while others have the engine."""
        return self._clock() - self.setup.engine.waited_s

    @property
    def left_s(self) -> float:
        """Seconds left of the time budget; infinite without one."""
        if self.budget_s is None:
            return math.inf
        return self.budget_s - self.took_s - self.reserved_s

    @property
    def took_s(self) -> float:
        """Seconds since the search began."""
        return self._now_s() - self._began_s

    def left_of(self, share: float) -> float:
        """Seconds until ``share`` of the time budget is gone; negative after that."""
        if self.budget_s is None:
            return math.inf
        return self.left_s - (1 - share) * self.budget_s

    def check(self, reserved_s: float = 0.0) -> None:
        """Check before each prompt whether there is time for it.

        Args:
            reserved_s: seconds that have to be left for what comes after.

        Raises:
            OutOfTimeError: there is none.
        """
        if self.left_s <= reserved_s:
            raise OutOfTimeError

    def check_end(self) -> None:
        """As ``check``, within a prompt: for what takes far longer than was estimated.

        A token beside other programs may take a hundred times as long as alone.
        """
        if self.budget_s is not None and self.took_s > _MOST * self.budget_s:
            raise OutOfTimeError

    def check_race(self, n_done: int) -> None:
        """As ``check`` for a race, the first prompts of which may end later.

        Args:
            n_done: prompts that were decoded with the setting.
        """
        self.check(-_GRACE * (self.budget_s or 0.0) if n_done < LOOK_EVERY else 0.0)

    def race_s(self, arm: Arm, items: Sequence[WorkItem]) -> float:
        """Estimate of a race of ``arm`` against off on ``items``."""
        prompts, off = self.setup.measurer, next((a for a in self.expected_s if a.is_off), None)
        if off is None:
            # A trial decodes its prompts on both sides as well.
            return len(items) * max(self.trial_s, default=0.0) / max(len(self._seen), 1)
        off_s = self.expected_s[off]
        # Of a setting that was not forecast a prompt is taken to last as long as off.
        on_s = self.expected_s.get(arm, off_s)
        if prompts.n_beside_off is not None or off.layout != arm.layout:
            # Each side evaluates its prompts, and each leg begins with what is loaded.
            n_tokens = 2 * sum(len(item.tokens) for item in items)
            n_moves = 1 if prompts.n_beside_off else -(-len(items) // LOOK_EVERY)
            block_s, moving_s = off_s + on_s, n_moves * self.setup.loader.move_s
        else:
            n_tokens = sum(map(len, {item.tokens for item in items} - self._seen))
            block_s, moving_s = BASELINE_SHARE * off_s + on_s, 0.0
        return len(items) * block_s + prompts.prompt_token_s * n_tokens + moving_s

    def n_affordable(self, arm: Arm, items: Sequence[WorkItem]) -> int:
        """Number of ``items``, from the first, that there is time to race on."""
        n = len(items)
        while n and self.race_s(arm, items[:n]) > self.left_s:
            n -= 1
        return n

    def runs(self, arm: Arm, check_time: Callable[[int], None]) -> RaceRuns:
        """Runs of a setting beside off.

        Args:
            arm: the setting.
            check_time: called before each prompt, with the number of decoded ones; raises to end
                the runs.
        """
        setup = self.setup
        return RaceRuns(
            setup.measurer,
            arm,
            off=setup.study.space.off,
            load=lambda side: setup.loader.load(side.draft),
            on_pair=lambda pair: self.decoded(pair.item, pair.speculative),
            check_time=check_time,
        )

    def begin(self, phase: Phase, text: str, n_steps: int, arm: Arm | None = None) -> None:
        """Emit the event of a phase that begins."""
        self.setup.on_event(PhaseStarted(phase=phase, text=text, n_steps=n_steps, arm=arm))

    def decoded(self, item: WorkItem, result: GenerationResult) -> None:
        """Emit the event of a prompt."""
        self.step(f"{item.id}: {rate_text(result.tokens_per_s)} tokens/s")

    def step(self, text: str) -> None:
        """Emit the event of a step, with the most seconds until the end of race or budget."""
        left_s = max(0.0, min(self.race_left_s(), self.left_s))
        known_s = left_s if math.isfinite(left_s) else None
        self.setup.on_event(StepDone(text=text, seconds_left=known_s))
