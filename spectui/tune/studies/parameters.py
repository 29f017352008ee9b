"""The parameters of an arm, as a study asks for them and as it stores them.

A tree: the kind of drafter first, then what that kind has. So drafts of a model keep the names that
they have always had, and a later kind brings its own.
"""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from optuna.trial import BaseTrial, FixedTrial

from spectui.measure.arm import OFF, Arm
from spectui.options.drafters import (
    FEWEST_SEARCHED,
    MODEL_KIND,
    NGRAMS,
    DrafterOptions,
    DraftSimple,
    Ngram,
    NgramCache,
    NgramDrafter,
    NgramSimple,
    kind_of,
    numbers_of,
)
from spectui.options.number import Number
from spectui.options.speculation import Speculation
from spectui.tune.space import FIRST_NGRAM, Parameter, SearchSpace

_KIND = "kind"
_MODEL = "model"
_NGRAM = "ngram"
_NGRAM_KIND = "ngram_kind"
_FIRST_KIND = kind_of(NgramSimple)
_DRAFT = "draft"
_NOBODY = "none"
"""Is asked before the draft model."""
_OFF: Mapping[type[DrafterOptions], int] = {DraftSimple: 0, NgramSimple: 1}
"""Longest drafts that stand for off: no draft is that short."""


_T = TypeVar("_T", bound=DrafterOptions)


def suggest_arm(trial: BaseTrial, space: SearchSpace, *, is_off: bool) -> Arm:
    """Choose an arm of ``space``.

    Args:
        trial: chooses.
        space: space to choose from.
        is_off: it is the off arm, whatever is chosen.
    """
    kinds = _kinds(space)
    kind = trial.suggest_categorical(_KIND, kinds) if len(kinds) > 1 else kinds[0]
    suggest = _suggest_ngram if kind == _NGRAM else _suggest_model
    arm = suggest(trial, space)
    return space.placed(OFF if is_off else arm)


def _kinds(space: SearchSpace) -> tuple[str, ...]:
    return (_MODEL,) * bool(space.drafts) + (_NGRAM,) * space.with_ngrams


def _suggest_model(trial: BaseTrial, space: SearchSpace) -> Arm:
    draft = space.drafts[0]
    if len(space.drafts) > 1:
        # Sorted: the same drafts named in another order are the same space.
        draft = trial.suggest_categorical(_DRAFT, sorted(space.drafts))
    setting = _suggest_numbers(trial, DraftSimple, space)
    if setting.longest == _OFF[DraftSimple]:
        return OFF
    return space.arm(draft, setting, _suggest_ahead(trial, space))


def _suggest_numbers(trial: BaseTrial, drafter: type[_T], space: SearchSpace) -> _T:
    """Choose the numbers of a drafter that are searched; of a draft model those that are tuned."""
    chosen: dict[str, float] = {}
    for number, low, most in _searched(drafter):
        high = space.max_draft if most is None else most
        if drafter is DraftSimple and number.name not in space.tuned:
            continue
        if number.type is int:
            chosen[number.name] = trial.suggest_int(_name(number), int(low), int(high))
        else:
            value = trial.suggest_float(_name(number), low, high, step=number.step)
            chosen[number.name] = round(value, 2)
    return drafter(**chosen).within_bounds()


def _suggest_ahead(trial: BaseTrial, space: SearchSpace) -> tuple[Ngram, ...]:
    by_kind = {setting.kind: setting for setting in space.ahead()}
    if not by_kind:
        return ()
    kind = trial.suggest_categorical(Parameter.AHEAD, [_NOBODY, *by_kind])
    return () if kind == _NOBODY else (by_kind[kind],)


def _suggest_ngram(trial: BaseTrial, space: SearchSpace) -> Arm:
    if Parameter.DRAFT_MAX not in space.tuned:
        return Arm(draft=None, speculation=Speculation(FIRST_NGRAM))
    kinds = [kind_of(one) for one in NGRAMS if _has_room(one, space)]
    kind = trial.suggest_categorical(_NGRAM_KIND, kinds)
    drafter = next(one for one in NGRAMS if kind_of(one) == kind)
    setting = _suggest_numbers(trial, drafter, space)
    if setting.longest == _OFF.get(drafter):
        return OFF
    return Arm(draft=None, speculation=Speculation(setting))


def _has_room(drafter: type[Ngram], space: SearchSpace) -> bool:
    """Whether drafts of fixed length are not too long for the space."""
    return drafter is not NgramCache or space.max_draft >= NgramCache.LONGEST


def _searched(drafter: type[DrafterOptions]) -> Iterator[tuple[Number, float, float | None]]:
    """Searched numbers with least and most; the longest draft comes first."""
    for number in sorted(numbers_of(drafter), key=lambda one: not one.bounds_drafts):
        if number.searched is not None:
            low, high = number.searched
            yield number, _OFF.get(drafter, low) if number.bounds_drafts else low, high


def _name(number: Number) -> str:
    """Name of a parameter; those of the first kinds keep the names from when they were alone."""
    if number.kind == MODEL_KIND:
        return number.name
    prefix = "ngram" if number.kind == _FIRST_KIND else number.kind.replace("-", "_")
    return f"{prefix}_{number.name}"


def parameters_of(arm: Arm, space: SearchSpace) -> FixedTrial:
    """Parameters with which ``suggest_arm`` gives ``arm``; none where ``space`` is without it."""
    trial = FixedTrial(_values(arm, space))
    with warnings.catch_warnings():
        # Optuna warns of numbers out of range, and refuses words.
        warnings.simplefilter("error")
        with suppress(UserWarning, ValueError):
            if suggest_arm(trial, space, is_off=arm.is_off) == arm:
                return trial
    return FixedTrial({})


def _values(arm: Arm, space: SearchSpace) -> dict[str, Any]:
    """Values of all parameters; ``suggest_arm`` asks for those that the space has."""
    own: DrafterOptions = DraftSimple(draft_max=_OFF[DraftSimple])
    if arm.speculation is not None:
        own = arm.speculation.own
    elif not space.drafts:
        own = NgramSimple(size_m=_OFF[NgramSimple], size_n=FEWEST_SEARCHED)
    ahead = () if arm.speculation is None else arm.speculation.ahead
    shared = {
        _DRAFT: arm.draft or next(iter(space.drafts), None),
        Parameter.AHEAD: ahead[0].kind if ahead else _NOBODY,
    }
    if not isinstance(own, NgramDrafter):
        return {_KIND: _MODEL, **shared, **own.numbers}
    numbers = {_name(one): getattr(own, one.name) for one in numbers_of(type(own))}
    return {_KIND: _NGRAM, **shared, _NGRAM_KIND: own.kind, **numbers}
