"""Takes answers of exported chats as text of a measurement, if the target has written them itself.

The target's probabilities of the tokens show whether it has (``excess``). Another model's text
would be misleading: other drafts of it would be accepted.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate

from spectui.engine.commands import ReadAnswer
from spectui.engine.driver import Engine
from spectui.engine.events import AnswerRead, AnswerWritten, ModelLoaded
from spectui.errors import BadInputError
from spectui.format import counted
from spectui.measure.backend import again_after_a_death
from spectui.measure.workload import WorkItem, Workload, tokenize, tokens_of
from spectui.options.setup import SamplingConfig
from spectui.prompts import AnsweredPrompt, Prompt
from spectui.prompts.chats import REPEATED, Chats, reasons_text
from spectui.speculative.decoder import Stop

MOST_ANSWERS = 48
"""Answers that are taken, as many as the built-in suite has prompts."""
_READ_TOKENS = 128
"""Tokens of an answer that are read, at most: with fewer its author is less certain."""
_LEAST_TEMP = SamplingConfig().temp
"""Least temperature at which answers are judged: colder text is more probable, and passes."""
_Z = 2.5
"""Standard deviations of the surprise above the entropy from which on a text is another's."""
_BEGINNINGS = (16, 32, 64)
"""Beginnings of an answer, in tokens, that are tested by themselves: not shorter ones, so that one
odd token is not enough."""
_TOLERANCE = 0.4
"""Nats per token above the entropy up to which it is not; four bits a weight add as much."""
_REFUSALS = 4
"""Refused answers under one model name, with none taken, after which the rest are skipped."""
_FOREIGN = "of another model"


def tokenize_with_chats(
    engine: Engine,
    prompts: Sequence[Prompt],
    chats: Chats | None,
    *,
    n_predict: int,
    sampling: SamplingConfig,
    target: ModelLoaded,
    say: Callable[[str], None] = lambda _: None,
) -> Workload:
    """The prompts as tokens, and those of chats with the answers that the target has written.

    Args:
        engine: has loaded the target.
        prompts: other prompts, if any.
        chats: as they were exported; None without.
        n_predict: tokens that each prompt is continued with, at most.
        sampling: how answers are sampled.
        target: as it was loaded.
        say: called with a sentence on prompts that are left out, and on another model's answers.

    Raises:
        BadInputError: one of the prompts does not fit in the context, or there is nothing to
            measure.
    """
    workload = Workload(items=(), n_predict=n_predict, sampling=sampling)
    if prompts or chats is None:
        workload = tokenize(
            engine,
            prompts,
            n_predict=n_predict,
            sampling=sampling,
            n_ctx=target.n_ctx,
            remedy=target.remedy,
            say=say,
        )
    if chats is None:
        return workload
    return with_chats(engine, workload, chats, n_ctx=target.n_ctx, say=say)


def with_chats(
    engine: Engine, workload: Workload, chats: Chats, *, n_ctx: int, say: Callable[[str], None]
) -> Workload:
    """The workload and answers of chats; see ``tokenize_with_chats``."""
    left_out, refused, own = Counter(chats.left_out), Counter[str](), set[str]()
    taken: dict[tuple[int, ...], WorkItem] = {}
    for prompt in chats.prompts:
        if len(taken) == MOST_ANSWERS:
            break
        name = prompt.model or ""
        if name and name not in own and refused[name] == _REFUSALS:
            left_out[_FOREIGN] += 1
            continue
        try:
            item, over = _read(engine, prompt, workload, n_ctx)
        except BadInputError:
            left_out["that do not fit"] += 1
            continue
        if over is not None:
            left_out[_FOREIGN] += 1
            refused[name] += 1
            say(f"{prompt.name}: not this model's text: {over:.1f} nats per token over its own")
        elif item.tokens in taken:
            left_out[REPEATED] += 1
        else:
            taken[item.tokens] = item
            own.add(name)
    items = (*(one for one in workload.items if one.tokens not in taken), *taken.values())
    summary = _summary(tuple(taken.values()), sorted(own - {""}), left_out)
    if not items:
        raise BadInputError(f"{summary}; give chats that this model has written, or --prompts")
    say(summary)
    return replace(workload, items=items, chats=summary)


def _read(
    engine: Engine, prompt: AnsweredPrompt, workload: Workload, n_ctx: int
) -> tuple[WorkItem, float | None]:
    """A prompt with its answer as it is recorded, and its ``excess``.

    Raises:
        BadInputError: it does not fit in the context, or in the chat template.
    """
    n_predict = workload.n_predict
    tokens = tokens_of(engine, prompt)
    room = n_ctx - len(tokens) - 1
    if room < n_predict:
        raise BadInputError(f"{prompt.name} and {n_predict} tokens do not fit in {n_ctx}; raise -c")
    command = ReadAnswer(
        prompt=tokens,
        answer=prompt.answer,
        n_most=min(room, max(n_predict, _READ_TOKENS)),
        temp=max(workload.sampling.temp, _LEAST_TEMP),
    )
    read = again_after_a_death(partial(engine.read_answer, command))
    answer = AnswerWritten(
        index=0,
        tokens=read.tokens,
        stop=Stop.END_OF_GENERATION if read.is_ended else Stop.CANCELLED,
        decode_s=0.0,
        read_s=read.read_s,
    )
    item = WorkItem(
        id=prompt.id, category=prompt.category, tokens=tokens, given=answer.first(n_predict)
    )
    return item, excess(read)


def excess(read: AnswerRead) -> float | None:
    """Nats per token by which a text is less probable than the target's own; None where it may be.

    Of text that the target samples, the surprise ``-log_p`` exceeds the entropy by nothing in the
    mean; where sampling leaves out what is least probable, or takes the most probable token, it
    stays below. So only a surprise that is too high reveals another author: by a z test, and by
    more than another quantisation of the target adds. Text that repeats itself is probable to any
    model, so that beginnings are tested as well.
    """
    n_whole = len(read.log_p)
    over = [*accumulate(-p - h for p, h in zip(read.log_p, read.entropy, strict=True))]
    variance = [*accumulate(read.variance)]
    found = [
        over[n - 1] / n
        for n in {*(n for n in _BEGINNINGS if n < n_whole), n_whole}
        if over[n - 1] > max(_Z * math.sqrt(variance[n - 1]), _TOLERANCE * n)
    ]
    return max(found, default=None)


def _summary(taken: Sequence[WorkItem], names: Sequence[str], left_out: Mapping[str, int]) -> str:
    """Clause on the answers and tokens taken, the models' names there, and what was left out."""
    n_tokens = sum(len(one.given.tokens) for one in taken if one.given is not None)
    text = f"chats: {counted(len(taken), 'answer')}, {n_tokens:,} tokens of this model"
    if names:
        text = f"{text} (there {', '.join(names)})"
    others = reasons_text(left_out)
    return f"{text}; {others} left out" if others else text
