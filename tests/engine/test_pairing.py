"""Pairs in segments: both sides are decoded as if each were alone, whoever begins."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from spectui.engine.commands import Generate, GeneratePair
from spectui.engine.driver import Engine
from spectui.engine.events import Event, GenerationResult, PairGenerated, PromptEvaluated
from spectui.engine.generation import Generation
from spectui.engine.pairing import PairGeneration, Stopwatch
from spectui.errors import BadInputError, CancelledError
from spectui.options.drafters import DraftMtp, DraftSimple, NgramMod, NgramSimple
from spectui.options.setup import SamplingConfig
from spectui.options.speculation import Speculation
from spectui.speculative.counters import Counters, RoundTimes
from spectui.speculative.decoder import Stop
from tests.support.engine import ARCHITECTURES, ENDLESS, engine_with, local_worker

MODEL = Speculation(DraftSimple(draft_max=4))
REPEATING = tuple(range(40, 60)) * 4
"""A prompt that n-gram drafters find something in."""
TINY_SEGMENTS = 0.0
"""Seconds after which the next one's turn comes at once."""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=ARCHITECTURES)
def architecture(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def engine(architecture: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with engine_with(architecture, tmp_path_factory.mktemp(architecture)) as started:
        yield started


def command(
    speculation: Speculation | None,
    *,
    prompt: tuple[int, ...] = REPEATING,
    n_predict: int = 96,
    sampling: SamplingConfig = ENDLESS,
) -> Generate:
    return Generate(
        prompt=prompt,
        n_predict=n_predict,
        sampling=sampling,
        speculation=speculation,
        reuse_prompt=True,
    )


def in_turns(
    engine: Engine, wanted: Generate, *, baseline_first: bool = True, baseline_share: float = 1.0
) -> PairGenerated:
    return engine.generate_pair(
        GeneratePair(
            speculative=wanted,
            baseline_first=baseline_first,
            segment_s=TINY_SEGMENTS,
            baseline_share=baseline_share,
        )
    )


def ignored(_event: Event) -> None:
    """Nobody listens."""


def counts(result: GenerationResult) -> tuple[Counters, Stop, tuple[int, ...]]:
    """Everything but the times."""
    counters = replace(result.counters, times=RoundTimes(), chain_s=0.0, mark_s=0.0)
    return counters, result.stop, result.tokens


def drafters(architecture: str) -> list[Speculation]:
    own = Speculation(DraftMtp(draft_max=3)) if architecture == "qwen35" else MODEL
    return [
        own,
        Speculation(NgramSimple(size_n=3, size_m=6)),
        Speculation(NgramMod(n_match=4, n_min=2, n_max=8)),
        own.after([NgramSimple(size_n=3, size_m=6)]),
    ]


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("baseline_first", [True, pytest.param(False, marks=pytest.mark.ci)])
def test_both_sides_are_as_if_alone(
    engine: Engine, architecture: str, number: int, *, baseline_first: bool
) -> None:
    speculation = drafters(architecture)[number]
    wanted = command(speculation)
    alone = engine.generate(replace(wanted, speculation=None))
    together = engine.generate(wanted)
    pair = in_turns(engine, wanted, baseline_first=baseline_first)
    assert counts(pair.speculative) == counts(together)
    assert pair.baseline.tokens == alone.tokens
    assert pair.baseline.stop is alone.stop
    assert len(pair.segments) > 10
    assert sum(one.n_tokens for one in pair.segments) == together.n_decoded
    assert sum(len(one.rounds) for one in pair.segments) == together.counters.n_rounds
    assert all(one.baseline_s for one in pair.segments)


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("baseline_first", [True, pytest.param(False, marks=pytest.mark.ci)])
@pytest.mark.parametrize("sampling", [ENDLESS, SamplingConfig(temp=0.8, seed=7, ignore_eos=True)])
def test_a_share_of_the_target_alone_changes_nothing_of_the_answer(
    engine: Engine,
    architecture: str,
    number: int,
    sampling: SamplingConfig,
    *,
    baseline_first: bool,
) -> None:
    wanted = command(drafters(architecture)[number], sampling=sampling)
    pair = in_turns(engine, wanted, baseline_first=baseline_first, baseline_share=0.25)
    assert counts(pair.speculative) == counts(engine.generate(wanted))
    assert pair.baseline.tokens == pair.speculative.tokens
    assert all(one.baseline_s for one in pair.segments)
    n_alone = sum(len(one.baseline_s) for one in pair.segments)
    # What it decoded of a segment may reach into the next one.
    assert 0 < pair.baseline.counters.n_rounds <= n_alone < 96
    seconds = [one.baseline_decode_s for one in pair.segments]
    assert pair.baseline.decode_s == pytest.approx(sum(seconds))


@pytest.mark.parametrize("share", [0.25, 1.0])
@pytest.mark.parametrize("baseline_first", [True, False])
def test_every_round_begins_over_the_caches_of_speculation_by_itself(
    engine: Engine,
    architecture: str,
    monkeypatch: pytest.MonkeyPatch,
    share: float,
    *,
    baseline_first: bool,
) -> None:
    """Bit by bit, so that no near tie falls otherwise: a batch rounds otherwise than one token."""
    models = local_worker(engine).models
    found: list[tuple[bytes, ...]] = []

    def look() -> bool:
        """Asked before each round, of whichever side."""
        found.append(tuple(context.save() for context in models.contexts))
        return False

    monkeypatch.setattr(models.abort, "is_set", look)
    for speculation in drafters(architecture):
        wanted = command(speculation)
        Generation(models, wanted, ignored).run()
        expected = set(found)
        found.clear()
        pair = GeneratePair(
            speculative=wanted,
            baseline_first=baseline_first,
            segment_s=TINY_SEGMENTS,
            baseline_share=share,
        )
        PairGeneration(models, pair, ignored).run()
        assert len(expected) > 10
        assert expected <= set(found)
        found.clear()


def test_turns_are_balanced(engine: Engine, architecture: str) -> None:
    """Who begins a segment decodes one token, or a round; who follows, as many tokens."""
    wanted = command(drafters(architecture)[0])
    begun = in_turns(engine, wanted, baseline_first=True).segments
    assert all(len(one.baseline_s) == 1 for one in begun)
    followed = in_turns(engine, wanted, baseline_first=False).segments
    assert all(len(one.baseline_s) == one.n_tokens == len(one.rounds[0].tokens) for one in followed)
    assert any(one.n_tokens > 1 for one in followed)


@pytest.mark.parametrize("baseline_first", [True, False])
def test_an_answer_of_one_segment_is_compared_as_a_whole(
    engine: Engine, architecture: str, *, baseline_first: bool
) -> None:
    wanted = command(drafters(architecture)[0], n_predict=32)
    pair = engine.generate_pair(
        GeneratePair(speculative=wanted, baseline_first=baseline_first, segment_s=60.0)
    )
    alone = engine.generate(replace(wanted, speculation=None))
    assert len(pair.segments) == 1
    assert pair.baseline.tokens == alone.tokens
    assert pair.baseline.counters.n_rounds == alone.n_decoded == 31


@pytest.mark.parametrize("temp", [0.8, 3.0])
def test_with_temperature_the_target_alone_draws_the_same(
    engine: Engine, architecture: str, temp: float
) -> None:
    wanted = command(
        drafters(architecture)[0], sampling=SamplingConfig(temp=temp, seed=7, ignore_eos=True)
    )
    pair = in_turns(engine, wanted)
    assert counts(pair.speculative) == counts(engine.generate(wanted))
    assert pair.baseline.tokens == pair.speculative.tokens


def test_an_answer_ends_where_the_context_does(engine: Engine, architecture: str) -> None:
    wanted = command(drafters(architecture)[0], prompt=REPEATING * 6, n_predict=-1)
    pair = in_turns(engine, wanted)
    assert counts(pair.speculative) == counts(engine.generate(wanted))
    assert pair.speculative.stop is Stop.CONTEXT


def test_an_answer_of_one_token_has_no_segments(engine: Engine, architecture: str) -> None:
    pair = in_turns(engine, command(drafters(architecture)[0], n_predict=1))
    assert pair.segments == ()
    assert (pair.baseline.n_decoded, pair.speculative.n_decoded) == (0, 0)
    assert pair.baseline.decode_s == 0


def test_nothing_drafts_on_either_side(engine: Engine) -> None:
    pair = in_turns(engine, command(None))
    assert pair.baseline.tokens == pair.speculative.tokens
    assert pair.speculative.counters.n_drafted == 0


def test_a_prompt_that_does_not_fit_is_refused(engine: Engine) -> None:
    with pytest.raises(BadInputError, match="leaves no room"):
        in_turns(engine, command(MODEL, prompt=REPEATING * 7))


def test_stopped_it_leaves_an_engine_that_goes_on(engine: Engine, architecture: str) -> None:
    wanted = command(drafters(architecture)[0])
    expected = counts(engine.generate(wanted))

    def stop(event: Event) -> None:
        if isinstance(event, PromptEvaluated):
            engine.stop()

    engine.on_event = stop
    try:
        with pytest.raises(CancelledError):
            in_turns(engine, wanted)
    finally:
        engine.on_event = lambda _event: None
    assert counts(in_turns(engine, wanted).speculative) == expected


def test_a_stopwatch_counts_while_it_runs() -> None:
    watch = Stopwatch()
    assert watch() == watch() == 0
    with watch.running():
        first = watch()
        assert watch() >= first > 0
    after = watch()
    assert watch() == after >= first
    with watch.running():
        assert watch() >= after
