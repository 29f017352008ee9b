"""Ways of drafting as earlier versions kept them, with the numbers of all drafters at once."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given

from spectui.live.sessions import SettingsChange, read_session
from spectui.measure.arm import Arm
from spectui.options.drafters import (
    DraftEagle3,
    DrafterOptions,
    DraftMtp,
    DraftSimple,
    HiddenStateDrafter,
    ModelDrafter,
    NgramDrafter,
    NgramSimple,
    numbers_of,
)
from spectui.options.speculation import Speculation
from spectui.options.stored import current, speculation_from_flat
from spectui.sweep.store import SweepStore
from spectui.tune.studies.records import from_plain
from spectui.tune.trials import TrialRecord, TrialState
from tests.support.drafters import speculations
from tests.support.sweep import ngram_cell, record
from tests.support.tables import table

pytest_plugins = ["tests.support.cli_fixtures"]
pytestmark = pytest.mark.usefixtures("home")

_NGRAM = {"kind": "ngram-simple", "size_n": 12, "min_hits": 1, "n_match": 24, "n_min": 48}
"""What every n-gram drafter was kept with."""
_MODEL = {"draft_max": 3, "draft_min": 0, "draft_p_min": 0.0}
_FLAT: dict[str, Any] = {**_MODEL, "ngram": None, "mtp": False, "reader": None, "ahead": []}
FLAT: list[tuple[Mapping[str, Any], Speculation]] = [
    ({**_FLAT, "reader": "draft-eagle3"}, Speculation(DraftEagle3())),
    # Versions that knew neither MTP layers nor readers, nor drafters ahead, nor n-grams.
    ({**_MODEL, "ngram": None, "mtp": False, "ahead": []}, Speculation()),
    (
        {**_MODEL, "draft_max": 8, "ngram": {"size_n": 3}},
        Speculation(NgramSimple(size_n=3, size_m=8)),
    ),
    ({**_MODEL, "draft_max": 6}, Speculation(DraftSimple(draft_max=6))),
]
ALL_FLAT = table(("kept", "read"), FLAT)
DAMAGED = [
    {**_FLAT, "draft_max": 0},
    {**_FLAT, "draft_p_min": 1.5},
    {**_FLAT, "reader": "nobody"},
    {**_FLAT, "ngram": {**_NGRAM, "kind": "ngram-new"}},
    {**_FLAT, "ngram": 3},
    {**_FLAT, "ahead": [_FLAT]},
    {**_FLAT, "ahead": [3]},
    *({**_FLAT, "ahead": ahead} for ahead in (3, None, True, "x")),
]


def flat(own: DrafterOptions, ahead: tuple[NgramDrafter, ...] = ()) -> dict[str, Any]:
    """What the last version before 0.2 kept."""
    found = {**_FLAT, "draft_max": own.longest}
    found["ahead"] = [flat(one) for one in ahead]
    match own:
        case ModelDrafter():
            reader = own.kind if isinstance(own, HiddenStateDrafter) else None
            return {**found, **own.numbers, "mtp": isinstance(own, DraftMtp), "reader": reader}
        case _:
            bounds = {one.name for one in numbers_of(type(own)) if one.bounds_drafts}
            others = {name: value for name, value in own.numbers.items() if name not in bounds}
            return {**found, "ngram": {**_NGRAM, "kind": own.kind, **others}}


@given(speculation=speculations())
def test_every_way_of_drafting_is_read_as_it_was_kept(speculation: Speculation) -> None:
    kept = json.loads(json.dumps(flat(speculation.own, speculation.ahead)))
    assert msgspec.convert(speculation_from_flat(kept), Speculation) == speculation
    arm = Arm(draft=None, speculation=speculation)
    assert msgspec.convert(current(msgspec.to_builtins(arm)), Arm) == arm


@ALL_FLAT
def test_trials(kept: Mapping[str, Any], read: Speculation) -> None:
    arm = {"draft": "d", "speculation": kept}
    trial = {"number": 3, "state": "complete", "arm": arm, "noisy": False, "error": None}
    arm_read = Arm(draft="d", speculation=read)
    assert from_plain(trial, TrialRecord) == TrialRecord(
        number=3, state=TrialState.COMPLETE, arm=arm_read
    )
    assert from_plain(arm, Arm) == arm_read
    alone = {"draft": None, "speculation": None}
    assert from_plain(alone, Arm) == Arm(draft=None, speculation=None)


@table("kept", DAMAGED)
def test_what_is_damaged_is_not_taken_for_something_else(kept: Mapping[str, Any]) -> None:
    assert from_plain({"draft": None, "speculation": kept}, Arm) is None


def test_sweeps() -> None:
    kept, read = FLAT[2]
    spec = {"machine": "this"}
    with SweepStore("s", spec) as store:
        store.append(record(ngram_cell()))
        path = store.path
    header, line = map(json.loads, path.read_text("utf-8").splitlines())
    line["record"]["visit"]["cell"]["arm"]["speculation"] = kept
    path.write_text(f"{json.dumps(header)}\n{json.dumps(line)}\n", "utf-8")
    told: list[str] = []
    with SweepStore("s", spec, say=told.append) as store:
        (found,) = store.records
    assert told == []
    assert found.visit.cell.speculation == read


HEADER = (
    '{"kind":"session","schema":"spectui.session/1","started":"2026-01-01T00:00:00Z",'
    '"target":"/m/t.gguf","draft":null}'
)


def session(folder: Path, *settings: Mapping[str, Any]) -> SettingsChange | None:
    path = folder / "session.jsonl"
    lines = [json.dumps({"kind": "settings", **one}) for one in settings]
    path.write_text("\n".join([HEADER, '{"kind":"user","text":"hi"}', *lines, ""]), "utf-8")
    return read_session(path).settings


@ALL_FLAT
def test_sessions(tmp_path: Path, kept: Mapping[str, Any], read: Speculation) -> None:
    assert session(tmp_path, kept) == SettingsChange(speculation=read)
    without = {**kept, "draft_max": None}
    assert session(tmp_path, without) == SettingsChange(speculation=None)
    assert session(tmp_path, {"draft_max": None}) == SettingsChange(speculation=None)
    assert session(tmp_path) is None
