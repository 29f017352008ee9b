"""What a verification says besides its numbers."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from spectui.engine.events import GenerationResult
from spectui.measure.measurer import Pair
from spectui.measure.promise import Case, Observed, Promise, observed_of
from spectui.measure.statistics import paired_speedup
from spectui.measure.verdict import Basis
from spectui.measure.workload import WorkItem
from spectui.options.drafters import DraftSimple
from spectui.options.setup import ContextOptions, ModelOptions, SamplingConfig
from spectui.options.speculation import Speculation
from spectui.server.help_text import Version
from spectui.speculative.counters import Counters
from spectui.speculative.decoder import Stop
from spectui.tune.studies.records import from_plain, to_plain
from spectui.verify.result import Verified, notes, warnings
from spectui.verify.subject import Origin

TARGET = ModelOptions(path=Path("t.gguf"))
CASE = Case(
    baseline=TARGET,
    target=TARGET,
    draft=ModelOptions(path=Path("d.gguf")),
    context=ContextOptions(),
    speculation=Speculation(DraftSimple(draft_max=4)),
    sampling=SamplingConfig(temp=0.0),
    n_predict=16,
)


def pair(name: str, gain: float) -> Pair:
    off = GenerationResult(
        tokens=tuple(range(11)),
        text="",
        n_prompt_tokens=2,
        prompt_s=0.1,
        decode_s=1.0,
        native_s=None,
        counters=Counters(),
        stop=Stop.LENGTH,
    )
    on = replace(off, decode_s=1.0 / gain, counters=Counters(n_drafted=8, n_accepted=6))
    item = WorkItem(id=name, category="x", tokens=(1, ord(name)))
    return Pair(item=item, baseline=off, speculative=on)


def delivered(gain: float) -> tuple[Pair, ...]:
    return tuple(pair(name, gain + 0.01 * n) for n, name in enumerate("abcdef"))


def promise(observed: tuple[Observed, ...]) -> Promise:
    return Promise(
        case=CASE,
        prompts=None,
        observed=observed,
        speedup=paired_speedup([one.measurement for one in observed]),
        min_gain=0.02,
        llama_cpp="0.5.0-dev",
    )


KEPT = Verified(
    case=CASE,
    binary="/llama-server",
    version=Version(text="0.5.0-dev", build=None, commit=None),
    arguments={"off": (), "on": ()},
    promise=promise(observed_of(delivered(1.3))),
    origin=Origin(study="mine"),
    pairs=delivered(1.3),
    keeps_both=True,
    repeats=1,
    seed=0,
)


def test_a_kept_promise_needs_no_word() -> None:
    assert list(warnings(KEPT)) == list(notes(KEPT, {})) == []
    ratio = KEPT.ratio
    assert ratio is not None
    assert ratio.estimate == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("gain", "promised", "said"),
    [
        (0.8, 1.3, "by the server's own numbers the verdict is another one. Turn it off"),
        (1.3, 0.8, "by the server's own numbers the verdict is another one. Use it"),
    ],
    ids=["does not pay", "pays"],
)
def test_another_verdict_is_a_warning(gain: float, promised: float, said: str) -> None:
    made = promise(observed_of(delivered(promised)))
    found = replace(KEPT, pairs=delivered(gain), promise=made)
    assert [text.startswith(said) for text in warnings(found)] == [True]


def test_changed_and_other_prompts_are_told_apart() -> None:
    assert KEPT.promise is not None
    observed = KEPT.promise.observed
    changed = (replace(observed[0], digest="other"), *observed[1:])
    found = replace(KEPT, promise=replace(KEPT.promise, observed=changed))
    assert found.other_prompts == ("a",)
    assert [text.partition(":")[0] for text in notes(found, {})] == ["a"]
    renamed = tuple(
        replace(one, measurement=replace(one.measurement, prompt_id=f"{n}"))
        for n, one in enumerate(observed)
    )
    others = replace(KEPT, promise=replace(KEPT.promise, observed=renamed))
    assert others.ratio is None
    assert list(notes(others, {})) == ["none of these prompts is one that the promise was made on."]


def test_a_promise_on_later_text_is_not_one_on_other_prompts() -> None:
    assert KEPT.promise is not None
    observed = tuple(replace(one, digest="longer") for one in KEPT.promise.observed)
    later = replace(KEPT.promise, observed=observed, basis=Basis.LATER)
    found = replace(KEPT, promise=later)
    assert found.ratio is None
    assert found.other_prompts == ()
    (told,) = notes(found, {})
    assert told.startswith("what was promised was measured on later text of these prompts")


def test_a_promise_of_one_prompt_at_a_time_beside_others_is_noted() -> None:
    assert KEPT.promise is not None
    crowded = replace(KEPT, case=replace(KEPT.case, n_slots=4))
    (told,) = notes(crowded, {})
    assert told.startswith("with 4 slots an earlier spectui measured one prompt at a time")
    assert crowded.is_alone
    now = replace(crowded, promise=replace(KEPT.promise, streams=True))
    assert (now.is_alone, list(notes(now, {}))) == (False, [])
    assert not replace(crowded, promise=None).is_alone


def test_older_promises_measured_one_prompt_at_a_time() -> None:
    assert KEPT.promise is not None
    stored = json.loads(json.dumps(to_plain(replace(KEPT.promise, streams=True))))
    assert from_plain(stored, Promise) == replace(KEPT.promise, streams=True)
    del stored["streams"]
    assert from_plain(stored, Promise) == KEPT.promise
