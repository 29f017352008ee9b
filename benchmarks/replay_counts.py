"""Replay against the engine: are the counts of every setting exactly those of a real run?

Records each prompt once with both demo drafts, replays the settings, n-gram ones and such ahead of
a draft model among them, then
runs each for real, greedy and at a temperature with a seed. Counts are
exact, so the machine's noise does not matter. Where a real run's output parts from the recorded
one, since batching moves logits, the draft is recorded along that run's own output, and the replay
must say what the run did there.

Rows go to a file as they come, if one is named, and an interrupted run goes on from there.
"""

import argparse
import random
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice, product
from pathlib import Path
from typing import Any

from benchmarks.common import CONTEXT, add_row, read_rows, write_results
from spectui.demo import DemoModel, ensure_demo_models
from spectui.engine.commands import Generate, LoadTarget, RecordChains
from spectui.engine.driver import Engine
from spectui.engine.events import GenerationResult, ModelLoaded
from spectui.measure.workload import Workload, tokenize
from spectui.options.drafters import NgramSimple
from spectui.options.setup import ModelOptions, SamplingConfig
from spectui.options.speculation import Speculation
from spectui.prompts import builtin_suite
from spectui.trace.ngrams import replay_settings
from spectui.trace.record import Recording
from spectui.trace.replay import Grid, Total, replay_trace
from spectui.tune.candidates import Candidate, Loader
from spectui.tune.space import AHEAD
from spectui.tune.tracing import Tracer

DRAFTS = (DemoModel.DRAFT, DemoModel.DRAFT_THIN)
DEPTH = 16
_CHAINED = 2
"""Settings of each draft that are also run behind each of the n-gram drafters of ``AHEAD``."""
SAMPLING = {"greedy": SamplingConfig(temp=0.0), "seeded": SamplingConfig(temp=0.7, seed=7)}
SPACE = Grid(
    draft_max=tuple(range(1, DEPTH + 1)),
    draft_min=(0, 1, 2, 3, 4),
    draft_p_min=tuple(step / 20 for step in range(20)),
)
_NGRAMS = tuple(
    Speculation(NgramSimple(size_n=size_n, size_m=size_m))
    for size_n, size_m in product((1, 2, 3, 4), (4, 8, 16))
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What is run: a recorded prompt, who drafts, and how."""

    recording: Recording
    draft: str | None
    """None for n-gram drafters."""
    sampling: SamplingConfig
    config: Speculation


def main() -> None:
    """Compare and write ``results/replay_counts.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", type=DemoModel, default=DemoModel.DENSE)
    parser.add_argument("--configs", type=int, default=24, help="settings per draft model")
    parser.add_argument("--prompts", type=int, default=24)
    parser.add_argument("--seeded-prompts", type=int, help="of these, at the temperature (all)")
    parser.add_argument("--n-predict", type=int, default=24)
    parser.add_argument("--rows", type=Path, help="JSON lines: what is there is not run again")
    arguments = parser.parse_args()
    n_prompts = {
        "greedy": arguments.prompts,
        "seeded": arguments.seeded_prompts or arguments.prompts,
    }
    dice = random.Random(1)  # noqa: S311 - a choice of settings needs no secrets
    configs = dice.sample(list(map(Speculation, SPACE.settings(mtp=False))), arguments.configs)
    with Engine() as engine:
        built = ensure_demo_models((arguments.target, *DRAFTS))
        loaded = engine.load_target(
            LoadTarget(
                options=ModelOptions(path=built[arguments.target]), context=CONTEXT, max_draft=DEPTH
            )
        )
        candidates = [
            Candidate(name=str(draft), options=ModelOptions(path=built[draft]), loaded=None)
            for draft in DRAFTS
        ]
        workloads = [
            tokenize(
                engine,
                builtin_suite()[: n_prompts[name]],
                n_predict=arguments.n_predict,
                sampling=sampling,
                n_ctx=loaded.n_ctx,
            )
            for name, sampling in SAMPLING.items()
        ]
        found = (cases(engine, one, candidates, configs, loaded) for one in workloads)
        rows = compare_all(engine, chain.from_iterable(found), arguments.rows)
    write_results(
        "replay_counts",
        {
            "target": str(arguments.target),
            "n_settings": (len(configs) + _CHAINED * len(AHEAD)) * len(DRAFTS) + len(_NGRAMS),
            "n_prompts": n_prompts,
            "n_predict": arguments.n_predict,
            "totals": {name: totals(rows, name) for name in SAMPLING},
            "different": [row for row in rows if not row["equal"]],
        },
    )


def totals(rows: Sequence[dict[str, Any]], sampling: str) -> dict[str, int]:
    """How many comparisons there were, and what came of them."""
    own = [row for row in rows if row["sampling"] == sampling]
    return {
        "n_compared": len(own),
        "n_equal": sum(row["equal"] for row in own),
        "n_with_the_recorded_output": sum(row["differs_at"] is None for row in own),
        "n_equal_with_the_recorded_output": sum(
            row["equal"] and row["differs_at"] is None for row in own
        ),
        "n_equal_on_their_own_output": sum(row["equal_on_own_output"] for row in own),
        "n_prompts_that_part": len({row["prompt"] for row in own if row["differs_at"] is not None}),
    }


def cases(
    engine: Engine,
    workload: Workload,
    candidates: Sequence[Candidate],
    configs: Sequence[Speculation],
    target: ModelLoaded,
) -> Iterator[Case]:
    """Every prompt, drafter and setting; the draft of a case is loaded when it comes."""
    tracing = Tracer(
        workload,
        Loader(engine, candidates),
        depth=DEPTH,
        target=target,
        with_costs=False,
        on_event=lambda _event: None,
    ).run()
    sampling = workload.sampling
    for recording, config in product(tracing.trace.recordings, _NGRAMS):
        yield Case(recording=recording, draft=None, sampling=sampling, config=config)
    for candidate in candidates:
        engine.load_draft(candidate.options)
        chained = [config.after((one,)) for config in configs[:_CHAINED] for one in AHEAD]
        for recording, config in product(tracing.trace.recordings, (*configs, *chained)):
            yield Case(recording=recording, draft=candidate.name, sampling=sampling, config=config)


def compare_all(engine: Engine, found: Iterable[Case], path: Path | None) -> list[dict[str, Any]]:
    """One row per case. They go to ``path`` as they come; what is there is not run again."""
    rows = read_rows(path)
    for case in islice(found, len(rows), None):
        rows.append(compare(engine, case))
        add_row(path, rows[-1])
        print(len(rows), sum(not row["equal"] for row in rows), file=sys.stderr)
    return rows


def compare(engine: Engine, case: Case) -> dict[str, Any]:
    """Run one setting, and replay it."""
    recording, config = case.recording, case.config
    result = engine.generate(
        Generate(
            prompt=recording.prompt,
            n_predict=recording.n_predict,
            sampling=case.sampling,
            speculation=config,
            reuse_prompt=True,
        )
    )
    measured, replayed = counts_of(result), replay(recording, case.draft, config)
    differs_at = first_difference(recording.output, result.tokens)
    own = replayed
    if differs_at is not None:
        own = replay(recorded_again(engine, case, result), case.draft, config)
    return {
        "sampling": next(name for name, one in SAMPLING.items() if one == case.sampling),
        "draft": case.draft or "ngram-simple",
        "prompt": recording.id,
        **config.document(),
        "measured": measured,
        "replayed": replayed,
        "equal": measured == replayed,
        "differs_at": differs_at,
        "equal_on_own_output": measured == own,
    }


def recorded_again(engine: Engine, case: Case, result: GenerationResult) -> Recording:
    """Record the draft along the output of a real run."""
    recording = replace(case.recording, output=result.tokens, stop=result.stop, chains={})
    if case.draft is None:
        return recording
    told = engine.record_chains(
        RecordChains(prompt=recording.prompt, output=result.tokens, depth=DEPTH, reuse_prompt=True)
    )
    return replace(recording, chains={case.draft: told.chains})


def replay(recording: Recording, draft: str | None, config: Speculation) -> list[int]:
    """Rounds, drafted, accepted, by replay."""
    if draft is None:
        (total,) = replay_settings((recording,), (config,))
    elif config.ahead or config.model is None:
        (total,) = replay_settings((recording,), (config,), draft=draft)
    else:
        grid = Grid(
            draft_max=(config.model.draft_max,),
            draft_min=(config.model.draft_min,),
            draft_p_min=(config.model.draft_p_min,),
        )
        (total,) = replay_trace((recording,), draft, grid)
    return counts_of_replay(total)


def counts_of(result: GenerationResult) -> list[int]:
    """Rounds, drafted, accepted."""
    counters = result.counters
    return [counters.n_rounds, counters.n_drafted, counters.n_accepted]


def counts_of_replay(total: Total) -> list[int]:
    """Rounds, drafted, accepted."""
    return [total.n_rounds, total.n_drafted, total.n_accepted]


def first_difference(one: Sequence[int], other: Sequence[int]) -> int | None:
    """Position at which two outputs part, None where they are equal."""
    if tuple(one) == tuple(other):
        return None
    pairs = enumerate(zip(one, other, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))


if __name__ == "__main__":
    main()
