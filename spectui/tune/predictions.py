"""Predicted speedups of all replayed settings, in the compact form that a study keeps."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import msgspec

from spectui.measure.arm import Arm
from spectui.options.drafters import DrafterSetting, Ngram
from spectui.options.speculation import Speculation
from spectui.tune.forecast import Forecast

_DIGITS = 4
_MOST = 100_000
"""Settings that are read; a search replays some thousands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Predictions for one way of drafting: its settings differ in the numbers of one drafter."""

    draft: str | None
    kind: str
    """Kind of the drafter that has the numbers."""
    ahead: tuple[Ngram, ...] = ()
    """N-gram drafters that are asked before it."""
    layout: str | None = None
    names: tuple[str, ...]
    """Names of the numbers."""
    settings: tuple[tuple[int | float, ...], ...]
    """Values of the numbers, by setting."""
    speedups: tuple[float, ...]
    """Over the target alone, by setting."""

    def predicted(self) -> Iterator[tuple[Arm, float]]:
        """Settings with their speedups; what is no setting of the drafter is left out."""
        for values, speedup in zip(self.settings, self.speedups, strict=False):
            plain = {**dict(zip(self.names, values, strict=False)), "kind": self.kind}
            try:
                own = msgspec.convert(plain, DrafterSetting)
            except msgspec.ValidationError:
                continue
            how = Speculation(own, self.ahead)
            yield Arm(draft=self.draft, speculation=how, layout=self.layout), speedup


@dataclass(frozen=True, slots=True, kw_only=True)
class Predictions:
    """Predictions of a search."""

    families: tuple[Family, ...] = ()

    def by_arm(self) -> dict[Arm, float]:
        """Predicted speedups by setting."""
        found = (one for family in self.families for one in family.predicted())
        return dict(islice(found, _MOST))


_Key = tuple[str | None, str, tuple[Ngram, ...], str | None, tuple[str, ...]]


def predictions_of(forecasts: Sequence[Forecast]) -> Predictions:
    """The stored form of forecasts."""
    found: dict[_Key, list[Forecast]] = {}
    for one in forecasts:
        how = one.arm.speculation
        if how is not None:
            own = how.own
            key = one.arm.draft, own.kind, how.ahead, one.arm.layout, tuple(own.numbers)
            found.setdefault(key, []).append(one)
    return Predictions(families=tuple(_family(*item) for item in found.items()))


def _family(key: _Key, members: Sequence[Forecast]) -> Family:
    draft, kind, ahead, layout, names = key
    speculations = [one.arm.speculation for one in members]
    return Family(
        draft=draft,
        kind=kind,
        ahead=ahead,
        layout=layout,
        names=names,
        settings=tuple(tuple(how.own.numbers.values()) for how in speculations if how is not None),
        speedups=tuple(round(one.speedup, _DIGITS) for one in members),
    )
