"""The share of ``--time-budget`` for the measurement on llama-server, and its use."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count

from spectui.engine.events import GenerationResult
from spectui.format import duration_text
from spectui.measure.measurer import Pair
from spectui.measure.statistics import MIN_PROMPTS
from spectui.prompts import Prompt
from spectui.tune.result import TuneResult

_SHARE = 0.25
"""Share of the time budget reserved for llama-server: the search uses all that it is given."""
_START_S = 2.0
"""Seconds to start a server without its models: libraries, warm-up, a first request."""
_LOADED_BYTES_PER_S = 1e9
"""Bytes per second from a file that was read before."""
_MARGIN = 1.1
"""Safety factor of the estimates."""


def search_budget_s(budget_s: float | None, *, has_server: bool) -> float | None:
    """Seconds for the search; the rest of ``--time-budget`` is reserved for llama-server."""
    return budget_s * (1 - _SHARE) if has_server and budget_s is not None else budget_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """Settings and prompts that fit in the time on llama-server."""

    n_settings: int
    """Number of settings that fit; 0 for none."""
    n_prompts: int
    reason: str | None = None
    """Reason for fewer measurements than requested; None if all fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Cost of a setting on llama-server."""

    prompt_s: float
    """Seconds per prompt, with and without speculation."""
    starts_s: float
    """Seconds to start the servers."""

    def n_prompts(self, seconds: float, n_settings: int) -> int:
        """Number of prompts that fit in the time for each setting."""
        left_s = seconds / n_settings / _MARGIN - self.starts_s
        return max(0, int(left_s / self.prompt_s)) if self.prompt_s > 0 else 0

    def seconds(self, n_prompts: int) -> float:
        """Duration of one setting."""
        return _MARGIN * (self.starts_s + n_prompts * self.prompt_s)


def cost_of(pairs: Sequence[Pair], *, n_starts: int, model_bytes: int) -> Cost:
    """Estimate the cost from the engine's measurements.

    Args:
        pairs: measurements that confirmed the setting.
        n_starts: number of server starts.
        model_bytes: bytes that a start loads.
    """
    seconds = [_seconds(pair.baseline) + _seconds(pair.speculative) for pair in pairs]
    return Cost(
        prompt_s=sum(seconds) / len(seconds) if seconds else 0.0,
        starts_s=n_starts * (_START_S + model_bytes / _LOADED_BYTES_PER_S),
    )


def _seconds(result: GenerationResult) -> float:
    return result.prompt_s + result.decode_s


def room_of(left_s: float | None, cost: Cost, *, n_settings: int, n_prompts: int) -> Room:
    """Fit settings and prompts into the time: rather one setting well than two badly.

    Args:
        left_s: seconds left of the time budget; None without one.
        cost: cost of one setting.
        n_settings: number of open settings.
        n_prompts: number of prompts.
    """
    fewest = min(MIN_PROMPTS, n_prompts)
    if left_s is None or not n_settings:
        return Room(n_settings=n_settings, n_prompts=n_prompts)
    for n in range(n_settings, 0, -1):
        found = min(n_prompts, cost.n_prompts(left_s, n))
        if found >= fewest:
            return Room(
                n_settings=n, n_prompts=found, reason=_fewer(n, found, n_settings, n_prompts)
            )
    # In whole seconds, what does not fit must not look as if it did.
    has_s = math.floor(max(left_s, 0))
    needs_s = max(has_s + 1, math.ceil(cost.seconds(fewest)))
    return Room(
        n_settings=0,
        n_prompts=0,
        reason=(
            f"llama-server was not measured: of the time budget {duration_text(has_s)} are left, "
            f"and {fewest} prompts take about {duration_text(needs_s)}; give more --time-budget, "
            "or run spectui verify"
        ),
    )


def _fewer(n: int, found: int, n_settings: int, n_prompts: int) -> str | None:
    if found < n_prompts:
        return f"for want of time llama-server was given {found} of {n_prompts} prompts"
    if n < n_settings:
        return "for want of time only the first of the open settings was run on llama-server"
    return None


def spread(prompts: Sequence[Prompt], n: int) -> tuple[Prompt, ...]:
    """Pick ``n`` of the prompts, from as many categories as possible."""
    if n >= len(prompts):
        return tuple(prompts)
    turns: dict[str, count[int]] = {}
    turn = {one.id: next(turns.setdefault(one.category, count())) for one in prompts}
    return tuple(sorted(prompts, key=lambda one: turn[one.id])[:n])


def with_time(result: TuneResult, budget_s: float | None, served_s: float) -> TuneResult:
    """The result with the time of both the search and llama-server."""
    spent = result.spent
    took_s = spent.took_s + served_s
    return replace(result, spent=replace(spent, budget_s=budget_s, took_s=took_s))
