"""The parameters of an arm, as a sampler chooses them and as a study stores them.

A tree: the kind of drafter first, then what that kind has. So drafts of a model keep the names that
they have always had, and a later kind brings its own. Off has none.
"""

import warnings
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, TypeVar

from optuna.trial import BaseTrial, FixedTrial

from spectui.measure.arm import Arm
from spectui.options.drafters import (
    NGRAMS,
    DrafterOptions,
    DraftSimple,
    NgramCache,
    NgramDrafter,
    NgramSimple,
    kind_of,
    numbers_of,
)
from spectui.options.option import Number
from spectui.options.speculation import Speculation
from spectui.tune.space import SearchSpace

_KIND = "kind"
_MODEL = "model"
_NGRAM = "ngram"
_NGRAM_KIND = "ngram_kind"
_DRAFT = "draft"

_T = TypeVar("_T", bound=DrafterOptions)


def suggest_arm(trial: BaseTrial, space: SearchSpace) -> Arm:
    """Have ``trial`` choose an arm of ``space`` that drafts, with no n-gram drafter ahead.

    Those are forecast: without one, they would only find the same settings once more.
    """
    kinds = (_MODEL,) * bool(space.drafts) + (_NGRAM,) * space.with_ngrams
    kind = trial.suggest_categorical(_KIND, kinds) if len(kinds) > 1 else kinds[0]
    if kind == _NGRAM:
        # Drafts of fixed length may be too long for the space.
        has_room = space.max_draft >= NgramCache.LONGEST
        drafters = {kind_of(one): one for one in NGRAMS if has_room or one is not NgramCache}
        ngram = drafters[trial.suggest_categorical(_NGRAM_KIND, list(drafters))]
        setting = _suggest_numbers(trial, ngram, space)
        return space.placed(Arm(draft=None, speculation=Speculation(setting)))
    draft = space.drafts[0]
    if len(space.drafts) > 1:
        # Sorted: the same drafts named in another order are the same space.
        draft = trial.suggest_categorical(_DRAFT, sorted(space.drafts))
    return space.placed(space.arm(draft, _suggest_numbers(trial, DraftSimple, space)))


def _suggest_numbers(trial: BaseTrial, drafter: type[_T], space: SearchSpace) -> _T:
    """Choose the numbers of a drafter that are searched."""
    chosen: dict[str, float] = {}
    for name, number in _names(drafter):
        if number.searched is None:
            continue
        low, most = number.searched
        high = space.max_draft if most is None else most
        if number.type is int:
            chosen[number.name] = trial.suggest_int(name, int(low), int(high))
        else:
            chosen[number.name] = round(trial.suggest_float(name, low, high, step=number.step), 2)
    return drafter(**chosen).within_bounds()


def _names(drafter: type[DrafterOptions]) -> Iterator[tuple[str, Number]]:
    """Names of its parameters; those of the first kinds are from when they were alone."""
    prefix = f"{kind_of(drafter).replace('-', '_')}_"
    if drafter is NgramSimple:
        prefix = "ngram_"
    elif not issubclass(drafter, NgramDrafter):
        prefix = ""
    return ((f"{prefix}{number.name}", number) for number in numbers_of(drafter))


def parameters_of(arm: Arm, space: SearchSpace) -> FixedTrial:
    """Parameters with which ``suggest_arm`` gives ``arm``; none where ``space`` is without it."""
    trial = FixedTrial(_values(arm))
    with warnings.catch_warnings():
        # Optuna warns of numbers out of range, and refuses words, and parameters without a value.
        warnings.simplefilter("error")
        with suppress(UserWarning, ValueError):
            if suggest_arm(trial, space) == arm:
                return trial
    return FixedTrial({})


def _values(arm: Arm) -> dict[str, Any]:
    """Values of all parameters of an arm; ``suggest_arm`` takes those of the search space."""
    if arm.speculation is None:
        return {}
    own = arm.speculation.own
    return {
        _KIND: _NGRAM if isinstance(own, NgramDrafter) else _MODEL,
        _DRAFT: arm.draft,
        _NGRAM_KIND: own.kind,
        **{name: getattr(own, number.name) for name, number in _names(type(own))},
    }
