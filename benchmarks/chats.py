"""Chats as recorded text: whose answers are taken, and what reading them costs beside writing.

Three demo models answer the beginnings of prompts of the built-in suite, greedily and with
llama-server's temperature. Their answers are written as exports, and the dense target says which
are its own. The draft is SmolLM2, of which the target was made: such text can hardly be told from
its own in so few tokens. Then the target writes its answers again, eight at once, and reads them,
in turns.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.common import CONTEXT, write_results
from spectui.demo import DemoModel, ensure_demo_models
from spectui.engine.commands import LoadTarget, ReadAnswer, RecordChains, WriteAnswers
from spectui.engine.driver import Engine
from spectui.engine.events import AnswerWritten
from spectui.llama.model import Model
from spectui.measure.chats import with_chats
from spectui.measure.workload import Workload, tokenize
from spectui.options.setup import ModelOptions, SamplingConfig
from spectui.prompts import Prompt, builtin_suite
from spectui.prompts.chats import load_chats

OTHERS = (DemoModel.DRAFT_THIN, DemoModel.DRAFT)
TEMPS = (0.0, SamplingConfig().temp)
DEPTH = 16
_AT_ONCE = 8
_CHARACTERS = 200


def main() -> None:
    """Measure and write ``results/chats.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompts", type=int, default=20)
    parser.add_argument("--n-predict", type=int, default=64)
    arguments = parser.parse_args()
    questions = (one for one in builtin_suite() if len(one.messages) == 1)
    prompts = [begun(one) for one in islice(questions, arguments.prompts)]
    built = ensure_demo_models((DemoModel.DENSE, *OTHERS))
    texts = {}
    for author in (*OTHERS, DemoModel.DENSE):
        for temp in TEMPS:
            with Engine() as engine:
                workload = load(engine, built[author], prompts, arguments.n_predict, temp)
                texts[author, temp] = write(engine, workload, built[author])
            print(author, temp, file=sys.stderr, flush=True)
    with Engine() as engine:
        workload = load(engine, built[DemoModel.DENSE], prompts, arguments.n_predict, TEMPS[1])
        rows = [
            {"author": str(author), "temp": temp, **judged(engine, workload, prompts, answers)}
            for (author, temp), answers in texts.items()
        ]
        engine.load_draft(ModelOptions(path=built[DemoModel.DRAFT]))
        costs = cost(engine, workload, texts[DemoModel.DENSE, TEMPS[1]])
    write_results("chats", {"n_prompts": len(prompts), "rows": rows, "cost": costs})


def begun(prompt: Prompt) -> Prompt:
    """The beginning of a prompt: what it takes to read one is not the question here."""
    messages = [replace(one, content=one.content[:_CHARACTERS]) for one in prompt.messages]
    return replace(prompt, messages=tuple(messages))


def load(
    engine: Engine, path: Path, prompts: Sequence[Prompt], n_predict: int, temp: float
) -> Workload:
    """Load a model alone, and tokenize the prompts."""
    loaded = engine.load_target(
        LoadTarget(options=ModelOptions(path=path), context=CONTEXT, max_draft=DEPTH)
    )
    sampling = SamplingConfig(temp=temp, seed=7)
    return tokenize(engine, prompts, n_predict=n_predict, sampling=sampling, n_ctx=loaded.n_ctx)


def answers_of(engine: Engine, workload: Workload) -> tuple[AnswerWritten, ...]:
    """The answers that the loaded target writes, in order."""
    found: dict[int, AnswerWritten] = {}
    command = WriteAnswers(
        prompts=tuple(item.tokens for item in workload.items),
        n_predict=workload.n_predict,
        sampling=workload.sampling,
    )
    engine.write_answers(command, lambda answer: found.update({answer.index: answer}))
    return tuple(found[index] for index in range(len(workload.items)))


def write(engine: Engine, workload: Workload, path: Path) -> tuple[str, ...]:
    """Texts of the answers that the loaded target writes."""
    with Model(ModelOptions(path=path), vocab_only=True) as model:
        return tuple(
            b"".join(map(model.vocabulary.piece, one.tokens)).decode(errors="replace")
            for one in answers_of(engine, workload)
        )


def judged(
    engine: Engine, workload: Workload, prompts: Sequence[Prompt], answers: Sequence[str]
) -> dict[str, Any]:
    """How many answers of an export the loaded target takes for its own."""
    talks = [
        [{"role": one.role, "content": one.content} for one in prompt.messages]
        + [{"role": "assistant", "content": answer}]
        for prompt, answer in zip(prompts, answers, strict=True)
    ]
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump([{"messages": talk} for talk in talks], file)
        file.flush()
        chats = load_chats([Path(file.name)])
    # A prompt without an answer keeps it from being an error that nothing is left.
    given = with_chats(
        engine,
        Workload(
            items=workload.items[:1], n_predict=workload.n_predict, sampling=workload.sampling
        ),
        chats,
        n_ctx=CONTEXT.ctx_size,
        say=lambda _text: None,
    )
    taken = [item for item in given.items if item.given is not None]
    print(given.note, file=sys.stderr, flush=True)
    return {
        "n_answers": len(chats.prompts),
        "n_taken": len(taken),
        "n_tokens": sum(len(item.given.tokens) for item in taken if item.given is not None),
    }


def cost(engine: Engine, workload: Workload, answers: Sequence[str]) -> dict[str, Any]:
    """Seconds of writing the answers, of reading them, and of the draft along them, in turns."""
    seconds = {"write": 0.0, "read": 0.0, "chains": 0.0}
    n_tokens = 0
    items = tuple(zip(workload.items, answers, strict=True))
    for start in range(0, len(items), _AT_ONCE):
        some = items[start : start + _AT_ONCE]
        one = Workload(
            items=tuple(item for item, _answer in some),
            n_predict=workload.n_predict,
            sampling=workload.sampling,
        )
        seconds["write"] += sum(answer.decode_s for answer in answers_of(engine, one))
        for item, answer in some:
            began = time.perf_counter()
            command = ReadAnswer(
                prompt=item.tokens, answer=answer, n_most=workload.n_predict, temp=TEMPS[1]
            )
            read = engine.read_answer(command)
            seconds["read"] += time.perf_counter() - began - (read.read_s or 0.0)
            n_tokens += len(read.tokens)
            chains = RecordChains(
                prompt=item.tokens, output=read.tokens, depth=DEPTH, reuse_prompt=True
            )
            seconds["chains"] += engine.record_chains(chains).seconds
    return {
        "n_tokens": n_tokens,
        "seconds": seconds,
        "n_decodes_alone": n_tokens,
        "n_batches_read": sum(-(-workload.n_predict // (DEPTH + 1)) for _ in items),
    }


if __name__ == "__main__":
    main()
