"""The speculative loop on scripted models: lossless, disciplined, and counted exactly."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count as counter
from itertools import cycle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectui.options.drafters import DraftMtp, DraftSimple, Model, NgramMod, NgramSimple
from spectui.options.speculation import Speculation
from spectui.speculative.counters import Counters, Round, RoundEnd, RoundTimes, count
from spectui.speculative.decoder import Decoder, Stop, accept, draft_cap
from spectui.speculative.drafters import (
    ChainedDrafter,
    Clock,
    Drafter,
    DraftModelDrafter,
    VariedDrafter,
    draft_chain,
    float32,
)
from spectui.speculative.models import Outputs, Rollback, usable_snapshots
from spectui.speculative.mtp import MtpDrafter
from spectui.speculative.ngram import ngram_drafter
from tests.support.engine import drafting
from tests.support.scripted import (
    EOG,
    N_VOCAB,
    Choose,
    FakeClock,
    ScriptedDraft,
    ScriptedTarget,
    Stream,
    hashed_draft,
    hashed_target,
    scripted_draft,
    scripted_target,
)

PROMPT = (11, 12, 13)


@dataclass(frozen=True, kw_only=True)
class Case:
    """Everything that a generation depends on."""

    config: Model
    prompt: tuple[int, ...]
    n_ctx: int
    n_predict: int
    agreement: float = 0.8
    eog_rate: float = 0.0
    seed: int = 0
    sampler_seed: int | None = None
    rollback: Rollback = Rollback.TRUNCATE

    @property
    def choose(self) -> Choose:
        return hashed_target(self.seed, eog_rate=self.eog_rate)

    def stream(self) -> Stream | None:
        return None if self.sampler_seed is None else Stream(self.choose, self.sampler_seed)

    def target(self) -> ScriptedTarget:
        return ScriptedTarget(
            self.n_ctx,
            self.choose,
            stream=self.stream(),
            rollback=self.rollback,
            n_snapshots=usable_snapshots(Speculation(self.config)),
        )

    def draft(self) -> ScriptedDraft:
        propose = hashed_draft(self.choose, self.seed, agreement=self.agreement)
        return ScriptedDraft(self.n_ctx, propose)

    def drafter(self, draft: ScriptedDraft, clock: Clock) -> Drafter:
        make = MtpDrafter if isinstance(self.config, DraftMtp) else DraftModelDrafter
        return make(draft, self.config, clock)


@dataclass(frozen=True, kw_only=True)
class Run:
    """A finished generation."""

    tokens: tuple[int, ...]
    rounds: tuple[Round, ...]
    stop: Stop | None
    target: ScriptedTarget
    draft: ScriptedDraft


@st.composite
def cases(draw: st.DrawFn) -> Case:
    prompt = tuple(draw(st.lists(st.integers(1, N_VOCAB - 1), min_size=1, max_size=12)))
    kinds: tuple[type[Model], ...] = (DraftSimple, DraftMtp)
    model = draw(st.sampled_from(kinds))
    room = draw(st.one_of(st.integers(1, 8), st.integers(9, 120)))
    return Case(
        config=model(
            draft_max=draw(st.integers(1, 20)),
            draft_min=draw(st.integers(0, 6)),
            draft_p_min=draw(st.one_of(st.just(0.0), st.floats(0, 1))),
        ),
        prompt=prompt,
        n_ctx=len(prompt) + room,
        n_predict=draw(st.one_of(st.just(-1), st.integers(1, 60))),
        agreement=draw(st.one_of(st.sampled_from((0.0, 1.0)), st.floats(0, 1))),
        eog_rate=draw(st.sampled_from((0.0, 0.02, 0.1, 0.5))),
        seed=draw(st.integers(0, 2**32)),
        sampler_seed=draw(st.none() | st.integers(0, 2**32)),
        rollback=draw(st.sampled_from(Rollback)),
    )


def run(
    case: Case,
    after_round: Callable[[Run], None] = lambda _run: None,
    lengths: Sequence[int] = (),
    ahead: Sequence[Drafter] = (),
    *,
    drafts: bool = True,
) -> Run:
    """Generate; ``lengths`` vary the rounds' drafts."""
    target, draft, clock = case.target(), case.draft(), FakeClock()
    drafter: Drafter = Drafter()
    if drafts:
        drafter = case.drafter(draft, clock)
    if ahead:
        drafter = ChainedDrafter((*ahead, drafter))
    if lengths:
        drafter = VariedDrafter(drafter, lengths)
    decoder = Decoder(target, drafter, n_predict=case.n_predict, clock=clock)
    first = decoder.start(case.prompt)
    tokens, rounds = [first], list[Round]()

    def state() -> Run:
        return Run(
            tokens=tuple(tokens),
            rounds=tuple(rounds),
            stop=decoder.stop,
            target=target,
            draft=draft,
        )

    for finished in decoder.rounds(first):
        rounds.append(finished)
        tokens += finished.tokens
        after_round(state())
    return state()


def target_only(case: Case) -> tuple[tuple[int, ...], Stop]:
    """Write out the target's text without the code under test."""
    stream, prefix = case.stream(), case.prompt
    while True:
        token = case.choose(prefix) if stream is None else stream.draw(prefix)
        prefix = (*prefix, token)
        emitted = prefix[len(case.prompt) :]
        if token == EOG:
            return emitted, Stop.END_OF_GENERATION
        if len(emitted) == case.n_predict:
            return emitted, Stop.LENGTH
        if len(prefix) >= case.n_ctx:
            return emitted, Stop.CONTEXT


# Any generation


@given(case=cases())
@settings(max_examples=200)
def test_a_draft_changes_no_output_and_every_round_keeps_its_bounds(case: Case) -> None:
    def check(state: Run) -> None:
        """The caches hold the text but its last token."""
        text = [*case.prompt, *state.tokens[:-1]]
        assert state.target.tokens == text
        assert state.draft.tokens == text[: state.draft.n_past]
        assert state.draft.n_past == len(text)

    finished = run(case, check)
    assert (finished.tokens, finished.stop) == target_only(case)
    floor = float32(case.config.draft_p_min)
    for r in finished.rounds:
        assert 0 <= r.n_accepted <= r.n_drafted <= case.config.draft_max
        # MTP layers draft beyond the budget, and are cut to it then.
        is_cut = isinstance(case.config, DraftMtp) and r.n_steps > r.n_drafted
        assert r.n_drafted == 0 or is_cut or r.n_drafted >= case.config.draft_min
        assert len(r.probabilities) == r.n_drafted
        assert all(probability >= floor for probability in r.probabilities)
        assert r.draft[: r.n_accepted] == r.tokens[: r.n_accepted]
        assert r.n_steps in {0, r.n_drafted, r.n_drafted + 1} or is_cut or not r.draft
        ended_on_last_drafted = r.end is RoundEnd.END_OF_GENERATION and r.n_accepted == r.n_drafted
        assert len(r.tokens) == r.n_accepted + (not ended_on_last_drafted) + r.is_redone
        if r.is_redone:
            assert r.end is RoundEnd.MISMATCH
            assert case.rollback is not Rollback.TRUNCATE
    counters = count(finished.rounds)
    reached, accepted = counters.reached_per_position, counters.accepted_per_position
    assert all(a <= r for a, r in zip(accepted, reached, strict=True))
    assert list(reached) == sorted(reached, reverse=True)
    assert all(later <= earlier for earlier, later in zip(accepted, reached[1:], strict=False))
    assert all(rate is None or 0 <= rate <= 1 for rate in counters.conditional_acceptance)
    if counters.alpha is not None and counters.acceptance_rate is not None:
        assert counters.acceptance_rate <= counters.alpha <= 1
    plain = run(case, drafts=False)
    assert (plain.tokens, plain.stop) == target_only(case)
    assert all(len(r.tokens) == 1 and not r.draft for r in plain.rounds)


@given(case=cases(), lengths=st.lists(st.integers(0, 9), min_size=1, max_size=9))
def test_varied_lengths_and_drafters_ahead_change_no_output(case: Case, lengths: list[int]) -> None:
    found = run(case, lengths=lengths)
    assert (found.tokens, found.stop) == target_only(case)
    for finished, length in zip(found.rounds, cycle(lengths), strict=False):
        assert finished.n_drafted <= min(length, case.config.draft_max)
    chosen = (NgramSimple(size_n=1, size_m=2), NgramMod(n_match=1, n_min=0, n_max=5))
    found = run(case, ahead=[ngram_drafter(one) for one in chosen])
    assert (found.tokens, found.stop) == target_only(case)


@given(case=cases())
def test_the_draft_evaluates_every_verified_batch_again(case: Case) -> None:
    found = run(case)
    n_steps = sum(r.n_steps for r in found.rounds)
    redone = [r for r in found.rounds if r.is_redone]
    if isinstance(case.config, DraftMtp):
        assert found.draft.n_decodes == 1 + n_steps + len(found.rounds) + len(redone)
        assert not redone or case.rollback is Rollback.CHECKPOINT
        return
    # What counts, and the token that the target wanted instead.
    again = sum(1 + r.n_drafted for r in found.rounds) + sum(2 + r.n_accepted for r in redone)
    assert found.draft.n_decoded_tokens == len(case.prompt) + n_steps + again


def test_a_drafts_state_is_marked_once_a_round_whoever_proposes() -> None:
    marks: list[int] = []

    class Marked(ScriptedDraft):
        def mark(self) -> None:
            super().mark()
            marks.append(self.n_past)

    drafter = DraftModelDrafter(
        Marked(64, hashed_draft(hashed_target(0), 0, agreement=1.0)),
        DraftSimple(draft_max=2),
        FakeClock(),
    )
    drafter.begin(PROMPT)
    batches = [(20, *drafter.draft(20, 2).tokens), (23, 24), (25,)]
    for batch, marked in zip(batches, ([3], [3, 4], [3, 4]), strict=True):
        drafter.verified(batch)
        assert marks == marked
        drafter.accept(0)


@pytest.mark.parametrize("draft_max", [2, 3, 4])
def test_an_end_of_text_in_the_draft_is_the_last_token_and_in_no_cache(draft_max: int) -> None:
    text, clock = [21, 22, 23, EOG, 24, 25], FakeClock()
    target = ScriptedTarget(64, scripted_target(3, text))
    draft = ScriptedDraft(64, scripted_draft(3, [(token, 1.0) for token in text]))
    config = DraftSimple(draft_max=draft_max)
    drafter = DraftModelDrafter(draft, config, clock)
    decoder = Decoder(target, drafter, n_predict=-1, clock=clock)
    *_, last = decoder.rounds(decoder.start(PROMPT))
    assert decoder.stop is Stop.END_OF_GENERATION
    assert last.tokens[-1] == EOG
    # As the bonus, as the last drafted token, and inside the draft, where it does not count.
    assert last.n_accepted == {2: 2, 3: 3, 4: 2}[draft_max]
    assert target.tokens == [*PROMPT, 21, 22, 23]
    assert draft.tokens == target.tokens[: draft.n_past]


@given(case=cases(), n_rounds=st.integers(0, 5))
@settings(max_examples=50)
def test_cancellation_ends_the_text_at_a_round_boundary(case: Case, n_rounds: int) -> None:
    whole = run(case)
    clock = FakeClock()
    drafter = case.drafter(case.draft(), clock)
    decoder = Decoder(case.target(), drafter, n_predict=case.n_predict, clock=clock)
    first = decoder.start(case.prompt)
    polls = counter()
    rounds = list(decoder.rounds(first, lambda: next(polls) >= n_rounds))
    cut_short = n_rounds < len(whole.rounds)
    assert decoder.stop is (Stop.CANCELLED if cut_short else whole.stop)
    assert [r.tokens for r in rounds] == [r.tokens for r in whole.rounds[:n_rounds]]


def test_prompts_that_stand_in_the_caches_are_not_decoded_again() -> None:
    case = Case(config=DraftSimple(draft_max=4), prompt=PROMPT, n_ctx=64, n_predict=20)
    fresh = run(case)
    target, draft, clock = case.target(), case.draft(), FakeClock()
    target.decode(PROMPT, Outputs.LAST)
    draft.decode(PROMPT, Outputs.LAST)
    drafter = DraftModelDrafter(draft, case.config, clock)
    decoder = Decoder(target, drafter, n_predict=20, clock=clock)
    first = decoder.start(PROMPT)
    assert target.n_decodes == draft.n_decodes == 1
    tokens = [first, *(token for r in decoder.rounds(first) for token in r.tokens)]
    assert tuple(tokens) == fresh.tokens


def test_draft_cap_follows_llama_server() -> None:
    for n_ctx, n_past, n_remaining, cap in (
        (100, 10, -1, 88),  # no bound but the context: two places stay free
        (100, 10, 0, 88),
        (100, 10, 5, 4),  # the bonus token is one of the five
        (100, 10, 1, 0),
        (100, 96, 50, 2),
        (100, 98, 50, 0),
        (100, 99, -1, -1),
    ):
        assert draft_cap(n_ctx=n_ctx, n_past=n_past, n_remaining=n_remaining) == cap


CHAINS: dict[str, tuple[DraftSimple, int, list[float], int, int]] = {
    "draft_max": (drafting(3), 9, [0.9, 0.8, 0.7, 0.6], 3, 3),
    "cap of the round": (drafting(5), 2, [0.9, 0.8, 0.7], 2, 2),
    "floor": (drafting(5, 0, 0.5), 9, [0.9, 0.5, 0.4], 2, 3),
    "floor per token, not for the product": (drafting(3, 0, 0.5), 9, [0.6, 0.6, 0.6], 3, 3),
    "floor in single precision": (drafting(1, 0, 0.9), 9, [float32(0.9)], 1, 1),
    "nothing likely": (drafting(5, 0, 0.5), 9, [0.4], 0, 1),
    "shorter than draft_min": (drafting(5, 3, 0.5), 9, [0.9, 0.9, 0.1], 0, 3),
    "as long as draft_min": (drafting(5, 2, 0.5), 9, [0.9, 0.9, 0.1], 2, 3),
    "cap below draft_min": (drafting(5, 3), 2, [0.9, 0.9], 0, 2),
    "min above max": (drafting(2, 3), 9, [0.9, 0.9], 0, 2),
}
"""Setting, the round's cap, what is offered, and how many are drafted in how many steps."""


@pytest.mark.parametrize("name", CHAINS)
def test_draft_chain_stops_where_llama_cpp_stops(name: str) -> None:
    config, n_max, offered, n_drafted, n_steps = CHAINS[name]
    pairs = [(21 + index, probability) for index, probability in enumerate(offered)]
    model = ScriptedDraft(64, scripted_draft(len(PROMPT) + 1, pairs))
    model.decode(PROMPT, Outputs.LAST)
    draft = draft_chain(model, 20, config, n_max, FakeClock())
    assert draft.probabilities == tuple(offered[:n_drafted])
    assert draft.tokens == tuple(range(21, 21 + n_drafted))
    assert draft.n_steps == n_steps == model.n_decodes - 1
    assert model.n_past == len(PROMPT) + n_steps


E_, M_, G_ = RoundEnd.EXHAUSTED, RoundEnd.MISMATCH, RoundEnd.END_OF_GENERATION

ACCEPTANCES = [
    pytest.param((), (5,), (5,), 0, E_, id="no draft"),
    pytest.param((5, 6, 7), (5, 6, 7, 8), (5, 6, 7, 8), 3, E_, id="all accepted, then the bonus"),
    pytest.param((5, 6, 7), (5, 9), (5, 9), 1, M_, id="mismatch inside"),
    pytest.param((5, 6, 7), (9,), (9,), 0, M_, id="mismatch at once"),
    pytest.param((5, 6, 7), (5, 6, 9), (5, 6, 9), 2, M_, id="mismatch at the last"),
    pytest.param((5, EOG, 7), (5, EOG), (5, EOG), 1, G_, id="end of text inside the draft"),
    pytest.param((5, 6, EOG), (5, 6, EOG), (5, 6, EOG), 3, G_, id="end of text drafted last"),
    pytest.param((EOG,), (EOG,), (EOG,), 1, G_, id="end of text is the draft"),
    pytest.param((5, 6), (5, EOG), (5, EOG), 1, M_, id="end of text against the draft"),
    pytest.param((5,), (5, EOG), (5, EOG), 1, E_, id="end of text as bonus"),
    pytest.param((EOG,), (5,), (5,), 0, M_, id="end of text drafted wrongly"),
]


@pytest.mark.parametrize(("draft", "wanted", "emitted", "n_accepted", "end"), ACCEPTANCES)
def test_accept_compares_draft_and_target(
    draft: tuple[int, ...],
    wanted: tuple[int, ...],
    emitted: tuple[int, ...],
    n_accepted: int,
    end: RoundEnd,
) -> None:
    target = ScriptedTarget(64, scripted_target(1, wanted))
    target.decode((20, *draft), Outputs.ALL)
    assert accept(target, draft) == (emitted, n_accepted, end)


def made_round(n_drafted: int, n_accepted: int, end: RoundEnd, seconds: float = 0.0) -> Round:
    draft = tuple(range(1, n_drafted + 1))
    bonus = () if end is RoundEnd.END_OF_GENERATION and n_accepted == n_drafted else (99,)
    return Round(
        draft=draft,
        probabilities=(0.5,) * n_drafted,
        tokens=(*draft[:n_accepted], *bonus),
        n_accepted=n_accepted,
        end=end,
        n_steps=n_drafted,
        chain_s=seconds,
        times=RoundTimes(draft_s=seconds, verify_s=2 * seconds),
    )


@st.composite
def rounds(draw: st.DrawFn) -> Round:
    n_drafted = draw(st.integers(0, 6))
    n_accepted = draw(st.integers(0, n_drafted))
    if n_accepted == n_drafted:
        end = RoundEnd.EXHAUSTED
    else:
        end = draw(st.sampled_from((RoundEnd.MISMATCH, RoundEnd.END_OF_GENERATION)))
    return made_round(n_drafted, n_accepted, end, float(draw(st.integers(0, 1000))))


some_rounds = st.lists(rounds(), max_size=8)


@given(one=some_rounds, two=some_rounds, three=some_rounds)
@settings(max_examples=60)
def test_counters_are_sums_over_rounds(
    one: list[Round], two: list[Round], three: list[Round]
) -> None:
    a, b, c = count(one), count(two), count(three)
    finished = one + two + three
    counters = count(finished)
    assert (a + b) + c == a + (b + c) == counters
    assert a + Counters() == Counters() + a == a
    longest = max((r.n_drafted for r in finished), default=0)
    assert counters.n_rounds == len(finished)
    assert counters.n_drafted == sum(r.n_drafted for r in finished)
    assert counters.n_accepted == sum(r.n_accepted for r in finished)
    assert counters.n_rejections == sum(r.end is RoundEnd.MISMATCH for r in finished)
    assert counters.accepted_per_position == tuple(
        sum(r.n_accepted > position for r in finished) for position in range(longest)
    )
    assert sum(counters.accepted_per_position) == counters.n_accepted
    assert counters.times.total_s == sum(r.times.total_s for r in finished)
    assert counters.n_steps == sum(r.n_steps for r in finished)


def test_rates_of_known_generations() -> None:
    counters = count(
        [
            made_round(4, 4, RoundEnd.EXHAUSTED, 2.0),
            made_round(4, 1, RoundEnd.MISMATCH, 2.0),
            made_round(2, 0, RoundEnd.MISMATCH, 1.0),
        ]
    )
    assert counters.acceptance_rate == 5 / 10
    assert counters.mean_accepted_length == 1 + 5 / 3
    assert counters.alpha == 5 / 7
    assert counters.accepted_per_position == (2, 1, 1, 1)
    assert counters.reached_per_position == (3, 2, 1, 1)
    assert list(counters.conditional_acceptance) == [2 / 3, 1 / 2, 1, 1]
    # Rates are undefined where nothing was drafted.
    plain = count([made_round(0, 0, RoundEnd.EXHAUSTED)])
    assert (Counters().mean_accepted_length, plain.mean_accepted_length) == (None, 1)
    for none in (Counters(), plain):
        assert (none.acceptance_rate, none.alpha) == (None, None)
        assert none.conditional_acceptance == ()
    # A redone round emits a token more and accepts none.
    redone = replace(made_round(4, 1, RoundEnd.MISMATCH), tokens=(1, 2, 3), is_redone=True)
    counters = count([made_round(4, 4, RoundEnd.EXHAUSTED), redone])
    assert (counters.n_redone, counters.mean_accepted_length) == (1, 1 + 5 / 2)
    assert counters.tokens_per_round == 1 + 6 / 2
    assert counters.reached_per_position == (2, 2, 1, 1)


class Ticking:
    """A shared clock, and models whose calls take known times on it."""

    def __init__(self, case: Case, rollback: Rollback = Rollback.TRUNCATE) -> None:
        self.now = 0.0
        self._target = ScriptedTarget(case.n_ctx, case.choose, rollback=rollback)
        self._draft = case.draft()
        for name, seconds in (("mark", 7.0), ("decode", 100.0), ("sample", 1.0), ("truncate", 3.0)):
            self._price(self._target, name, seconds)
        self._price(self._draft, "decode", 10.0)

    def _price(self, model: object, name: str, seconds: float) -> None:
        call = getattr(model, name)

        def priced(*arguments: object) -> object:
            result = call(*arguments)
            self.now += seconds
            return result

        setattr(model, name, priced)

    def clock(self) -> float:
        return self.now

    def decoder(self, case: Case, *, drafts: bool = True) -> Decoder:
        drafter = case.drafter(self._draft, self.clock) if drafts else Drafter()
        return Decoder(self._target, drafter, n_predict=case.n_predict, clock=self.clock)


@pytest.mark.parametrize(
    ("rollback", "drafts", "mark_s"),
    [
        (Rollback.TRUNCATE, True, 0.0),
        # Saving the state before a draft is rollback.
        (Rollback.CHECKPOINT, True, 7.0),
        (Rollback.CHECKPOINT, False, 0.0),
    ],
)
def test_time_is_booked_on_who_spent_it(rollback: Rollback, mark_s: float, *, drafts: bool) -> None:
    config = DraftSimple(draft_max=4)
    case = Case(config=config, prompt=PROMPT, n_ctx=64, n_predict=6, agreement=1.0)
    models = Ticking(case, rollback)
    decoder = models.decoder(case, drafts=drafts)
    finished = next(decoder.rounds(decoder.start(PROMPT)))
    n_drafted = 4 if drafts else 0
    assert (finished.n_accepted, finished.mark_s) == (n_drafted, mark_s)
    assert finished.chain_s == 10.0 * n_drafted
    assert finished.times == RoundTimes(
        draft_s=50.0 if drafts else 0.0,
        verify_s=100.0,
        sample_s=1.0 + n_drafted,
        rollback_s=mark_s + 3.0,
        other_s=0.0,
    )
    assert count((finished, finished)).mark_s == 2 * mark_s


@given(case=cases())
@settings(max_examples=50)
def test_times_of_the_rounds_add_up_to_the_wall_time(case: Case) -> None:
    models = Ticking(case)
    decoder = models.decoder(case)
    first = decoder.start(case.prompt)
    began = models.now
    totals: list[float] = []
    for finished in decoder.rounds(first):
        totals.append(finished.times.total_s)
        assert sum(totals) == models.now - began
        assert finished.times.other_s == (0.0 if len(totals) == 1 else 7.0)
        assert finished.chain_s == 10 * finished.n_steps
        models.now += 7.0  # what the consumer does between two rounds
