"""Replay against the engine: are the counts of every setting exactly those of a real run?

Records each prompt once with both demo drafts, replays the settings, then runs each for real on
the ``server`` schedule, greedy and at a temperature with a seed. Counts are exact, so the
machine's noise does not matter; a difference is listed with both outputs' first differing
position, since two logits closer than what batching moves may trade places.
"""

import argparse
import random
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from benchmarks.common import CONTEXT, write_results
from spectui.config import ModelOptions, SamplingConfig, Schedule, SpeculationConfig
from spectui.demo import DemoModel, ensure_demo_models
from spectui.engine.commands import Generate
from spectui.engine.driver import Engine
from spectui.engine.events import GenerationResult
from spectui.prompts import builtin_suite
from spectui.replay.grid import Grid
from spectui.replay.totals import Total, replay_trace
from spectui.replay.trace import Recording
from spectui.tune.candidates import Candidate
from spectui.tune.tracing import Tracer
from spectui.tune.workload import tokenize

DRAFTS = (DemoModel.DRAFT, DemoModel.DRAFT_THIN)
DEPTH = 16
SAMPLING = {"greedy": SamplingConfig(), "seeded": SamplingConfig(temp=0.7, seed=7)}
SPACE = Grid(
    draft_max=tuple(range(1, DEPTH + 1)),
    draft_min=(0, 1, 2, 3, 4),
    draft_p_min=tuple(step / 20 for step in range(20)),
)


def main() -> None:
    """Compare and write ``results/replay_counts.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", type=DemoModel, default=DemoModel.DENSE)
    parser.add_argument("--configs", type=int, default=30, help="settings per draft")
    parser.add_argument("--prompts", type=int, default=24)
    parser.add_argument("--n-predict", type=int, default=24)
    arguments = parser.parse_args()
    dice = random.Random(1)  # noqa: S311 - a choice of settings needs no secrets
    configs = dice.sample(list(SPACE.settings), arguments.configs)
    rows = []
    with Engine() as engine:
        built = ensure_demo_models((arguments.target, *DRAFTS))
        loaded = engine.load_target(
            ModelOptions(path=built[arguments.target]), CONTEXT, max_draft=DEPTH
        )
        candidates = [
            Candidate(name=str(draft), options=ModelOptions(path=built[draft]), loaded=None)
            for draft in DRAFTS
        ]
        for name, sampling in SAMPLING.items():
            workload = tokenize(
                engine,
                builtin_suite()[: arguments.prompts],
                n_predict=arguments.n_predict,
                sampling=sampling,
                n_ctx=loaded.n_ctx,
            )
            tracing = Tracer(
                engine,
                workload,
                candidates,
                depth=DEPTH,
                n_ctx=loaded.n_ctx,
                schedule=None,
                on_event=lambda _event: None,
            ).run()
            for candidate in candidates:
                engine.load_draft(candidate.options)
                for recording in tracing.recordings:
                    rows += [
                        {"sampling": name, "draft": candidate.name, **row}
                        for row in compare(engine, recording, candidate.name, sampling, configs)
                    ]
                    print(len(rows), sum(not row["equal"] for row in rows), file=sys.stderr)
    write_results(
        "replay_counts",
        {
            "target": str(arguments.target),
            "n_settings": len(configs) * len(DRAFTS),
            "n_prompts": arguments.prompts,
            "n_predict": arguments.n_predict,
            "n_compared": len(rows),
            "n_equal": sum(row["equal"] for row in rows),
            "n_equal_output": sum(row["differs_at"] is None for row in rows),
            "different": [row for row in rows if not row["equal"]],
        },
    )


def compare(
    engine: Engine,
    recording: Recording,
    draft: str,
    sampling: SamplingConfig,
    configs: Sequence[SpeculationConfig],
) -> list[dict[str, Any]]:
    """One row per setting of one prompt."""
    rows = []
    for config in configs:
        grid = Grid(
            draft_max=(config.draft_max,),
            draft_min=(config.draft_min,),
            draft_p_min=(config.draft_p_min,),
        )
        (replayed,) = replay_trace((recording,), draft, grid)
        result = engine.generate(
            Generate(
                prompt=recording.prompt,
                n_predict=recording.n_predict,
                sampling=sampling,
                speculation=config,
                schedule=Schedule.SERVER,
                reuse_prompt=True,
            )
        )
        measured, predicted = counts_of(result), counts_of_replay(replayed)
        rows.append(
            {
                "prompt": recording.id,
                **asdict(config),
                "measured": measured,
                "replayed": predicted,
                "equal": measured == predicted,
                "differs_at": first_difference(recording.output, result.tokens),
            }
        )
    return rows


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
