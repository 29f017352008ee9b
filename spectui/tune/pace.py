"""A search's own clock, and its estimates of how long trials and races take."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass

from spectui.measure.arm import Arm
from spectui.measure.measurer import Measurer
from spectui.measure.workload import WorkItem
from spectui.tune.race import BASELINE_SHARE, LOOK_EVERY

RESERVED = 2 * LOOK_EVERY
"""Prompts of the race that trials leave time for."""

ENDED, NO_TIME = "it was ended before", "the time budget had no room for it"
"""Why a search knows nothing of something."""
_GRACE = 0.5
"""Share of the time budget that the first prompts of a race may take beyond it: without them there
is no verdict."""


class OutOfTimeError(Exception):
    """The time budget is used up; what was measured counts."""


@dataclass(eq=False)
class Pace:
    """Time keeper of one search."""

    budget_s: float | None
    """Seconds that the search may take; None for as long as it takes."""
    now_s: Callable[[], float]
    """Clock of the search's own work."""
    prompts: Measurer
    """Says what a new prompt costs."""
    seen: Sequence[WorkItem]
    """Prompts of the trials, which a race on them finds evaluated."""
    _: KW_ONLY
    move_s: Callable[[], float] = lambda: 0.0
    """Says what loading the target anew takes, for a draft that leaves it other room."""

    def __post_init__(self) -> None:
        self._seen = {item.tokens for item in self.seen}
        self._began_s = self.now_s()
        self._trial_began_s = 0.0
        self.reserved_s = 0.0
        """Seconds that are kept for what comes in the end."""
        self.expected_s: Mapping[Arm, float] = {}
        """Forecast seconds of a prompt by arm, off's included; empty without forecasts."""
        self.trial_s: list[float] = []
        """Seconds of each trial."""

    @property
    def left_s(self) -> float:
        """Seconds left of the time budget; infinite without one."""
        if self.budget_s is None:
            return float("inf")
        return self.budget_s - self.took_s - self.reserved_s

    @property
    def took_s(self) -> float:
        """Seconds since the search began."""
        return self.now_s() - self._began_s

    @property
    def is_bounded(self) -> bool:
        """Whether there is a time budget."""
        return self.budget_s is not None

    def left_of(self, share: float) -> float:
        """Seconds until ``share`` of the time budget is gone; negative after that."""
        if self.budget_s is None:
            return float("inf")
        return self.left_s - (1 - share) * self.budget_s

    def check(self, reserved_s: float = 0.0) -> None:
        """Ask before each prompt whether there is time for it.

        Args:
            reserved_s: seconds that have to be left for what comes after.

        Raises:
            OutOfTimeError: there is none.
        """
        if self.left_s <= reserved_s:
            raise OutOfTimeError

    def check_race(self, n_done: int) -> None:
        """As ``check`` for a race, the first prompts of which may end later.

        Args:
            n_done: prompts that were decoded with the setting.
        """
        self.check(-_GRACE * (self.budget_s or 0.0) if n_done < LOOK_EVERY else 0.0)

    def trial(self, run: Callable[[], None]) -> None:
        """Run a trial, and remember what it took."""
        self._trial_began_s = self.took_s
        run()
        self.trial_s.append(self.took_s - self._trial_began_s)

    def check_trial(self, n_done: int, race_s: float) -> None:
        """As ``check`` for a trial, which leaves time for the first prompts of a race.

        Args:
            n_done: prompts of the trial that were decoded.
            race_s: estimate for these prompts of the race; 0 where there is none but the trial.
        """
        trial_s = self.took_s - self._trial_began_s
        self.check(race_s or LOOK_EVERY * trial_s / max(n_done, 1))

    def has_time_for_trial(self, race_s: float) -> bool:
        """Whether one more trial leaves ``race_s``."""
        return not self.trial_s or self.left_s > max(self.trial_s) + race_s

    def race_s(self, arm: Arm, items: Sequence[WorkItem]) -> float:
        """Estimate of a race of ``arm`` against off on ``items``."""
        prompts, off = self.prompts, next((one for one in self.expected_s if one.is_off), None)
        if off is None:
            # A trial decodes its prompts on both sides as well.
            return len(items) * max(self.trial_s, default=0.0) / max(len(self.seen), 1)
        off_s = self.expected_s[off]
        # Of a setting that was not forecast a prompt is taken to last as long as off.
        on_s = self.expected_s.get(arm, off_s)
        if prompts.n_beside_off is not None or off.layout != arm.layout:
            # Each side evaluates its prompts, and each leg begins with what is loaded.
            n_tokens = 2 * sum(len(item.tokens) for item in items)
            n_moves = 1 if prompts.n_beside_off else -(-len(items) // LOOK_EVERY)
            block_s = off_s + on_s
        else:
            new = {item.tokens: item for item in items if item.tokens not in self._seen}.values()
            n_tokens = sum(len(one.tokens) for one in new)
            n_moves = 0
            block_s = BASELINE_SHARE * off_s + on_s
        reading_s, moving_s = prompts.prompt_token_s * n_tokens, self.move_s() * n_moves
        return len(items) * block_s + reading_s + moving_s

    def n_affordable(self, arm: Arm, items: Sequence[WorkItem]) -> int:
        """Number of ``items``, from the first, that there is time to race on."""
        n = len(items)
        while n and self.race_s(arm, items[:n]) > self.left_s:
            n -= 1
        return n
