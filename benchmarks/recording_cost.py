"""What the recording of a search takes: prompts read, answers written, drafts taken along them.

As ``tune`` records: the dense demo target answers the built-in prompts, several at once, and each
draft goes along the answers. Of some prompts the target writes the answers one by one as well,
behind a prompt that it has read, in turns with eight at once.
"""

import argparse
import itertools
import statistics
import sys
import time
from collections.abc import Iterator, Sequence

from benchmarks.common import CONTEXT, write_results
from spectui.demo import DemoModel, ensure_demo_models
from spectui.engine.commands import Generate, LoadTarget, RecordChains, WriteAnswers
from spectui.engine.driver import Engine
from spectui.engine.events import AnswerWritten
from spectui.measure.workload import WorkItem, Workload, tokenize
from spectui.options.setup import ModelOptions, SamplingConfig
from spectui.prompts import builtin_suite

DRAFTS = (DemoModel.DRAFT, DemoModel.DRAFT_THIN)
DEPTH = 16
FLOOR = 0.3
"""``draft_p_min`` from which on a search records chains."""
AT_ONCE = 16
"""Prompts of one command, as of a search."""
N_BESIDE = 8
"""Prompts whose answers are written one by one as well."""


def main() -> None:
    """Measure and write ``results/recording_cost.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompts", type=int, default=48)
    parser.add_argument("--n-predict", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=3, help="of the comparison one by one")
    arguments = parser.parse_args()
    built = ensure_demo_models((DemoModel.DENSE, *DRAFTS))
    with Engine() as engine:
        target = ModelOptions(path=built[DemoModel.DENSE])
        loaded = engine.load_target(LoadTarget(options=target, context=CONTEXT, max_draft=DEPTH))
        workload = tokenize(
            engine,
            builtin_suite()[: arguments.prompts],
            n_predict=arguments.n_predict,
            sampling=SamplingConfig(temp=0.0),
            n_ctx=loaded.n_ctx,
        )
        text, answers = written(engine, workload, workload.items)
        drafts = {}
        for draft in DRAFTS:
            engine.load_draft(ModelOptions(path=built[draft]))
            drafts[str(draft)] = along(engine, workload, answers)
            print(drafts, file=sys.stderr, flush=True)
        engine.unload_draft()
        ratios = [beside(engine, workload) for _ in range(arguments.repeats)]
    parts = (text, *drafts.values())
    write_results(
        "recording_cost",
        {
            "n_prompts": len(workload.items),
            "n_predict": arguments.n_predict,
            "n_tokens": sum(len(one.tokens) for one in answers),
            "n_prompt_tokens": sum(len(one.tokens) for one in workload.items),
            "total_s": sum(one["wall_s"] for one in parts),
            "read_s": sum(one["read_s"] for one in parts),
            "text": text,
            "drafts": drafts,
            "one_by_one_over_at_once": statistics.median(ratios),
        },
    )


def written(
    engine: Engine, workload: Workload, items: Sequence[WorkItem]
) -> tuple[dict[str, float], list[AnswerWritten]]:
    """Seconds of writing answers, of which those of reading prompts; and the answers, in order."""
    found: list[AnswerWritten] = []
    began = time.perf_counter()
    for some in batches(items):
        command = WriteAnswers(
            prompts=tuple(one.tokens for one in some),
            n_predict=workload.n_predict,
            sampling=workload.sampling,
        )
        told: list[AnswerWritten] = []
        engine.write_answers(command, told.append)
        found += sorted(told, key=lambda one: one.index)
    wall_s = time.perf_counter() - began
    return {"wall_s": wall_s, "read_s": sum(one.read_s or 0.0 for one in found)}, found


def batches(items: Sequence[WorkItem]) -> Iterator[tuple[WorkItem, ...]]:
    """Items by ``AT_ONCE``."""
    rest = iter(items)
    while some := tuple(itertools.islice(rest, AT_ONCE)):
        yield some


def along(engine: Engine, workload: Workload, answers: Sequence[AnswerWritten]) -> dict[str, float]:
    """Seconds of taking the loaded draft along the answers, of which those of reading prompts."""
    began, read_s = time.perf_counter(), 0.0
    for item, answer in zip(workload.items, answers, strict=True):
        command = RecordChains(
            prompt=item.tokens, output=answer.tokens, depth=DEPTH, floor=FLOOR, reuse_prompt=True
        )
        read_s += engine.record_chains(command).read_s or 0.0
    return {"wall_s": time.perf_counter() - began, "read_s": read_s}


def beside(engine: Engine, workload: Workload) -> float:
    """Seconds of answers written one by one over those of eight at once, behind read prompts."""
    items = workload.items[:N_BESIDE]
    alone_s = 0.0
    for item in items:
        command = Generate(
            prompt=item.tokens,
            n_predict=workload.n_predict,
            sampling=workload.sampling,
            reuse_prompt=True,
        )
        alone_s += engine.generate(command).decode_s
    seconds, _answers = written(engine, workload, items)
    return alone_s / (seconds["wall_s"] - seconds["read_s"])


if __name__ == "__main__":
    main()
