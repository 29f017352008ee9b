"""Answers that are there already: how probable each token is, on tiny random models."""

from pathlib import Path

import numpy as np
import pytest

from spectui.engine.commands import Generate, LoadTarget, ReadAnswer
from spectui.engine.driver import Engine
from spectui.engine.worker import LocalWorker
from spectui.errors import BadInputError
from spectui.options.setup import ModelOptions
from spectui.speculative.models import Outputs
from tests.support.engine import ARCHITECTURES, local_engine, small_context
from tests.support.models import TARGET, Tiny, TinyPath

pytest_plugins = ("tests.support.fixtures",)

PROMPT = (88, 102, 126, 263, 261, 109, 271)
TEXT = "the rain on the other tin ring, then one to the other"


def reading(answer: str = TEXT, *, n_most: int = 100, temp: float = 0.8) -> ReadAnswer:
    return ReadAnswer(prompt=PROMPT, answer=answer, n_most=n_most, temp=temp)


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_probabilities_are_those_of_decoding_token_by_token(tmp_path: Path, arch: str) -> None:
    path, worker = tmp_path / f"{arch}.gguf", LocalWorker()
    ARCHITECTURES[arch](Tiny(), path)
    with Engine(worker=worker) as engine:
        engine.load_target(
            LoadTarget(options=ModelOptions(path=path), context=small_context(), max_draft=8)
        )
        first, again = engine.read_answer(reading()), engine.read_answer(reading())
        assert (first.read_s is None, again.read_s is None) == (False, True)
        assert again.log_p == pytest.approx(first.log_p, abs=1e-3)
        target = worker.models.target
        tokens = target.vocabulary.tokenize(TEXT, add_special=False)
        assert first.tokens[: len(tokens)] == tokens
        assert len(first.log_p) == len(tokens)
        expected = []
        target.clear()
        target.decode(PROMPT, Outputs.LAST)
        for token in tokens:
            logits = target.logits(0).astype(np.float64) / 0.8
            every = logits - np.log(np.exp(logits).sum())
            p = np.exp(every)
            expected.append((every[token], -p @ every, p @ every**2 - (p @ every) ** 2))
            target.decode((token,), Outputs.LAST)
    log_p, entropy, variance = zip(*expected, strict=True)
    assert first.log_p == pytest.approx(log_p, abs=0.02)
    assert first.entropy == pytest.approx(entropy, abs=0.02)
    assert first.variance == pytest.approx(variance, abs=0.05)


def test_only_as_much_is_read_as_was_asked_for(tiny: TinyPath) -> None:
    worker = LocalWorker()
    with Engine(worker=worker) as engine:
        engine.load_target(
            LoadTarget(
                options=ModelOptions(path=tiny(TARGET)), context=small_context(), max_draft=8
            )
        )
        vocabulary = worker.models.target.vocabulary
        end = vocabulary.piece(min(vocabulary.end_tokens), special=True).decode()
        cut = engine.read_answer(reading(f"{TEXT}{end} and more"))
        whole = engine.read_answer(reading())
        some = engine.read_answer(reading(n_most=5))
        assert some.tokens == whole.tokens[:5]
        assert not some.is_ended
        assert some.log_p == pytest.approx(whole.log_p[:5], abs=1e-3)
        assert cut.tokens == whole.tokens
        for nothing in ("", end):
            with pytest.raises(BadInputError, match="needs a prompt and a text"):
                engine.read_answer(reading(nothing))


def test_an_answer_ends_where_the_target_would_end_it(tiny: TinyPath) -> None:
    worker = LocalWorker()
    with Engine(worker=worker) as engine:
        engine.load_target(
            LoadTarget(
                options=ModelOptions(path=tiny(TARGET)), context=small_context(), max_draft=8
            )
        )
        read = engine.read_answer(reading())
        target = worker.models.target
        n = len(read.log_p)
        target.clear()
        target.decode((*PROMPT, *read.tokens[:n]), Outputs.LAST)
        logits = target.logits(0).astype(np.float64)
        p = np.exp(logits - logits.max())
        ends = sorted(target.vocabulary.end_tokens, key=lambda token: -p[token])
        is_likely = p[ends[0]] / p.sum() >= 0.01
        assert read.is_ended == is_likely
        assert read.tokens[n:] == ((ends[0],) if is_likely else ())


@pytest.mark.parametrize("end", ["", "<think>", "<think>\n"])
def test_reasoning_that_the_prompt_opens_is_not_opened_again(tiny: TinyPath, end: str) -> None:
    worker = LocalWorker()
    with Engine(worker=worker) as engine:
        engine.load_target(
            LoadTarget(
                options=ModelOptions(path=tiny(TARGET)), context=small_context(), max_draft=8
            )
        )
        vocabulary = worker.models.target.vocabulary
        prompt = (*PROMPT, *vocabulary.tokenize(end, add_special=False))
        answer = "<think>\nall in one ring\n</think>\n\non the tin"
        read = engine.read_answer(ReadAnswer(prompt=prompt, answer=answer, n_most=100, temp=0.8))
        expected = answer.removeprefix("<think>\n") if end else answer
        tokens = vocabulary.tokenize(expected, add_special=False)
        assert read.tokens[: len(read.log_p)] == tokens


def test_reading_leaves_what_follows_as_it_is(tiny: TinyPath) -> None:
    with local_engine() as engine:
        engine.load_target(
            LoadTarget(
                options=ModelOptions(path=tiny(TARGET)), context=small_context(), max_draft=8
            )
        )
        command = Generate(prompt=PROMPT, n_predict=12, reuse_prompt=True)
        before = engine.generate(command)
        engine.read_answer(reading())
        assert engine.generate(command).tokens == before.tokens
