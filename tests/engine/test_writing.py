"""Answers that are written together are those that are written alone, on tiny random models."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from spectui.engine.commands import Generate, LoadTarget, WriteAnswers
from spectui.engine.demand import FreeMemory
from spectui.engine.driver import Engine
from spectui.engine.events import AnswerWritten, Event, TokenEmitted
from spectui.errors import BadInputError, CancelledError
from spectui.llama.buffers import HOST
from spectui.options.setup import FlashAttention, ModelOptions, SamplingConfig
from spectui.speculative.decoder import Stop
from tests.support.engine import ARCHITECTURES, ENDLESS, SMALL_BATCH, local_engine
from tests.support.models import Tiny

PROMPT = (88, 102, 126, 263, 261, 109, 271)
PROMPTS = tuple((*PROMPT * (1 + n % 3), 100 + n) for n in range(10))
LONG = tuple((*PROMPT * (6 + n % 3), 100 + n) for n in range(10))
"""Longer than any window."""
GREEDY = SamplingConfig(temp=0.0)
SEEDED = SamplingConfig(temp=1.5, top_k=0, min_p=0.0, seed=11)


def with_target(engine: Engine, arch: str, folder: Path) -> Engine:
    path = folder / f"{arch}.gguf"
    ARCHITECTURES[arch](Tiny(), path)
    # In single precision all through: what batches round otherwise moves no choice then.
    options = ModelOptions(path=path, cache_type_k="f32", cache_type_v="f32")
    context = replace(SMALL_BATCH, flash_attn=FlashAttention.OFF)
    engine.load_target(LoadTarget(options=options, context=context, max_draft=16))
    return engine


def write(
    engine: Engine,
    prompts: tuple[tuple[int, ...], ...] = PROMPTS,
    n_predict: int = 24,
    sampling: SamplingConfig = ENDLESS,
    on_answer: Callable[[AnswerWritten], None] = lambda _answer: None,
) -> dict[int, AnswerWritten]:
    found: dict[int, AnswerWritten] = {}

    def hear(answer: AnswerWritten) -> None:
        assert answer.index not in found
        found[answer.index] = answer
        on_answer(answer)

    command = WriteAnswers(prompts=prompts, n_predict=n_predict, sampling=sampling)
    engine.write_answers(command, hear)
    return found


def assert_as_alone(
    engine: Engine,
    found: dict[int, AnswerWritten],
    n_predict: int,
    sampling: SamplingConfig,
    prompts: tuple[tuple[int, ...], ...] = PROMPTS,
) -> None:
    assert sorted(found) == list(range(len(prompts)))
    for index, prompt in enumerate(prompts):
        alone = engine.generate(Generate(prompt=prompt, n_predict=n_predict, sampling=sampling))
        assert (found[index].tokens, found[index].stop) == (alone.tokens, alone.stop)


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_answers_are_those_that_are_written_alone(tmp_path: Path, arch: str) -> None:
    with with_target(local_engine(), arch, tmp_path) as engine:
        for n_predict, sampling in ((1, GREEDY), (24, ENDLESS), (24, SEEDED), (60, SEEDED)):
            found = write(engine, n_predict=n_predict, sampling=sampling)
            assert_as_alone(engine, found, n_predict, sampling)
        assert_as_alone(engine, write(engine, LONG), 24, ENDLESS, LONG)
        if arch == "llama":
            # Others take the place of those that end early.
            assert {answer.stop for answer in found.values()} == {
                Stop.END_OF_GENERATION,
                Stop.LENGTH,
            }


@pytest.mark.parametrize(("arch", "n_at_once"), [("llama", 8), ("cohere2", 8), ("mamba", 8)])
def test_tokens_of_several_answers_are_decoded_at_once(
    tmp_path: Path, arch: str, n_at_once: int
) -> None:
    order: list[type[Event]] = []
    with with_target(
        local_engine(lambda event: order.append(type(event))), arch, tmp_path
    ) as engine:
        write(engine, n_predict=5)
    before_first = order[: order.index(AnswerWritten)]
    assert before_first.count(TokenEmitted) == 4 * n_at_once + 1
    assert order.count(TokenEmitted) == 50


@pytest.mark.parametrize("arch", ["cohere2", "mamba"])
def test_answers_for_which_memory_is_missing_are_written_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arch: str
) -> None:
    free = FreeMemory(by_memory={HOST: 1 << 12})
    monkeypatch.setattr("spectui.engine.models.free_memory", lambda _gpus: free)
    order: list[type[Event]] = []
    with with_target(
        local_engine(lambda event: order.append(type(event))), arch, tmp_path
    ) as engine:
        found = write(engine, n_predict=5)
        assert order[: order.index(AnswerWritten)].count(TokenEmitted) == 5
        assert_as_alone(engine, found, 5, ENDLESS)


def test_answers_that_do_not_fit_at_once_wait(tmp_path: Path) -> None:
    with with_target(local_engine(), "llama", tmp_path) as engine:
        # Three of them fill the context of 512 tokens; without a bound each does.
        for n_predict, prompts in ((160, PROMPTS[:7]), (-1, (PROMPTS[0], PROMPT * 60))):
            found = write(engine, prompts, n_predict)
            assert_as_alone(engine, found, n_predict, ENDLESS, prompts)
        assert {answer.stop for answer in found.values()} == {Stop.CONTEXT}


def test_prompts_are_kept_for_what_is_measured_afterwards(tmp_path: Path) -> None:
    with with_target(local_engine(), "llama", tmp_path) as engine:
        write(engine, n_predict=4)
        for prompt in PROMPTS:
            again = Generate(prompt=prompt, n_predict=4, sampling=ENDLESS, reuse_prompt=True)
            assert engine.generate(again).n_evaluated == 0


def test_writing_leaves_the_chat_alone(tmp_path: Path) -> None:
    turn = Generate(prompt=PROMPT, n_predict=10, sampling=ENDLESS, conversation=True)
    with with_target(local_engine(), "llama", tmp_path) as engine:
        first = engine.generate(turn)
        write(engine)
        longer = (*PROMPT, *first.tokens)
        second = engine.generate(
            Generate(prompt=longer, n_predict=10, sampling=ENDLESS, conversation=True)
        )
        assert second.n_evaluated == 1
        alone = engine.generate(Generate(prompt=longer, n_predict=10, sampling=ENDLESS))
        assert second.tokens == alone.tokens


@pytest.mark.parametrize("arch", ["llama", "mamba"])
def test_writing_that_is_stopped_has_told_of_what_is_complete(tmp_path: Path, arch: str) -> None:
    told: list[AnswerWritten] = []
    with with_target(local_engine(), arch, tmp_path) as engine:

        def stop(answer: AnswerWritten) -> None:
            told.append(answer)
            engine.stop()

        with pytest.raises(CancelledError):
            write(engine, PROMPTS * 20, on_answer=stop)
        assert 1 <= len(told) < 200
        whole = write(engine)
        assert told[0].tokens == whole[told[0].index].tokens
        assert_as_alone(engine, whole, 24, ENDLESS)


def test_prompts_that_cannot_be_continued_are_refused(tmp_path: Path) -> None:
    with with_target(local_engine(), "llama", tmp_path) as engine:
        for prompt in ((), PROMPT * 100):
            with pytest.raises(BadInputError, match="prompt"):
                write(engine, (PROMPT, prompt))
