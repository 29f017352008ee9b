"""The engine on tiny random models: lossless, interruptible, and telling everything in order."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectui.engine.commands import Generate, LoadTarget, ProbeMargin, Tokenize
from spectui.engine.driver import Engine
from spectui.engine.events import (
    Event,
    GenerationResult,
    LoadProgress,
    PromptEvaluated,
    Role,
    RoundFinished,
    TokenEmitted,
)
from spectui.engine.isolation import ProcessWorker
from spectui.engine.worker import LocalWorker, Worker
from spectui.errors import BadInputError, DoesNotFitError, SpectuiError, UsageError
from spectui.options.setup import KvOverride, ModelOptions, SamplingConfig
from spectui.options.speculation import Speculation
from spectui.speculative.counters import Counters, RoundTimes
from spectui.speculative.decoder import Stop
from spectui.speculative.models import Rollback
from tests.support.engine import (
    ENDLESS,
    MAX_DRAFT,
    assert_lossless,
    local_engine,
    local_worker,
    small_context,
    speculation,
)
from tests.support.models import (
    CLOSE_DRAFT,
    EMBEDDING,
    MOE,
    OTHER,
    ROUGH_DRAFT,
    TARGET,
    Tiny,
    TinyPath,
)

pytest_plugins = ("tests.support.fixtures",)

PROMPT = (88, 102, 126, 263, 261, 109, 271)
LARGER_VOCABULARY = Tiny(noise=0.02, n_extra=128)
DRAFTS = {
    "itself": TARGET,
    "close": CLOSE_DRAFT,
    "rough": ROUGH_DRAFT,
    "unrelated": OTHER,
    "larger vocabulary": LARGER_VOCABULARY,
}
MakeWorker = Callable[[], Worker]


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(LocalWorker, id="here"),
        pytest.param(ProcessWorker, marks=pytest.mark.ci, id="apart"),
    ],
)
def make_worker(request: pytest.FixtureRequest) -> MakeWorker:
    """What executes the commands: whoever uses the engine must not tell the difference."""
    made: MakeWorker = request.param
    return made


@pytest.fixture(scope="module")
def engine(tiny: TinyPath, make_worker: MakeWorker) -> Iterator[Engine]:
    """With a target and a close draft."""
    with Engine(worker=make_worker()) as started:
        started.load_target(
            LoadTarget(
                options=ModelOptions(path=tiny(TARGET)),
                context=small_context(),
                max_draft=MAX_DRAFT,
            )
        )
        started.load_draft(ModelOptions(path=tiny(CLOSE_DRAFT)))
        yield started


@pytest.fixture
def own_engine(tiny: TinyPath, make_worker: MakeWorker) -> Iterator[Engine]:
    """For tests that load, stop or close."""
    with Engine(worker=make_worker()) as started:
        started.load_target(
            LoadTarget(
                options=ModelOptions(path=tiny(TARGET)),
                context=small_context(),
                max_draft=MAX_DRAFT,
            )
        )
        started.load_draft(ModelOptions(path=tiny(CLOSE_DRAFT)))
        yield started


def request(
    n_predict: int = 60,
    draft: Speculation | None = None,
    *,
    prompt: tuple[int, ...] = PROMPT,
    sampling: SamplingConfig = ENDLESS,
    reuse_prompt: bool = False,
) -> Generate:
    return Generate(
        prompt=prompt,
        n_predict=n_predict,
        sampling=sampling,
        speculation=draft,
        reuse_prompt=reuse_prompt,
    )


def recorded(engine: Engine, command: Generate) -> tuple[GenerationResult, list[Event]]:
    events: list[Event] = []
    engine.on_event = events.append
    try:
        return engine.generate(command), events
    finally:
        engine.on_event = lambda _event: None


def without_times(counters: Counters) -> Counters:
    return replace(counters, chain_s=0.0, times=RoundTimes())


# Events


@pytest.mark.parametrize("draft", [None, speculation(4)])
def test_events_come_in_order_and_add_up_to_the_result(
    engine: Engine, draft: Speculation | None
) -> None:
    result, events = recorded(engine, request(draft=draft))
    rounds = [event.round for event in events if isinstance(event, RoundFinished)]
    expected: list[object] = [PromptEvaluated, (result.tokens[0], False)]
    for finished in rounds:
        expected += [
            (token, position < finished.n_accepted)
            for position, token in enumerate(finished.tokens)
        ]
        expected.append(RoundFinished)
    told = [
        (event.token, event.from_draft) if isinstance(event, TokenEmitted) else type(event)
        for event in events
    ]
    assert told == expected
    assert events[0] == PromptEvaluated(n_tokens=len(PROMPT), seconds=result.prompt_s, n_reused=0)
    emitted = [event for event in events if isinstance(event, TokenEmitted)]
    assert tuple(event.token for event in emitted) == result.tokens
    assert b"".join(event.piece for event in emitted).decode(errors="replace") == result.text
    assert result.counters.n_rounds == len(rounds)
    assert result.counters.n_accepted == sum(event.from_draft for event in emitted)
    assert (result.counters.n_accepted > 0) is (draft is not None)
    assert result.n_decoded == 59 == sum(len(finished.tokens) for finished in rounds)
    assert result.decode_s == pytest.approx(sum(r.times.total_s for r in rounds))
    assert result.tokens_per_s == pytest.approx(59 / result.decode_s)
    assert result.n_prompt_tokens == len(PROMPT)
    one = engine.generate(request(n_predict=1))
    assert (one.n_decoded, one.tokens_per_s, one.counters) == (0, None, Counters())


def test_loading_is_told_in_order(tiny: TinyPath) -> None:
    events: list[Event] = []
    with local_engine(events.append) as started:
        path = tiny(TARGET)
        loaded = started.load_target(
            LoadTarget(options=ModelOptions(path=path), context=small_context(), max_draft=4)
        )
    assert loaded.role is Role.TARGET
    assert loaded.rollback is Rollback.TRUNCATE
    assert (loaded.n_ctx, loaded.info.path) == (512, path)
    fractions = [event.fraction for event in events if isinstance(event, LoadProgress)]
    assert len(fractions) == len(events) > 0
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1.0


# Lossless


@pytest.mark.parametrize("draft", DRAFTS.values(), ids=DRAFTS)
def test_greedy_output_does_not_depend_on_the_draft(
    engine: Engine, tiny: TinyPath, draft: Tiny
) -> None:
    engine.load_draft(ModelOptions(path=tiny(draft)))
    for sampling in (SamplingConfig(temp=0.0), ENDLESS):
        command = request(n_predict=60, sampling=sampling)
        plain = engine.generate(command)
        for config in (
            speculation(1),
            speculation(3),
            speculation(16),
            speculation(8, draft_min=4),
            speculation(8, draft_min=2, draft_p_min=0.4),
            speculation(8, draft_p_min=1.0),
        ):
            result = engine.generate(replace(command, speculation=config))
            assert_lossless(engine, command, plain, result)


@pytest.mark.parametrize(
    ("target", "draft"), [(LARGER_VOCABULARY, TARGET), (MOE, MOE), (TARGET, TARGET)]
)
def test_other_targets_are_lossless_too(tiny: TinyPath, target: Tiny, draft: Tiny) -> None:
    with local_engine() as started:
        options = ModelOptions(path=tiny(target), cpu_moe=target is MOE)
        started.load_target(
            LoadTarget(options=options, context=small_context(), max_draft=MAX_DRAFT)
        )
        started.load_draft(ModelOptions(path=tiny(draft)))
        command = request(n_predict=201)
        plain = started.generate(command)
        result = started.generate(replace(command, speculation=speculation(4)))
        assert_lossless(started, command, plain, result)
    # The draft has no such token.
    assert (max(plain.tokens) >= 273) is (target is LARGER_VOCABULARY)
    if target is TARGET:
        assert result.counters.acceptance_rate == 1
        assert (result.counters.n_rounds, result.counters.mean_accepted_length) == (40, 5)


@given(
    config=st.builds(speculation, st.integers(1, MAX_DRAFT), st.integers(0, 6), st.floats(0, 0.5)),
    n_predict=st.integers(1, 80),
    prompt=st.lists(st.integers(5, 272), min_size=1, max_size=40),
)
@settings(max_examples=40, deadline=None)
def test_greedy_output_does_not_depend_on_any_setting(
    engine: Engine, config: Speculation, n_predict: int, prompt: list[int]
) -> None:
    command = request(n_predict, prompt=tuple(prompt))
    result = engine.generate(replace(command, speculation=config))
    assert_lossless(engine, command, engine.generate(command), result)
    assert len(result.tokens) == n_predict


def test_a_seeded_text_does_not_depend_on_the_draft(own_engine: Engine) -> None:
    def text(seed: int, draft: Speculation | None) -> tuple[int, ...]:
        sampling = SamplingConfig(temp=0.8, seed=seed, ignore_eos=True)
        command = request(draft=draft, sampling=sampling)
        return own_engine.generate(command).tokens

    assert text(1, None) == text(1, speculation(2)) == text(1, speculation(8, 2, 0.3))
    assert text(1, None) != text(2, None)
    assert text(2, None) == text(2, speculation(5))


# Limits


@pytest.mark.parametrize("draft", [None, speculation(5), speculation(16)])
@pytest.mark.parametrize("n_trained", [None, 64])
def test_a_text_without_bound_fills_the_context_but_no_more_than_was_trained_for(
    tiny: TinyPath, n_trained: int | None, draft: Speculation | None
) -> None:
    """As a slot of llama-server, however large the cache is."""
    overrides = [KvOverride(key="llama.context_length", value=n) for n in (n_trained,) if n]
    with local_engine() as started:
        options = ModelOptions(path=tiny(TARGET), override_kv=tuple(overrides))
        loaded = started.load_target(
            LoadTarget(options=options, context=small_context(256), max_draft=MAX_DRAFT)
        )
        assert started.load_draft(options).n_ctx == 256
        result = started.generate(request(-1, draft=draft))
        assert result.stop is Stop.CONTEXT
        assert len(PROMPT) + len(result.tokens) == loaded.n_ctx == (n_trained or 256)
        if n_trained:
            assert loaded.remedy == "the model was trained for no more"
            message = "in a context of 64; the model was trained for no more: shorten the prompt"
            with pytest.raises(BadInputError, match=message):
                started.generate(request(-1, draft=draft, prompt=(20,) * 63))


def test_a_prompt_must_leave_room_to_generate(engine: Engine) -> None:
    longest = request(-1, draft=speculation(4), prompt=(20,) * 510)
    result = engine.generate(longest)
    assert (len(result.tokens), result.stop) == (2, Stop.CONTEXT)
    message = "the prompt has 511 tokens, which leaves no room to generate in a context of 512"
    with pytest.raises(BadInputError, match=message):
        engine.generate(replace(longest, prompt=(20,) * 511))


def test_an_end_token_ends_the_text(engine: Engine) -> None:
    # A seed whose text ends within the budget; ignore_eos shows that it would have gone on.
    for seed in range(50):
        sampling = SamplingConfig(temp=1.5, seed=seed)
        plain = engine.generate(request(200, sampling=sampling))
        if plain.stop is Stop.END_OF_GENERATION and len(plain.tokens) > 2:
            break
    else:
        pytest.fail("no text of 50 ended")
    assert plain.tokens[-1] in {0, 2}
    assert not {0, 2} & set(plain.tokens[:-1])
    assert engine.generate(request(200, draft=speculation(4), sampling=sampling)).tokens == (
        plain.tokens
    )


BAD_REQUESTS = [
    (request(n_predict=0), UsageError, "-n 0: must be positive"),
    (request(n_predict=-2), UsageError, "-n -2: must be positive"),
    (request(prompt=()), BadInputError, "the prompt has no tokens"),
    (request(prompt=(273,)), DoesNotFitError, "could not compute"),
    (request(draft=speculation(17)), UsageError, "draft_max 17 is more than the 16 tokens"),
]


@pytest.mark.parametrize(("command", "error", "message"), BAD_REQUESTS)
def test_requests_that_cannot_run_are_refused(
    engine: Engine, command: Generate, error: type[SpectuiError], message: str
) -> None:
    with pytest.raises(error, match=message):
        engine.generate(command)
    assert len(engine.generate(request(n_predict=3)).tokens) == 3


def test_nothing_runs_without_a_target() -> None:
    with local_engine() as started:
        calls: list[Callable[[], object]] = [
            lambda: started.generate(request()),
            lambda: started.tokenize(Tokenize(text="in")),
            lambda: started.probe_margin(ProbeMargin(prompt=PROMPT, continuation=())),
            lambda: started.load_draft(ModelOptions(path=Path("draft.gguf"))),
        ]
        for call in calls:
            with pytest.raises(UsageError, match="no target is loaded; give one with -m"):
                call()
        started.unload_draft()


def test_defects_are_told_with_their_traceback(engine: Engine) -> None:
    local_worker(engine)
    with pytest.raises(SpectuiError, match="AttributeError: 'int' object") as caught:
        engine.tokenize(Tokenize(text=5))  # type: ignore[arg-type]
    (trace,) = caught.value.__notes__
    assert "in tokenize" in trace
    assert engine.tokenize(Tokenize(text="in")) == (264,)


# Models come and go


def test_a_second_target_closes_the_first_and_the_end_what_is_loaded(
    own_engine: Engine, tiny: TinyPath
) -> None:
    models = local_worker(own_engine).models
    first, draft = models.target.model, models.draft_context.model
    own_engine.load_target(
        LoadTarget(options=ModelOptions(path=tiny(OTHER)), context=small_context(), max_draft=4)
    )
    second = models.target.model
    assert (first.c, draft.c, second.c is None) == (None, None, False)
    for _ in range(2):
        with pytest.raises(UsageError, match="no draft is loaded; give one with -md"):
            own_engine.generate(request(draft=speculation(2)))
        assert len(own_engine.generate(request(n_predict=5)).tokens) == 5
        own_engine.load_draft(ModelOptions(path=tiny(CLOSE_DRAFT)))
        own_engine.unload_draft()
        assert len(models.contexts) == 1
        own_engine.stop()
    own_engine.close()
    assert second.c is None


def test_a_failed_load_leaves_nothing_loaded(own_engine: Engine, tiny: TinyPath) -> None:
    for path in (tiny(EMBEDDING), Path("missing.gguf")):
        with pytest.raises(BadInputError):
            own_engine.load_target(
                LoadTarget(options=ModelOptions(path=path), context=small_context(), max_draft=4)
            )
        with pytest.raises(UsageError, match="no target is loaded"):
            own_engine.generate(request())


def test_an_incompatible_draft_is_refused_and_the_target_stays(
    own_engine: Engine, tiny: TinyPath
) -> None:
    plain = own_engine.generate(request())
    target, draft = tiny(TARGET), tiny(Tiny(n_extra=129))
    with pytest.raises(BadInputError) as caught:
        own_engine.load_draft(ModelOptions(path=draft))
    assert str(caught.value) == (
        f"{draft} cannot draft for {target.name}: the vocabularies differ in size: 273 (target), "
        "402 (draft), at most 128 apart is allowed; choose a draft of the same model family"
    )
    assert own_engine.generate(request()).tokens == plain.tokens
    with pytest.raises(UsageError, match="no draft is loaded"):
        own_engine.generate(request(draft=speculation(2)))
    own_engine.load_draft(ModelOptions(path=tiny(CLOSE_DRAFT)))
    assert own_engine.generate(request(draft=speculation(2))).counters.n_drafted > 0


def test_conversations_are_tokenized_with_the_template(engine: Engine) -> None:
    rendered = "<|im_start|>user\nin the<|im_end|>\n<|im_start|>assistant\n"
    conversation = Tokenize(messages=(("user", "in the"),))
    assert engine.tokenize(conversation) == engine.tokenize(Tokenize(text=rendered))


# Prompts are reused


def test_a_reused_prompt_changes_nothing(own_engine: Engine) -> None:
    other_prompt = (*PROMPT[::-1], 99)
    for draft in (None, speculation(4), speculation(16, 0, 0.3)):
        for prompt in (PROMPT, other_prompt):
            command = request(draft=draft, prompt=prompt)
            fresh = own_engine.generate(command)
            keeping = replace(command, reuse_prompt=True)
            for _ in range(2):
                again = own_engine.generate(keeping)
                assert again.tokens == fresh.tokens
                assert without_times(again.counters) == without_times(fresh.counters)


def test_reuse_is_told_and_ends_with_the_target(own_engine: Engine, tiny: TinyPath) -> None:
    def reused(draft: Speculation | None = None) -> bool:
        command = request(n_predict=1, draft=draft, reuse_prompt=True)
        events = recorded(own_engine, command)[1]
        (evaluated,) = (event for event in events if isinstance(event, PromptEvaluated))
        return evaluated.n_reused > 0

    given = (None, None, speculation(2), speculation(2))
    assert [reused(draft) for draft in given] == [False, True, True, True]
    own_engine.load_draft(ModelOptions(path=tiny(ROUGH_DRAFT)))
    assert reused(speculation(2))
    # The target's caches, and none of another draft's.
    keeping = request(draft=speculation(4), reuse_prompt=True)
    inherited = own_engine.generate(keeping)
    fresh = own_engine.generate(replace(keeping, reuse_prompt=False))
    assert without_times(inherited.counters) == without_times(fresh.counters)
    own_engine.load_target(
        LoadTarget(options=ModelOptions(path=tiny(TARGET)), context=small_context(), max_draft=4)
    )
    assert not reused()


# Margins


def test_margins_tell_a_clear_choice_from_noise(engine: Engine) -> None:
    plain = engine.generate(request(n_predict=10))
    for n_given in (0, 1, 9):
        command = ProbeMargin(prompt=PROMPT, continuation=plain.tokens[:n_given])
        probed = engine.probe_margin(command)
        assert 0 <= probed.noise < 1e-2 < probed.margin


# Stopping


@pytest.mark.parametrize("error", [KeyboardInterrupt, BrokenPipeError])
@pytest.mark.parametrize("is_twice", [False, True])
def test_an_exception_of_on_event_leaves_the_engine_idle_and_usable(
    own_engine: Engine,
    error: type[BaseException],
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_twice: bool,
) -> None:
    expected, drain = own_engine.generate(request(n_predict=4)).tokens, own_engine._drain

    def fail(event: Event) -> None:
        if isinstance(event, TokenEmitted):
            raise error

    def fail_again() -> None:
        if own_engine._n_unanswered:
            monkeypatch.undo()
            raise error
        drain()

    own_engine.on_event = fail
    if is_twice:
        monkeypatch.setattr(own_engine, "_drain", fail_again)
    with pytest.raises(error):
        own_engine.generate(request(-1))
    assert own_engine._n_unanswered == is_twice
    own_engine.on_event = lambda _event: None
    assert own_engine.tokenize(Tokenize(text="in")) == (264,)
    assert own_engine.generate(request(n_predict=4)).tokens == expected


def test_a_check_that_fails_ends_a_call_and_leaves_the_engine_usable(own_engine: Engine) -> None:
    expected, n_tokens = own_engine.generate(request(n_predict=4)).tokens, list[int]()

    def check() -> None:
        if len(n_tokens) > 2:
            raise BrokenPipeError

    own_engine.on_event = lambda _event: n_tokens.append(1)
    own_engine.check = check
    with pytest.raises(BrokenPipeError):
        own_engine.generate(request(-1))
    own_engine.check = lambda: None
    assert own_engine.generate(request(n_predict=4)).tokens == expected


_INTERRUPTED_BEHIND_AN_ANSWER = """
import queue, signal, sys
from pathlib import Path

from spectui.engine.commands import LoadTarget
from spectui.engine.driver import Engine
from spectui.engine.events import Answer
from spectui.interrupts import interrupts
from spectui.options.setup import ModelOptions
from tests.engine.test_engine import request
from tests.support.engine import local_engine, small_context

class Interrupting(queue.SimpleQueue):
    presses = False

    def get(self, block=True, timeout=None):
        event = super().get(block, timeout)
        if self.presses and isinstance(event, Answer):
            Interrupting.presses = False
            signal.raise_signal(signal.SIGINT)
        return event

queue.SimpleQueue = Interrupting
interrupts.install()
with local_engine() as engine:
    options = ModelOptions(path=Path(sys.argv[1]))
    engine.load_target(LoadTarget(options=options, context=small_context(), max_draft=4))
    Interrupting.presses = True
    try:
        engine.generate(request(n_predict=4))
    except KeyboardInterrupt:
        print("interrupted", len(engine.generate(request(n_predict=4)).tokens))
"""


def test_an_interrupt_right_behind_an_answer_is_not_waited_for_ever(tiny: TinyPath) -> None:
    command = [sys.executable, "-c", _INTERRUPTED_BEHIND_AN_ANSWER, str(tiny(TARGET))]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ended.stdout == "interrupted 4\n", ended.stderr
