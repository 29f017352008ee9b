"""Studies for reports: what a real search kept, and the same with other words or more trials."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from spectui.measure.arm import Arm
from spectui.measure.verdict import Answer, Verdict
from spectui.options.drafters import DraftSimple
from spectui.options.setup import ContextOptions, ModelOptions
from spectui.options.speculation import Speculation
from spectui.report.content import Content, content_of
from spectui.tune.result import Gain, Outcome
from spectui.tune.studies.listing import Report, StoredStudy

_EXPECTED = Path(__file__).parents[1] / "golden" / "expected" / "tune"


def document(name: str = "verdicts/use") -> dict[str, Any]:
    """A document that ``tune`` wrote."""
    text = (_EXPECTED / f"{name}.json").read_text("utf-8")
    found: dict[str, Any] = json.loads(text.replace('"<s>"', "71.5"))
    return found


def arm(draft: str = "close", **numbers: float) -> Arm:
    return Arm(draft=draft, speculation=Speculation(msgspec.convert(numbers, DraftSimple)))


BEST = arm(draft_max=9)


def study(
    *,
    found: dict[str, Any] | None = None,
    name: str = "use",
    folder: str = "/models",
    draft: str = "close",
    extra: tuple[str, ...] = (),
) -> StoredStudy:
    """A study whose verdict is to use its draft."""
    outcome = Outcome(
        target=ModelOptions(path=Path(folder, "target.gguf")),
        draft=ModelOptions(path=Path(folder, f"{draft}.gguf")),
        context=ContextOptions(ctx_size=256, threads=1),
        speculation=BEST.speculation,
        extra=extra,
        ended=datetime(2026, 5, 1, tzinfo=UTC),
        verdict=Verdict(use_speculation=True, reason="Use it: it pays.", answer=Answer.USE),
        gain=Gain(speedup=3.01699, low=2.37066, high=3.68105, n_prompts=8),
    )
    return StoredStudy(
        name=name,
        outcome=outcome,
        promise=None,
        report=Report(text="", document=document() if found is None else found),
    )


def content(**changes: object) -> Content:
    return content_of(study(**changes))  # type: ignore[arg-type] # its own parameters


def renamed(kept: Any, rename: Callable[[str], str]) -> Any:  # noqa: ANN401 - plain data
    """Plain data with every text that is no key replaced."""
    match kept:
        case dict():
            return {key: renamed(value, rename) for key, value in kept.items()}
        case list():
            return [renamed(value, rename) for value in kept]
        case str():
            return rename(kept)
        case _:
            return kept
