"""Drafted and accepted counts of the ``server`` schedule against the real llama-server's own.

Greedy, on the dense demo pair, every prompt × every configuration. The counts are exact numbers,
so the machine's noise does not matter, and any difference is a difference in what is computed.
"""

import argparse
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.common import load_pair, start_server, write_results
from spectui.engine.commands import Generate
from spectui.engine.driver import Engine
from spectui.measure.workload import WorkItem
from spectui.options.drafters import DraftSimple
from spectui.options.setup import Schedule
from spectui.options.speculation import Speculation
from spectui.server import LlamaServer

CONFIGS = (
    Speculation(DraftSimple(draft_max=1)),
    Speculation(DraftSimple(draft_max=3)),
    Speculation(DraftSimple(draft_max=4, draft_min=2, draft_p_min=0.6)),
    Speculation(DraftSimple(draft_max=8, draft_p_min=0.5)),
    Speculation(DraftSimple(draft_max=8, draft_min=3, draft_p_min=0.3)),
    Speculation(DraftSimple(draft_max=16, draft_p_min=0.75)),
)


def main() -> None:
    """Compare and write ``results/draft_counts.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompts", type=int, default=8)
    parser.add_argument("--n-predict", type=int, default=48)
    arguments = parser.parse_args()
    rows = compare(arguments.prompts, arguments.n_predict, CONFIGS)
    write_results(
        "draft_counts",
        {
            "n_predict": arguments.n_predict,
            "n_compared": len(rows),
            "n_equal": sum(row["equal"] for row in rows),
            "rows": rows,
        },
    )


def compare(
    n_prompts: int, n_predict: int, configs: tuple[Speculation, ...]
) -> list[dict[str, Any]]:
    """One row per prompt and configuration."""
    rows = []
    with tempfile.TemporaryDirectory() as logs, Engine() as engine:
        workload = load_pair(engine, max_draft=16, n_prompts=n_prompts, n_predict=n_predict)
        for index, config in enumerate(configs):
            with start_server(config, Path(logs) / f"{index}.log") as server:
                rows += [
                    compare_one(engine, server, item, n_predict, config) for item in workload.items
                ]
    return rows


def compare_one(
    engine: Engine, server: LlamaServer, item: WorkItem, n_predict: int, config: Speculation
) -> dict[str, Any]:
    """Run one prompt on both."""
    theirs = server.complete(item.tokens, n_predict=n_predict)
    ours = engine.generate(
        Generate(
            prompt=item.tokens,
            n_predict=n_predict,
            speculation=config,
            schedule=Schedule.SERVER,
            reuse_prompt=True,
        )
    )
    engine_counts = (ours.counters.n_drafted, ours.counters.n_accepted)
    server_counts = (theirs.n_drafted, theirs.n_accepted)
    return {
        "prompt": item.id,
        "config": config.document(),
        "engine": engine_counts,
        "server": server_counts,
        "equal": engine_counts == server_counts and ours.tokens == theirs.tokens,
        "same_output": ours.tokens == theirs.tokens,
    }


if __name__ == "__main__":
    main()
