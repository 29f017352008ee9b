"""A way of drafting: one drafter, and n-gram drafters that are asked before it."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from spectui.errors import UsageError
from spectui.options.drafters import (
    MODELS,
    NGRAMS,
    DrafterOptions,
    DrafterSetting,
    DraftMtp,
    DraftSimple,
    HiddenStateDrafter,
    Model,
    ModelDrafter,
    Ngram,
    NgramDrafter,
    kind_of,
    numbers_of,
)


class Speculation(msgspec.Struct, frozen=True):
    """Everything about drafting that a trial can change."""

    own: DrafterSetting = DraftSimple()
    """The drafter that is asked if none before it drafts."""
    ahead: tuple[Ngram, ...] = ()
    """N-gram drafters that are asked first; the first that drafts anything is taken. Each kind at
    most once, in the order of ``NGRAMS``, which is llama-server's precedence."""

    @property
    def chain(self) -> tuple[DrafterSetting, ...]:
        """All drafters in the order in which they are asked."""
        return (*self.ahead, self.own)

    def after(self, ahead: Sequence[Ngram]) -> "Speculation":
        """This speculation, asked after ``ahead``."""
        return Speculation(self.own, tuple(ahead))

    @property
    def longest(self) -> int:
        """Most tokens that any of them drafts."""
        return max(one.longest for one in self.chain)

    @property
    def model(self) -> Model | None:
        """Options of the model that drafts, MTP layers included; None without one."""
        return self.own if isinstance(self.own, ModelDrafter) else None

    @property
    def is_mtp(self) -> bool:
        """Whether MTP layers draft, the target's own or those of a file beside it."""
        return isinstance(self.own, DraftMtp)

    @property
    def needs_draft(self) -> bool:
        """Whether a draft model of its own file is among them."""
        return self.own.needs_draft

    @property
    def takes_draft(self) -> bool:
        """Whether a file beside the target drafts if there is one."""
        return self.own.takes_draft

    @property
    def ngrams(self) -> tuple[Ngram, ...]:
        """The n-gram drafters among all."""
        return tuple(one for one in self.chain if isinstance(one, NgramDrafter))

    @property
    def numbers(self) -> dict[str, Any]:
        """A draft model's numbers, for every kind: n-gram drafters have the longest draft alone."""
        return _drafter_numbers(self.own)

    def document(self) -> dict[str, Any]:
        """The setting in documents: ``numbers`` for every kind, and an n-gram drafter's own.

        ``ahead`` is there where drafters are asked first.
        """
        ahead = [_drafter_document(one) for one in self.ahead]
        return {**_drafter_document(self.own), **({"ahead": ahead} if ahead else {})}


def _drafter_numbers(own: DrafterSetting) -> dict[str, Any]:
    model = own if isinstance(own, ModelDrafter) else DraftSimple(draft_max=own.longest)
    return model.numbers


def _drafter_document(own: DrafterSetting) -> dict[str, Any]:
    found = _drafter_numbers(own)
    if isinstance(own, NgramDrafter):
        found["ngram"] = {"kind": own.kind, **own.numbers}
    if isinstance(own, DraftMtp):
        found["mtp"] = True
    if isinstance(own, HiddenStateDrafter):
        found["spec_type"] = own.kind
    return found


def speculation_of(kinds: Collection[str], values: Mapping[str, Any]) -> Speculation:
    """Speculation from options.

    Args:
        kinds: of the drafters, in any order: llama-server has its own.
        values: values of every number of these drafters, by ``Number.parameter``.

    Raises:
        UsageError: two drafters need the draft context, or one would never draft.
    """
    models = [one for one in MODELS if kind_of(one) in kinds]
    if len(models) > 1:
        named = ",".join(map(kind_of, models))
        raise UsageError(f"--spec-type {named}: llama-server has one draft context; name one")
    drafters = [_drafter(one, values) for one in NGRAMS if kind_of(one) in kinds]
    if models:
        return Speculation(_drafter(models[0], values), tuple(drafters))
    *ahead, own = drafters
    return Speculation(own, tuple(ahead))


_T = TypeVar("_T", bound=DrafterOptions)


def _drafter(drafter: type[_T], values: Mapping[str, Any]) -> _T:
    read = drafter(**{one.name: values[one.parameter] for one in numbers_of(drafter)})
    problem = read.check(lambda number: number.flags[0])
    if problem is not None:
        raise UsageError(f"{problem}; lower it")
    return read
