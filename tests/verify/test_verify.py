"""Promised against delivered: the parts that compute without models and servers."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectui.documents import encoded
from spectui.engine.events import GenerationResult
from spectui.measure.comparison import Comparison
from spectui.measure.measurer import Pair
from spectui.measure.promise import Case, Observed, Promise, lasting, observed_of
from spectui.measure.speedup import PairedMeasurement, Speedup
from spectui.measure.statistics import paired_ratio, paired_speedup
from spectui.measure.workload import WorkItem, Workload
from spectui.options.drafters import DraftSimple, NgramSimple
from spectui.options.setup import (
    ContextOptions,
    KvOverride,
    ModelOptions,
    SamplingConfig,
    TensorOverride,
)
from spectui.options.speculation import Speculation
from spectui.server.binary import ServerBinary
from spectui.speculative.counters import Counters
from spectui.speculative.decoder import Stop
from spectui.tune.studies.records import from_plain
from spectui.verify.comparison import Agreement, agreement, ratio_of
from spectui.verify.verification import Verified, notes, warnings
from tests.support.machine import QUIET

GOOD = Speculation(DraftSimple(draft_max=4))
CASE = Case(
    baseline=ModelOptions(path=Path("t.gguf")),
    target=ModelOptions(path=Path("t.gguf"), n_cpu_moe=3),
    draft=ModelOptions(
        path=Path("d.gguf"),
        override_tensor=(TensorOverride(pattern="exps", buffer="CPU"),),
        override_kv=(KvOverride(key="a", value=True), KvOverride(key="b", value=2.5)),
    ),
    context=ContextOptions(ctx_size=512),
    speculation=GOOD.after([NgramSimple(size_n=4, size_m=8)]),
    sampling=SamplingConfig(temp=0.0),
    n_predict=16,
    extra=("--jinja",),
)


def speedup(estimate: float, low: float | None = None, high: float | None = None) -> Speedup:
    reason = "too few" if low is None else None
    return Speedup(
        estimate=estimate, low=low, high=high, n_pairs=8, n_prompts=8, interval_reason=reason
    )


def seen(name: str, gain: float, *, digest: str = "same", tokens: int = 10) -> Observed:
    return Observed(
        measurement=PairedMeasurement(
            prompt_id=name,
            category="x",
            baseline_s=1.0,
            baseline_tokens=tokens,
            speculative_s=1.0 / gain,
            speculative_tokens=tokens,
        ),
        n_drafted=8,
        n_accepted=6,
        digest=digest,
    )


PROMISE = Promise(
    case=CASE,
    prompts=Path("p.jsonl"),
    observed=(seen("a", 1.2), seen("b", 1.3), seen("a", 1.25)),
    speedup=speedup(1.25, 1.2, 1.3),
    min_gain=0.02,
    llama_cpp="0.5.0-dev",
)


@pytest.mark.parametrize(
    ("promised", "delivered", "ratio", "found"),
    [
        ((1.29, 1.24, 1.35), (1.27, 1.20, 1.34), None, Agreement.HOLDS),
        ((1.29, 1.24, 1.35), (1.10, 1.05, 1.15), None, Agreement.LESS),
        ((1.10, 1.05, 1.15), (1.29, 1.24, 1.35), None, Agreement.MORE),
        ((1.29, 1.24, 1.35), (1.27, 0.90, 1.60), None, Agreement.OPEN),
        ((1.29, None, None), (1.27, 1.20, 1.34), None, Agreement.OPEN),
        ((1.29, 1.24, 1.35), (1.27, None, None), None, Agreement.OPEN),
        # Prompts that gain differently widen both intervals, and not that of the ratio.
        ((1.29, 0.80, 2.10), (1.28, 0.79, 2.05), (0.99, 0.97, 1.01), Agreement.HOLDS),
        ((1.29, 0.80, 2.10), (1.16, 0.70, 1.90), (0.90, 0.88, 0.92), Agreement.LESS),
        ((1.29, 0.80, 2.10), (1.42, 0.90, 2.40), (1.10, 1.08, 1.12), Agreement.MORE),
        ((1.29, 0.80, 2.10), (1.28, 0.79, 2.05), (0.99, 0.80, 1.20), Agreement.OPEN),
        # What the interval of the ratio excludes.
        *(
            ((1.2, 1.1, 1.3), (1.2, 1.1, 1.3), (math.sqrt(low * high), low, high), found)
            for low, high, found in (
                (0.96, 1.04, Agreement.HOLDS),
                (0.96, 0.99, Agreement.HOLDS),
                (0.92, 0.97, Agreement.OPEN),
                (0.932, 1.041, Agreement.HOLDS),
                (0.91, 1.10, Agreement.HOLDS),
                (0.90, 1.10, Agreement.OPEN),
                (0.90, 0.951, Agreement.LESS),
                (1.051, 1.2, Agreement.MORE),
            )
        ),
    ],
)
def test_intervals_decide_whether_a_promise_holds(
    promised: tuple[float, float | None, float | None],
    delivered: tuple[float, float | None, float | None],
    ratio: tuple[float, float, float] | None,
    found: Agreement,
) -> None:
    paired = None if ratio is None else speedup(*ratio)
    assert agreement(speedup(*promised), speedup(*delivered), paired) is found


_sizes = st.floats(0.001, 0.5)
_centers = st.floats(0.3, 3.0)


@st.composite
def intervals(draw: st.DrawFn) -> Speedup:
    center = draw(_centers)
    return speedup(center, center * math.exp(-draw(_sizes)), center * math.exp(draw(_sizes)))


_MIRRORED = {Agreement.LESS: Agreement.MORE, Agreement.MORE: Agreement.LESS}


@given(promised=intervals(), delivered=intervals(), ratio=st.none() | intervals())
def test_to_swap_promised_and_delivered_only_mirrors_it(
    promised: Speedup, delivered: Speedup, ratio: Speedup | None
) -> None:
    inverse = None
    if ratio is not None:
        assert ratio.low
        assert ratio.high
        inverse = speedup(1 / ratio.estimate, 1 / ratio.high, 1 / ratio.low)
    found = agreement(promised, delivered, ratio)
    assert agreement(delivered, promised, inverse) is _MIRRORED.get(found, found)


@given(center=st.floats(0.8, 1.25), below=_sizes, above=_sizes, factor=st.floats(0.0, 1.0))
def test_a_narrower_interval_of_the_same_ratio_never_opens_what_was_decided(
    center: float, below: float, above: float, factor: float
) -> None:
    def found(factor: float) -> Agreement:
        ends = center * math.exp(-below * factor), center * math.exp(above * factor)
        return agreement(speedup(1.2, 1.1, 1.3), speedup(1.2, 1.1, 1.3), speedup(center, *ends))

    wide, narrow = found(1.0), found(factor)
    if wide in {Agreement.LESS, Agreement.MORE}:
        assert narrow is wide
    if abs(math.log(center)) < math.log(1.05) - 1e-9 and factor * max(below, above) < 1e-3:
        assert narrow is Agreement.HOLDS
    if wide is Agreement.HOLDS:
        assert narrow not in {Agreement.LESS, Agreement.MORE} or abs(math.log(center)) > 0.04


_gains = st.lists(st.floats(0.3, 3.0), min_size=6, max_size=12)


@settings(max_examples=20)
@given(gains=_gains, factor=st.floats(0.5, 2.0))
def test_the_ratio_of_two_speedups_is_that_of_their_estimates(
    gains: list[float], factor: float
) -> None:
    promised = [seen(str(n), gain).measurement for n, gain in enumerate(gains)]
    delivered = [seen(str(n), gain * factor).measurement for n, gain in enumerate(gains)]
    found = paired_ratio(delivered, promised)
    expected = paired_speedup(delivered).estimate / paired_speedup(promised).estimate
    assert found.estimate == pytest.approx(expected)
    # Where every prompt gains as many times as much, nothing is left to be uncertain of.
    assert (found.low, found.high) == pytest.approx((factor, factor))


def test_prompts_that_have_changed_are_not_compared() -> None:
    promised = [seen(name, 1.2) for name in "abcdef"]
    delivered = [seen(name, 1.2, digest="same" if name != "c" else "new") for name in "abcdeg"]
    found = ratio_of(delivered, promised)
    assert found is not None
    assert found.n_prompts == 4
    assert ratio_of([seen("a", 1.2, digest="new")], promised) is None
    with pytest.raises(ValueError, match="both sides"):
        paired_ratio([seen("a", 1.0).measurement], [seen("b", 1.0).measurement])


def result(
    tokens: tuple[int, ...], n_drafted: int = 0, n_accepted: int = 0, *, seconds: float = 1.0
) -> GenerationResult:
    return GenerationResult(
        tokens=tokens,
        text="",
        n_prompt_tokens=2,
        prompt_s=0.1,
        decode_s=seconds,
        counters=Counters(n_drafted=n_drafted, n_accepted=n_accepted),
        stop=Stop.LENGTH,
    )


ITEM = WorkItem(id="a", category="x", tokens=(1, 2))


def test_off_is_measured_as_the_target_lies_without_a_draft() -> None:
    assert (CASE.off.target, CASE.off.extra) == (CASE.baseline, CASE.extra)
    assert CASE.off.is_off
    assert replace(CASE.off, target=CASE.target).models == (CASE.target,)


def test_a_promise_is_kept_as_plain_text() -> None:
    stored = json.loads(json.dumps(encoded(PROMISE)))
    assert from_plain(stored, Promise) == PROMISE
    assert PROMISE.prompt_ids == ("a", "b")
    assert from_plain({"case": 1}, Promise) is None
    assert from_plain(None, Promise) is None


def test_a_kept_promise_has_absolute_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    kept = lasting(PROMISE)
    assert kept.case.baseline.path == kept.case.target.path == tmp_path / "t.gguf"
    assert kept.case.draft is not None
    assert kept.case.draft.path == tmp_path / "d.gguf"
    assert kept.prompts == tmp_path / "p.jsonl"
    assert kept.case.target.n_cpu_moe == 3


def test_what_is_observed_of_a_pair() -> None:
    off, on = result((1, 2, 3), seconds=2.0), result((1, 2, 3), 4, 2)
    pair = Pair(item=ITEM, baseline=off, speculative=on)
    (observed,) = observed_of([pair, replace(pair, speculative=result((1,)))])
    # The first token comes with the prompt.
    assert observed.measurement.baseline_tokens == observed.measurement.speculative_tokens == 2
    assert observed.measurement.baseline_s == 2.0
    assert (observed.n_drafted, observed.n_accepted) == (4, 2)


# What a verification says besides its numbers


def pair(name: str, gain: float) -> Pair:
    off = result(tuple(range(11)))
    on = replace(off, decode_s=1.0 / gain, counters=Counters(n_drafted=8, n_accepted=6))
    item = WorkItem(id=name, category="x", tokens=(1, ord(name)))
    return Pair(item=item, baseline=off, speculative=on)


def delivered(gain: float) -> tuple[Pair, ...]:
    return tuple(pair(name, gain + 0.01 * n) for n, name in enumerate("abcdef"))


def promise(observed: tuple[Observed, ...]) -> Promise:
    speedup = paired_speedup([one.measurement for one in observed])
    return replace(PROMISE, prompts=None, observed=observed, speedup=speedup)


PAIRS = delivered(1.3)
MADE = promise(observed_of(PAIRS))


def verified(made: Promise = MADE, pairs: tuple[Pair, ...] = PAIRS) -> Verified:
    comparison = Comparison(
        workload=Workload(items=(), n_predict=16, sampling=CASE.sampling),
        speculation=CASE.speculation,
        pairs=pairs,
        speedup=paired_speedup([one.measurement for one in observed_of(pairs)]),
        lossless=None,
        disturbance=QUIET,
    )
    return Verified(
        promise=made,
        comparison=comparison,
        binary=ServerBinary(path="/llama-server", version=None, options=()),
        arguments={"off": (), "on": ()},
        keeps_both=True,
        repeats=1,
    )


def test_a_kept_promise_needs_no_word() -> None:
    found = verified()
    assert list(warnings(found)) == list(notes(found)) == []
    ratio = found.ratio
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
    found = verified(made, delivered(gain))
    assert [text.startswith(said) for text in warnings(found)] == [True]


NO_PROMPT = "none of these prompts is the text that the promise was made on."


def test_changed_and_other_prompts_are_told_apart() -> None:
    observed = MADE.observed
    changed = (replace(observed[0], digest="other"), *observed[1:])
    found = verified(replace(MADE, observed=changed))
    assert found.other_prompts == ("a",)
    assert [text.partition(":")[0] for text in notes(found)] == ["a"]
    renamed = tuple(
        replace(one, measurement=replace(one.measurement, prompt_id=f"{n}"))
        for n, one in enumerate(observed)
    )
    others = verified(replace(MADE, observed=renamed))
    assert others.ratio is None
    assert list(notes(others)) == [NO_PROMPT]
