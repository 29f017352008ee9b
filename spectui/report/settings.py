"""Settings as documents write them, and the numbers by which a map shows them."""

from collections.abc import Mapping
from typing import Any

import msgspec

from spectui.measure.arm import Arm
from spectui.options.drafters import MODEL_KIND, MTP_KIND, DrafterSetting, Ngram
from spectui.options.speculation import Speculation

_MODEL_NUMBERS = ("draft_max", "draft_min", "draft_p_min")


def arm_of(params: Mapping[str, Any]) -> Arm | None:
    """The arm that ``Arm.document`` wrote; None where it is none."""
    try:
        return _arm(params)
    except (msgspec.ValidationError, TypeError):
        return None


def _arm(params: Mapping[str, Any]) -> Arm:
    draft, layout = params.get("draft"), params.get("layout")
    speculation = None
    if "draft_max" in params:
        own = msgspec.convert(_drafter(params), DrafterSetting)
        ahead = tuple(msgspec.convert(_drafter(one), Ngram) for one in params.get("ahead", ()))
        speculation = Speculation(own, ahead)
    return msgspec.convert({"draft": draft, "speculation": speculation, "layout": layout}, Arm)


def _drafter(params: Mapping[str, Any]) -> dict[str, Any]:
    ngram = params.get("ngram")
    if ngram is not None:
        return {**ngram}
    kind = MTP_KIND if params.get("mtp") else params.get("spec_type", MODEL_KIND)
    return {"kind": kind, **{name: params[name] for name in _MODEL_NUMBERS if name in params}}
