"""Drafted and accepted counts of every n-gram drafter against the real llama-server's own.

Greedy, on SmolLM2-135M, every prompt of a suite of code edits, repetition and fresh text × every
setting. What a server has learnt from one request it uses in the next, so each prompt has a server
of its own. The engine runs each by itself, and in turns with the target alone. The counts are exact
numbers, so the machine's noise does not matter.

Rows go to a file as they come, if one is named, and an interrupted run goes on from there.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.common import add_row, read_rows, server_binary, use_servers_library, write_results
from spectui.commands.arguments import server_arguments
from spectui.demo import DemoModel, ensure_demo_models
from spectui.engine.commands import Generate, LoadTarget
from spectui.engine.driver import Engine
from spectui.measure.workload import WorkItem, Workload, tokenize
from spectui.options.drafters import (
    NGRAM_KINDS,
    NgramCache,
    NgramMapK,
    NgramMapK4V,
    NgramMod,
    NgramSimple,
)
from spectui.options.option import Dialect
from spectui.options.setup import ModelOptions, SamplingConfig
from spectui.options.speculation import Speculation
from spectui.prompts import load_prompts
from spectui.server.process import LlamaServer
from tests.support.beside_server import CONTEXT, Outcome, in_turns, run_both

SUITE = Path(__file__).parent / "ngram_suite.jsonl"
MAX_DRAFT = 16
SETTINGS = (
    Speculation(NgramSimple(size_n=2, size_m=8)),
    Speculation(NgramSimple(size_n=4, size_m=16)),
    Speculation(NgramMapK(size_n=2, size_m=8, min_hits=1)),
    Speculation(NgramMapK(size_n=4, size_m=16, min_hits=1)),
    Speculation(NgramMapK4V(size_n=2, size_m=4, min_hits=1)),
    Speculation(NgramMapK4V(size_n=3, size_m=8, min_hits=2)),
    Speculation(NgramMod(n_match=2, n_min=0, n_max=12)),
    Speculation(NgramMod(n_match=4, n_min=3, n_max=16)),
    Speculation(NgramCache()),
)


def main() -> None:
    """Compare and write ``results/ngram_counts.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompts", type=Path, default=SUITE)
    parser.add_argument("--n-prompts", type=int, help="the first so many; all if not given")
    parser.add_argument("--n-predict", type=int, default=96)
    parser.add_argument("--rows", type=Path, help="JSON lines: what is there is not run again")
    arguments = parser.parse_args()
    prompts = load_prompts(arguments.prompts).prompts[: arguments.n_prompts]
    target = ModelOptions(path=ensure_demo_models((DemoModel.DRAFT,))[DemoModel.DRAFT])
    use_servers_library()
    with Engine() as engine:
        loaded = engine.load_target(
            LoadTarget(options=target, context=CONTEXT, max_draft=MAX_DRAFT)
        )
        workload = tokenize(
            engine,
            prompts,
            n_predict=arguments.n_predict,
            sampling=SamplingConfig(temp=0.0),
            n_ctx=loaded.n_ctx,
        )
        starter = Starter(binary=server_binary(), target=target)
        rows = compare_all(engine, starter, workload, arguments.rows)
    write_results(
        "ngram_counts",
        {
            "n_prompts": len(prompts),
            "n_predict": arguments.n_predict,
            "drafters": {kind: totals(rows, kind=kind) for kind in NGRAM_KINDS},
            "categories": {
                category: totals(rows, category=category)
                for category in dict.fromkeys(prompt.category for prompt in prompts)
            },
            "different": [row for row in rows if not row["equal"]],
        },
    )


def totals(rows: Sequence[dict[str, Any]], **of: str) -> dict[str, int]:
    """What came of the rows of one drafter or category."""
    own = [row for row in rows if of.items() <= row.items()]
    return {
        "n_compared": len(own),
        "n_equal": sum(row["equal"] for row in own),
        "n_with_drafts": sum(row["server"]["n_drafted"] > 0 for row in own),
        "n_drafted": sum(row["server"]["n_drafted"] for row in own),
        "n_accepted": sum(row["server"]["n_accepted"] for row in own),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Starter:
    """Starts servers that know nothing yet."""

    binary: Path
    target: ModelOptions

    def start(self, config: Speculation, log: Path) -> LlamaServer:
        """Start one with these drafters."""
        flags = server_arguments(self.target, None, CONTEXT, config, dialect=Dialect.LLAMA_CPP)
        return LlamaServer(self.binary, [*flags, "-np", "1"], log_path=log)


def compare_all(
    engine: Engine, starter: Starter, workload: Workload, path: Path | None
) -> list[dict[str, Any]]:
    """One row per setting and prompt. They go to ``path`` as they come."""
    known = {key(row): row for row in read_rows(path)}
    rows = []
    for config, item in product(SETTINGS, workload.items):
        case: dict[str, Any] = {
            "kind": config.own.kind,
            "setting": config.own.summary,
            "prompt": item.id,
            "category": item.category,
            "n_predict": workload.n_predict,
        }
        row = known.get(key(case))
        if row is None:
            row = {**case, **compare(engine, starter, item, config, workload.n_predict)}
            add_row(path, row)
        rows.append(row)
        print(len(rows), sum(not row["equal"] for row in rows), file=sys.stderr)
    return rows


def key(row: dict[str, Any]) -> tuple[object, ...]:
    """What tells a row from the others."""
    return tuple(row[name] for name in ("kind", "setting", "prompt", "n_predict"))


def compare(
    engine: Engine, starter: Starter, item: WorkItem, config: Speculation, n_predict: int
) -> dict[str, Any]:
    """Run one prompt here and there."""
    command = Generate(
        prompt=item.tokens, n_predict=n_predict, speculation=config, reuse_prompt=True
    )
    with (
        tempfile.TemporaryDirectory() as logs,
        starter.start(config, Path(logs) / "server.log") as server,
    ):
        ours, theirs = run_both(engine, server, command)
    return {
        "engine": counts(ours),
        "server": counts(theirs),
        "equal": ours == in_turns(engine, command) == theirs,
        "same_output": ours.tokens == theirs.tokens,
    }


def counts(outcome: Outcome) -> dict[str, int]:
    """How much was drafted, and how much of that accepted."""
    return {"n_drafted": outcome.n_drafted, "n_accepted": outcome.n_accepted}


if __name__ == "__main__":
    main()
