"""Drafted and accepted counts of a pair against the real llama-server's own.

    python -m benchmarks.draft_counts             # the dense pair, 8 prompts x 6 settings
    python -m benchmarks.draft_counts --smallest  # small models, 4 x 3; no results are written

Greedy, every prompt with every setting. Off and on take turns as often as they can, as in no
measurement. The counts are exact numbers, so the machine's noise does not matter, and a difference
is a difference in what is computed. One kind is no fault: where two tokens are so close that a
batch of another size moves them, texts may part. The target's own logits say so at that place; any
other difference ends with exit code 1.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.common import load_pair, start_server, write_results
from spectui.demo import DemoModel
from spectui.engine.commands import Generate, GeneratePair, ProbeMargin
from spectui.engine.driver import Engine
from spectui.measure.lossless import Divergence
from spectui.measure.workload import WorkItem
from spectui.options.drafters import DraftSimple
from spectui.options.speculation import Speculation
from spectui.server.process import LlamaServer
from spectui.speculative.models import n_common

CONFIGS = (
    Speculation(DraftSimple(draft_max=1)),
    Speculation(DraftSimple(draft_max=3)),
    Speculation(DraftSimple(draft_max=4, draft_min=2, draft_p_min=0.6)),
    Speculation(DraftSimple(draft_max=8, draft_p_min=0.5)),
    Speculation(DraftSimple(draft_max=8, draft_min=3, draft_p_min=0.3)),
    Speculation(DraftSimple(draft_max=16, draft_p_min=0.75)),
)


def main() -> None:
    """Compare, and write ``results/draft_counts.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompts", type=int, default=8)
    parser.add_argument("--n-predict", type=int, default=48)
    parser.add_argument("--smallest", action="store_true", help="a run that shows that it works")
    arguments = parser.parse_args()
    if arguments.smallest:
        rows = compare(4, 32, CONFIGS[1::2], target=DemoModel.DRAFT, draft=DemoModel.DRAFT_THIN)
    else:
        rows = compare(arguments.prompts, arguments.n_predict, CONFIGS)
        write_results(
            "draft_counts",
            {
                "n_predict": arguments.n_predict,
                "n_compared": len(rows),
                "n_equal": sum(row["equal"] for row in rows),
                "n_near_ties": sum(is_near_tie(row) for row in rows),
                "rows": rows,
            },
        )
    differing = [row for row in rows if not row["equal"]]
    for row in differing:
        print(f"{'near tie' if is_near_tie(row) else 'DIFFERENT'}: {row}")
    print(f"{len(rows) - len(differing)} of {len(rows)} equal")
    sys.exit(not all(map(is_near_tie, differing)))


def is_near_tie(row: dict[str, Any]) -> bool:
    """Whether the texts of a row part where the target cannot make its choice reliably."""
    return row["parted"] is not None and row["parted"]["explained"]


def compare(
    n_prompts: int,
    n_predict: int,
    configs: Sequence[Speculation],
    *,
    target: DemoModel = DemoModel.DENSE,
    draft: DemoModel = DemoModel.DRAFT,
) -> list[dict[str, Any]]:
    """One row per prompt and configuration."""
    rows = []
    with tempfile.TemporaryDirectory() as logs, Engine() as engine:
        workload = load_pair(
            engine,
            target=target,
            draft=draft,
            max_draft=16,
            n_prompts=n_prompts,
            n_predict=n_predict,
        )
        for index, config in enumerate(configs):
            log = Path(logs) / f"{index}.log"
            with start_server(config, log, target=target, draft=draft) as server:
                rows += [
                    compare_one(engine, server, item, n_predict, config) for item in workload.items
                ]
    return rows


def compare_one(
    engine: Engine, server: LlamaServer, item: WorkItem, n_predict: int, config: Speculation
) -> dict[str, Any]:
    """Run one prompt on both."""
    theirs = server.complete(item.tokens, n_predict=n_predict)
    command = Generate(
        prompt=item.tokens,
        n_predict=n_predict,
        speculation=config,
        reuse_prompt=True,
    )
    pair = engine.generate_pair(GeneratePair(speculative=command, baseline_first=True, segment_s=0))
    ours = pair.speculative
    engine_counts = (ours.counters.n_drafted, ours.counters.n_accepted)
    server_counts = (theirs.n_drafted, theirs.n_accepted)
    return {
        "prompt": item.id,
        "config": config.document(),
        "engine": engine_counts,
        "server": server_counts,
        "equal": engine_counts == server_counts and ours.tokens == theirs.tokens,
        "same_output": ours.tokens == theirs.tokens,
        "parted": parted(engine, item, ours.tokens, theirs.tokens),
    }


def parted(
    engine: Engine, item: WorkItem, ours: Sequence[int], theirs: Sequence[int]
) -> dict[str, Any] | None:
    """Where two outputs part, and how clear the target's choice is there; None for equal ones."""
    if ours == theirs:
        return None
    position = n_common(ours, theirs)
    probe = engine.probe_margin(
        ProbeMargin(prompt=item.tokens, continuation=tuple(ours[:position]))
    )
    found = Divergence(prompt_id=item.id, position=position, margin=probe.margin, noise=probe.noise)
    return {**asdict(found), "explained": found.explained}


if __name__ == "__main__":
    main()
