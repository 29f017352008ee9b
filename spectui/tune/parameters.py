"""The parameters of an arm, as a study asks for them and as it stores them.

A tree: the kind of drafter first, then what that kind has. So drafts of a model keep the names that
they have always had, and a later kind brings its own.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from spectui.config import CACHE_LONGEST, NgramKind, SpeculationConfig, ngram_setting
from spectui.tune.space import (
    FIRST_NGRAM,
    MAX_DRAFT_MIN,
    MAX_HITS,
    MAX_NGRAM_MATCH,
    MAX_NGRAM_N,
    MAX_P_MIN,
    MIN_NGRAM_N,
    P_MIN_STEP,
    SERVER_DEFAULTS,
    Parameter,
    SearchSpace,
)
from spectui.tune.trials import OFF, Arm

_KIND = "kind"
_MODEL = "model"
_NGRAM = "ngram"
_NGRAM_KIND = "ngram_kind"
_DRAFT = "draft"
_SETTINGS = (Parameter.DRAFT_MAX, Parameter.DRAFT_MIN, Parameter.DRAFT_P_MIN, Parameter.AHEAD)
"""Of a draft model."""
_NOBODY = "none"
"""Is asked before the draft model."""
_NO_NGRAM = MIN_NGRAM_N - 1
"""No draft is that short: it stands for off."""
_RANGES: dict[NgramKind, dict[str, tuple[int, int | None]]] = {
    NgramKind.SIMPLE: {"size_m": (_NO_NGRAM, None), "size_n": (MIN_NGRAM_N, MAX_NGRAM_N)},
    NgramKind.MAP_K: {"size_m": (MIN_NGRAM_N, None), "size_n": (MIN_NGRAM_N, MAX_NGRAM_N)},
    NgramKind.MAP_K4V: {
        "size_m": (MIN_NGRAM_N, None),
        "size_n": (MIN_NGRAM_N, MAX_NGRAM_N),
        "min_hits": (1, MAX_HITS),
    },
    NgramKind.MOD: {
        "n_max": (MIN_NGRAM_N, None),
        "n_match": (MIN_NGRAM_N, MAX_NGRAM_MATCH),
        "n_min": (0, MAX_DRAFT_MIN),
    },
    NgramKind.CACHE: {},
}
"""Of each kind's options; None for the space's longest draft."""


class Suggests(Protocol):
    """What chooses: an Optuna trial."""

    def suggest_categorical(self, name: str, choices: Sequence[str], /) -> str:
        """One of ``choices``."""
        ...

    def suggest_int(self, name: str, low: int, high: int, /) -> int:
        """A number from ``low`` to ``high``."""
        ...

    def suggest_float(self, name: str, low: float, high: float, /, *, step: float) -> float:
        """A number from ``low`` to ``high`` in steps."""
        ...


def suggest_arm(trial: Suggests, space: SearchSpace, *, is_off: bool) -> Arm:
    """Choose an arm of ``space``.

    Args:
        trial: chooses.
        space: what from.
        is_off: it is the off arm, whatever is chosen.
    """
    kinds = _kinds(space)
    kind = trial.suggest_categorical(_KIND, kinds) if len(kinds) > 1 else kinds[0]
    suggest = _suggest_ngram if kind == _NGRAM else _suggest_model
    arm = suggest(trial, space)
    return space.placed(OFF if is_off else arm)


def _kinds(space: SearchSpace) -> tuple[str, ...]:
    return (_MODEL,) * bool(space.drafts) + (_NGRAM,) * space.with_ngrams


def _kind(space: SearchSpace, kind: str) -> dict[str, Any]:
    """The kind, where there is a choice."""
    return {_KIND: kind} if len(_kinds(space)) > 1 else {}


def _suggest_model(trial: Suggests, space: SearchSpace) -> Arm:
    tuned, draft = space.tuned, space.drafts[0]
    if len(space.drafts) > 1:
        # Sorted: the same drafts named in another order are the same space.
        draft = trial.suggest_categorical(_DRAFT, sorted(space.drafts))
    longest, shortest, floor = (
        SERVER_DEFAULTS.draft_max,
        SERVER_DEFAULTS.draft_min,
        SERVER_DEFAULTS.draft_p_min,
    )
    if Parameter.DRAFT_MAX in tuned:
        longest = trial.suggest_int(Parameter.DRAFT_MAX, 0, space.max_draft)
    if Parameter.DRAFT_MIN in tuned:
        shortest = trial.suggest_int(Parameter.DRAFT_MIN, 0, MAX_DRAFT_MIN)
    if Parameter.DRAFT_P_MIN in tuned:
        floor = trial.suggest_float(Parameter.DRAFT_P_MIN, 0.0, MAX_P_MIN, step=P_MIN_STEP)
    if longest == 0:
        return OFF
    # A draft_min above draft_max would drop every draft.
    config = SpeculationConfig(
        draft_max=longest, draft_min=min(shortest, longest), draft_p_min=round(floor, 2)
    )
    return space.arm(draft, config.after(_suggest_ahead(trial, space)))


def _suggest_ahead(trial: Suggests, space: SearchSpace) -> tuple[SpeculationConfig, ...]:
    by_kind = {setting.kind: setting for setting in space.ahead()}
    if not by_kind:
        return ()
    kind = trial.suggest_categorical(Parameter.AHEAD, [_NOBODY, *by_kind])
    return () if kind == _NOBODY else (by_kind[kind],)


def _suggest_ngram(trial: Suggests, space: SearchSpace) -> Arm:
    if Parameter.DRAFT_MAX not in space.tuned:
        return Arm(draft=None, speculation=FIRST_NGRAM)
    kind = NgramKind(trial.suggest_categorical(_NGRAM_KIND, _ngram_kinds(space)))
    options = {
        name: trial.suggest_int(_name(kind, name), low, high or space.max_draft)
        for name, (low, high) in _RANGES[kind].items()
    }
    if kind is NgramKind.SIMPLE:
        if options["size_m"] == _NO_NGRAM:
            return OFF
        # Drafts shorter than the n-gram are not made.
        options["size_n"] = min(options["size_n"], options["size_m"])
    return Arm(draft=None, speculation=ngram_setting(kind, options))


def _ngram_kinds(space: SearchSpace) -> list[str]:
    """Those whose drafts the space has room for."""
    has_room = space.max_draft >= CACHE_LONGEST
    return [str(kind) for kind in NgramKind if kind is not NgramKind.CACHE or has_room]


def _name(kind: NgramKind, option: str) -> str:
    """A parameter's; those of the first kind have kept the names from when it was the only one."""
    prefix = "ngram" if kind is NgramKind.SIMPLE else kind.replace("-", "_")
    return f"{prefix}_{option}"


def params_of(arm: Arm, space: SearchSpace) -> dict[str, Any]:
    """Values with which ``suggest_arm`` gives ``arm``; for the off arm, together with its mark."""
    config = arm.speculation or SpeculationConfig(draft_max=0)
    if config.ngram is not None:
        if Parameter.DRAFT_MAX not in space.tuned:
            return _kind(space, _NGRAM)
        options = config.ngram.options(config.draft_max)
        return {**_kind(space, _NGRAM), **_ngram_params(config.ngram.kind, options)}
    if not space.drafts:
        return _ngram_params(NgramKind.SIMPLE, {"size_m": _NO_NGRAM, "size_n": MIN_NGRAM_N})
    draft = {_DRAFT: arm.draft or space.drafts[0]} if len(space.drafts) > 1 else {}
    values: dict[Parameter, int | float] = {
        Parameter.DRAFT_MAX: config.draft_max,
        Parameter.DRAFT_MIN: config.draft_min,
        Parameter.DRAFT_P_MIN: config.draft_p_min,
    }
    tuned: dict[str, Any] = {
        str(name): value for name, value in values.items() if name in space.tuned
    }
    if space.ahead():
        tuned[Parameter.AHEAD] = config.ahead[0].kind if config.ahead else _NOBODY
    return {**_kind(space, _MODEL), **draft, **tuned}


def is_searched(arm: Arm, space: SearchSpace) -> bool:
    """Whether ``suggest_arm`` can give ``arm``."""
    try:
        found = suggest_arm(_Given(params_of(arm, space)), space, is_off=arm.is_off)
    except _OutOfRangeError:
        return False
    return found == arm


class _OutOfRangeError(Exception):
    """A value is none that may be chosen."""


class _Given:
    """Chooses what was given, if it may."""

    def __init__(self, params: Mapping[str, Any]) -> None:
        self._params = params

    def suggest_categorical(self, name: str, choices: Sequence[str], /) -> str:
        value = str(self._params[name])
        if value not in choices:
            raise _OutOfRangeError
        return value

    def suggest_int(self, name: str, low: int, high: int, /) -> int:
        return int(self._within(name, low, high))

    def suggest_float(self, name: str, low: float, high: float, /, *, step: float) -> float:
        value = self._within(name, low, high)
        steps = (value - low) / step
        if not math.isclose(steps, round(steps), abs_tol=1e-6):
            raise _OutOfRangeError
        return value

    def _within(self, name: str, low: float, high: float) -> float:
        value = float(self._params[name])
        if not low <= value <= high:
            raise _OutOfRangeError
        return value


def _ngram_params(kind: NgramKind, options: Mapping[str, int]) -> dict[str, Any]:
    searched = {_name(kind, name): options[name] for name in _RANGES[kind]}
    return {_NGRAM_KIND: str(kind), **searched}


def assessed(space: SearchSpace) -> list[str]:
    """Parameters that can be compared with each other: those that one kind of drafter has.

    A draft model's, if there is one: it has more of them.
    """
    if not space.drafts:
        return [_name(NgramKind.SIMPLE, name) for name in _RANGES[NgramKind.SIMPLE]]
    searched = space.tuned if space.ahead() else space.tuned - {Parameter.AHEAD}
    tuned = [str(name) for name in _SETTINGS if name in searched]
    return [*tuned, _DRAFT] if len(space.drafts) > 1 else tuned
