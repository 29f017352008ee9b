"""Which answers of chats are the target's own, and what becomes of them."""

from collections.abc import Mapping
from typing import cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectui.engine.commands import ReadAnswer, Tokenize
from spectui.engine.driver import Engine
from spectui.engine.events import AnswerRead
from spectui.errors import BadInputError
from spectui.measure.chats import MOST_ANSWERS, excess, with_chats
from spectui.measure.workload import WorkItem, Workload
from spectui.options.setup import SamplingConfig
from spectui.prompts import AnsweredPrompt, ChatMessage
from spectui.prompts.chats import Chats
from spectui.speculative.decoder import Stop

N_CTX, N_PREDICT = 300, 8


def chat(name: str, text: str, model: str | None = None) -> AnsweredPrompt:
    return AnsweredPrompt(
        id=name,
        category="chats",
        messages=(ChatMessage(role="user", content=name),),
        answer=text,
        name=f"chat {name!r}, answer 1",
        model=model,
    )


class Scripted:
    """An engine to which each character is a token, ``~`` is another model's, and ``.`` an end."""

    def __init__(self) -> None:
        self.read: list[ReadAnswer] = []

    def tokenize(self, command: Tokenize) -> tuple[int, ...]:
        ((_role, text),) = command.messages
        if text.startswith("refused"):
            raise BadInputError("the chat template refuses the messages")
        return tuple(map(ord, text))

    def read_answer(self, command: ReadAnswer) -> AnswerRead:
        self.read.append(command)
        text = command.answer[: command.n_most]
        return AnswerRead(
            tokens=tuple(map(ord, text)),
            is_ended=text == command.answer and text.endswith("."),
            log_p=tuple(-3.04 if one == "~" else -0.4 for one in text),
            entropy=(1.0,) * len(text),
            variance=(0.5,) * len(text),
            read_s=0.25,
        )


def workload(*texts: str, temp: float = 0.0) -> Workload:
    items = tuple(
        WorkItem(id=text, category="user", tokens=tuple(map(ord, text))) for text in texts
    )
    return Workload(items=items, n_predict=N_PREDICT, sampling=SamplingConfig(temp=temp))


def taken(
    *prompts: AnsweredPrompt,
    base: Workload | None = None,
    left_out: Mapping[str, int] | None = None,
) -> tuple[Workload, str]:
    """The workload with chats, and what was said."""
    said: list[str] = []
    engine = cast("Engine", Scripted())
    chats = Chats(prompts=prompts, left_out=left_out or {})
    found = with_chats(engine, base or workload(), chats, n_ctx=N_CTX, say=said.append)
    return found, "\n".join(said)


def test_an_own_answer_is_recorded_text() -> None:
    found, said = taken(chat("a", "short."), chat("b", "broken"), chat("c", "a long answer."))
    answers = [item.given for item in found.items if item.given is not None]
    assert [(len(one.tokens), one.stop) for one in answers] == [
        (6, Stop.END_OF_GENERATION),
        (6, Stop.CANCELLED),
        (8, Stop.LENGTH),
    ]
    assert {(one.decode_s, one.read_s) for one in answers} == {(0.0, 0.25)}
    assert [item.tokens for item in found.items] == [(97,), (98,), (99,)]
    assert said == found.note == "chats: 3 answers, 20 tokens of this model"


def test_what_is_left_out_is_named_and_counted() -> None:
    found, said = taken(
        chat("a", "own text."),
        chat("b", "~" * 20),
        chat("x" * (N_CTX - N_PREDICT), "no room"),
        chat("refused", "by the template"),
        left_out={"without text": 2},
    )
    assert [item.id for item in found.items] == ["a"]
    named, told = said.splitlines()
    assert named == "chat 'b', answer 1: not this model's text: 2.0 nats per token over its own"
    assert told == (
        "chats: 1 answer, 8 tokens of this model; 2 without text, 1 of another model, 2 that do "
        "not fit left out"
    )


def test_of_two_answers_to_a_prompt_the_models_own_is_taken() -> None:
    found, said = taken(chat("a", "~" * 20), chat("a", "own text."), chat("a", "another."))
    (one,) = found.items
    assert one.given is not None
    assert bytes(one.given.tokens) == b"own text"
    assert said.endswith("1 of another model, 1 to the same prompt left out")


def test_chats_stand_beside_prompts_and_in_place_of_the_same_text() -> None:
    found, _said = taken(chat("a", "own text."), base=workload("other", "a"))
    assert [(item.id, item.given is None) for item in found.items] == [
        ("other", True),
        ("a", False),
    ]


def test_without_any_text_of_the_model_it_is_an_error() -> None:
    with pytest.raises(BadInputError, match="1 of another model left out; give chats that this"):
        taken(chat("a", "~" * 20))
    found, _said = taken(chat("a", "~" * 20), base=workload("other"))
    assert [item.id for item in found.items] == ["other"]


def test_no_more_is_read_than_it_takes() -> None:
    engine = Scripted()
    foreign = [chat(f"f{n}", "~" * 20, model="other") for n in range(9)]
    mixed = [chat(f"m{n}", "~" * 20, model="mine") for n in range(3)]
    own = [chat(f"o{n}", "x" * 400, model="mine") for n in range(MOST_ANSWERS + 5)]
    chats = Chats(prompts=(*foreign, *mixed, *own))
    found = with_chats(
        cast("Engine", engine), workload(temp=1.1), chats, n_ctx=N_CTX, say=lambda _text: None
    )
    assert len(found.items) == MOST_ANSWERS
    assert len(engine.read) == 4 + 3 + MOST_ANSWERS
    assert {(one.n_most, one.temp) for one in engine.read} == {(128, 1.1)}
    assert found.note == (
        f"chats: {MOST_ANSWERS} answers, {MOST_ANSWERS * N_PREDICT} tokens of this model (there "
        "mine); 12 of another model left out"
    )


def test_answers_of_cold_sampling_are_judged_at_the_usual_temperature() -> None:
    engine = Scripted()
    with_chats(
        cast("Engine", engine),
        workload(),
        Chats(prompts=(chat("a" * 250, "text."),)),
        n_ctx=N_CTX,
        say=lambda _text: None,
    )
    (one,) = engine.read
    assert (one.temp, one.n_most) == (SamplingConfig().temp, N_CTX - 250 - 1)


def sampled(seed: int, n: int, *, width: float, other: float = 0.0, greedy: bool) -> AnswerRead:
    """A text of ``n`` tokens of a model that differs from the one that reads by ``other``."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, width, (n, 400))
    log_p = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    author = logits + rng.normal(0, other, logits.shape) if other else logits
    noise = 0.0 if greedy else rng.gumbel(size=logits.shape)
    tokens = (author + noise).argmax(axis=1)
    p = np.exp(log_p)
    mean = (p * log_p).sum(axis=1)
    return AnswerRead(
        tokens=tuple(tokens.tolist()),
        is_ended=False,
        log_p=tuple(log_p[np.arange(n), tokens].tolist()),
        entropy=tuple((-mean).tolist()),
        variance=tuple(((p * log_p**2).sum(axis=1) - mean**2).tolist()),
        read_s=None,
    )


@settings(max_examples=20)
@given(seed=st.integers(0, 2**32), n=st.integers(32, 128), width=st.floats(1, 4))
def test_own_text_is_taken_however_it_was_sampled(seed: int, n: int, width: float) -> None:
    assert excess(sampled(seed, n, width=width, greedy=True)) is None
    texts = [sampled(seed + k, n, width=width, greedy=False) for k in range(20)]
    assert sum(excess(one) is not None for one in texts) <= 2


@settings(max_examples=20)
@given(seed=st.integers(0, 2**32), n=st.integers(64, 128), greedy=st.booleans())
def test_text_of_an_unlike_model_is_refused(seed: int, n: int, greedy: bool) -> None:  # noqa: FBT001 - of a property
    assert excess(sampled(seed, n, width=3, other=6, greedy=greedy)) is not None


@settings(max_examples=20)
@given(seed=st.integers(0, 2**32), n=st.integers(64, 128))
def test_text_of_all_but_the_same_weights_is_taken(seed: int, n: int) -> None:
    texts = [sampled(seed + k, n, width=3, other=0.2, greedy=False) for k in range(20)]
    assert sum(excess(one) is not None for one in texts) <= 2


def test_what_another_model_says_again_and_again_is_refused() -> None:
    one = sampled(1, 16, width=3, other=6, greedy=True)
    sure = AnswerRead(
        tokens=(*one.tokens, *range(100)),
        is_ended=False,
        log_p=(*one.log_p, *(-0.01,) * 100),
        entropy=(*one.entropy, *(0.5,) * 100),
        variance=(*one.variance, *(0.5,) * 100),
        read_s=None,
    )
    assert excess(sure) == excess(one) is not None
