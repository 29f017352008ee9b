"""Fits the seconds of evaluating a prompt to its length, without and with a draft. Pure.

The data are prompts that were evaluated for the first time, by the target and by the draft.
"""

import math
from collections.abc import Iterable, Sequence
from statistics import median
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from spectui.documents import Known
from spectui.engine.events import GenerationResult
from spectui.measure.measurer import Pair

_BEYOND = 1.25
"""Factor by which a prompt may be longer than all measured ones, and count as one of them."""
_TERMS = (((1,), 1.0), ((0, 1), 1.5), ((1, 2), 2.0), ((0, 1, 2), 2.0))
"""Powers of a prompt's length that its seconds may be made of, the simplest first; and how many
times as long as the shortest prompt the longest has to be for that."""
_BETTER = 0.95
"""Part of the misfit that further terms may leave, to be worth having."""
_ROUNDS = 60
_LEAST_MISFIT = 1e-9

_Array = npt.NDArray[np.float64]


class Reading(NamedTuple):
    """A prompt that was evaluated as a whole."""

    n_tokens: int
    seconds: float


class Readings(NamedTuple):
    """Prompts that were evaluated apart from a measurement."""

    target: tuple[Reading, ...] = ()
    draft: tuple[Reading, ...] = ()
    """By the draft alone."""


NONE_APART = Readings()


class ReadingTime(NamedTuple):
    """Seconds of evaluating a prompt, by its length."""

    factors: tuple[float, float, float]
    """Seconds, seconds per token, and per token squared, as attention takes; none is negative."""
    longest: int
    """Tokens of the longest prompt that it was fitted to."""

    def seconds(self, n_tokens: int) -> float:
        """Seconds of a prompt."""
        zero, one, two = self.factors
        return zero + one * n_tokens + two * n_tokens**2


def fit_readings(readings: Sequence[Reading]) -> ReadingTime | None:
    """Fit seconds by length, so that few disturbed readings move nothing; None of no reading.

    It minimises the sum of relative deviations, by least squares that are weighted again and again.
    """
    if not readings:
        return None
    lengths, seconds = np.array(readings, np.float64).T
    longest = int(lengths.max())
    found, least = ReadingTime((0.0, 0.0, 0.0), longest), math.inf
    if median(seconds) <= 0:
        return found
    # Deviations are relative, so a reading of 0 seconds cannot count.
    is_read = seconds > 0
    lengths, seconds = lengths[is_read], seconds[is_read]
    for powers, spread in _TERMS:
        has_data = len(lengths) > len(powers) and lengths.max() >= spread * lengths.min()
        if len(powers) > 1 and not has_data:
            continue
        # In units of the longest prompt: powers of thousands would hide one another.
        rows = np.stack([(lengths / longest) ** power / seconds for power in powers], axis=1)
        factors, misfit = _least_absolute_deviations(rows)
        if factors.min() >= 0 and misfit < _BETTER * least:
            scaled = np.zeros(3)
            scaled[list(powers)] = factors / longest ** np.array(powers, np.float64)
            zero, one, two = scaled.tolist()
            found, least = ReadingTime((zero, one, two), longest), misfit
    return found


def _least_absolute_deviations(rows: _Array) -> tuple[_Array, float]:
    """Factors for which every row comes near to 1, and the sum of the absolute deviations."""
    weights: _Array = np.ones(len(rows))
    factors: _Array = np.zeros(rows.shape[1])
    for _ in range(_ROUNDS):
        root = np.sqrt(weights)
        found = np.linalg.lstsq(rows * root[:, None], root, rcond=None)[0]
        factors = found.astype(np.float64)
        misfits = np.abs(rows @ factors - 1)
        weights = 1 / np.maximum(misfits, _LEAST_MISFIT)
    return factors, max(float(misfits.sum()), _LEAST_MISFIT)


class PromptTimes(NamedTuple):
    """Seconds until the first token, by the prompt's length."""

    off: ReadingTime
    """The target alone."""
    on: tuple[ReadingTime, ...]
    """Readers of the prompt with speculation, one after the other; or all of them at once."""

    def on_s(self, n_tokens: int) -> float:
        """Seconds with speculation."""
        return sum(each.seconds(n_tokens) for each in self.on)

    def covers(self, n_tokens: int) -> bool:
        """Whether about as long a prompt was measured."""
        return is_covered(n_tokens, min(each.longest for each in (self.off, *self.on)))


def is_covered(n_tokens: int, longest: int) -> bool:
    """Whether a prompt is hardly longer than the longest one that was measured."""
    return n_tokens <= _BEYOND * longest


NOT_READ = "it is not known how long a prompt is read: none was for the first time, or alone"


def prompt_times(
    pairs: Sequence[Pair], *, apart: Readings = NONE_APART, reads: bool = True
) -> Known[PromptTimes]:
    """How long prompts take without and with a setting.

    Args:
        pairs: prompts that were continued without and with the setting.
        apart: more prompts, with the target in the same place and the same draft.
        reads: whether a model drafts, which reads the prompt as well.
    """
    off = _target(pair.baseline for pair in pairs)
    on = [pair.speculative for pair in pairs]
    if not reads:
        off = [*off, *_target(on)]
    alone = fit_readings([*off, *apart.target])
    # Servers do not report the draft's part.
    whole, parts = _target(one for one in on if one.prompt_draft_s is None), [alone]
    if reads and whole:
        parts = [fit_readings(whole)]
    elif reads:
        parts = [
            fit_readings([*_target(on), *apart.target]),
            fit_readings([*_draft(on), *apart.draft]),
        ]
    known = tuple(one for one in parts if one is not None)
    if alone is None or len(known) < len(parts):
        return Known(None, NOT_READ)
    return Known(PromptTimes(off=alone, on=known))


def _target(results: Iterable[GenerationResult]) -> list[Reading]:
    """Readings of the target alone, and of servers."""
    return [
        Reading(one.n_prompt_tokens, one.prompt_s - (one.prompt_draft_s or 0.0))
        for one in results
        if one.n_evaluated == one.n_prompt_tokens
    ]


def _draft(results: Iterable[GenerationResult]) -> list[Reading]:
    """Readings of the draft."""
    return [
        Reading(one.n_prompt_tokens, one.prompt_draft_s)
        for one in results
        if one.prompt_draft_s is not None and one.n_read == one.n_prompt_tokens
    ]
