"""A few prompts of a user's own: is what ``tune`` chooses in two minutes the best on the server?

Each case has some prompts of the built-in suite and one or two drafts. ``spectui tune`` searches in
its time budget, from a home of its own. Then the real llama-server runs a grid of twenty settings,
a few servers at a time, in turn on every prompt with one without a draft. The best of the grid and
the command that ``tune`` printed are measured once more side by side: the best of twenty noisy
numbers flatters itself.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.common import (
    CONTEXT,
    add_row,
    demo_pair,
    read_rows,
    server_binary,
    start_server,
    write_results,
)
from spectui.demo import DemoModel
from spectui.engine.commands import LoadTarget
from spectui.engine.driver import Engine
from spectui.measure.workload import WorkItem, tokenize
from spectui.options.drafters import DraftSimple
from spectui.options.setup import SamplingConfig
from spectui.options.speculation import Speculation
from spectui.paths import cache_dir
from spectui.prompts import Prompt, builtin_suite
from spectui.server.process import LlamaServer

_N_PREDICT = 48
_TOP = 3
_BLOCK = 4
"""Settings of the grid whose servers run at the same time."""
_BOTH = (DemoModel.DRAFT, DemoModel.DRAFT_THIN)
_OF_ONE = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16)
_OF_TWO: dict[DemoModel, tuple[int, ...]] = {
    DemoModel.DRAFT: (1, 2, 3, 4, 6, 8, 16),
    DemoModel.DRAFT_THIN: (2, 4, 8),
}
"""Lengths of the drafts of the grid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Prompts and drafts of one user."""

    categories: tuple[str, ...]
    n_prompts: int
    drafts: tuple[DemoModel, ...]

    @property
    def prompts(self) -> list[Prompt]:
        """The first prompts of the suite of these categories, which take turns."""
        every = [one for one in builtin_suite() if one.category in self.categories]
        return every[: self.n_prompts]

    @property
    def grid(self) -> list[tuple[DemoModel, Speculation]]:
        """Twenty settings."""
        lengths = _OF_TWO if len(self.drafts) > 1 else dict.fromkeys(self.drafts, _OF_ONE)
        return [
            (draft, Speculation(DraftSimple(draft_max=longest, draft_p_min=floor)))
            for draft, each in lengths.items()
            for longest, floor in product(each, (0.0, 0.5))
        ]


CASES = {
    "six kinds, two drafts": Case(
        categories=("code", "structured", "chat", "prose", "math", "extraction"),
        n_prompts=6,
        drafts=_BOTH,
    ),
    "three of code": Case(categories=("code",), n_prompts=3, drafts=(DemoModel.DRAFT,)),
    "six of chat and prose, the poor draft": Case(
        categories=("chat", "prose"), n_prompts=6, drafts=(DemoModel.DRAFT_THIN,)
    ),
    "nine of math, extraction and summaries": Case(
        categories=("math", "extraction", "summarisation"), n_prompts=9, drafts=_BOTH
    ),
    "twelve of code and structured text": Case(
        categories=("code", "structured"), n_prompts=12, drafts=(DemoModel.DRAFT,)
    ),
}


def main() -> None:
    """Measure and write ``results/own_prompts.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--time-budget", default="2m")
    parser.add_argument("--rows", type=Path, help="JSON lines: what is there is not measured again")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    arguments = parser.parse_args()
    rows = read_rows(arguments.rows)
    for name in arguments.cases:
        if name not in {row["case"] for row in rows}:
            rows.append({"case": name, **measured(CASES[name], arguments.time_budget)})
            add_row(arguments.rows, rows[-1])
            print(name, rows[-1]["verdict"]["reason"], rows[-1]["duel"], file=sys.stderr)
    write_results("own_prompts", {"time_budget": arguments.time_budget, "cases": rows})


def measured(case: Case, time_budget: str) -> dict[str, Any]:
    """Tune a case, and hold the answer against the real server."""
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home)
        found, wall_s = tuned(case, time_budget, folder)
        items = tokens_of(case)
        grid = grid_speedups(case, items, folder)
        best = sorted(range(len(grid)), key=lambda index: -grid[index])[:_TOP]
        duel = side_by_side(case, items, best, shlex.split(found["best_command"])[1:], folder)
    return {
        "n_prompts": len(items),
        "drafts": list(case.drafts),
        "wall_s": wall_s,
        "verdict": found["verdict"],
        "best": found["best"],
        "grid": [
            {"draft": draft, **described(setting), "speedup": speedup}
            for (draft, setting), speedup in zip(case.grid, grid, strict=True)
        ],
        "duel": {
            "chosen": duel[-1],
            "best": [
                {"draft": case.grid[index][0], **described(case.grid[index][1]), "speedup": speedup}
                for index, speedup in zip(best, duel, strict=False)
            ],
            "chosen_over_best": duel[-1] / max(duel[:-1]),
            "promised_over_served": found["best"]["speedup"] / duel[-1],
        },
    }


def described(setting: Speculation) -> dict[str, Any]:
    """The numbers of a setting."""
    return setting.own.numbers


def tuned(case: Case, time_budget: str, folder: Path) -> tuple[dict[str, Any], float]:
    """Run ``spectui tune``; return its document, and the seconds that it took."""
    (folder / "cache").symlink_to(cache_dir())
    prompts = folder / "prompts.jsonl"
    prompts.write_bytes(b"\n".join(map(line_of, case.prompts)))
    target, _draft = demo_pair()
    drafts = [demo_pair(draft=one)[1].path for one in case.drafts]
    command = [
        *(sys.executable, "-m", "spectui", "tune", "-m", str(target.path)),
        *(word for draft in drafts for word in ("-md", str(draft))),
        *("-c", str(CONTEXT.ctx_size), "-n", str(_N_PREDICT), "--temp", "0"),
        *("--prompts", str(prompts), "--time-budget", time_budget),
        *("--json", str(folder / "found.json")),
    ]
    began = time.perf_counter()
    subprocess.run(
        command, check=True, capture_output=True, env={**os.environ, "SPECTUI_HOME": str(folder)}
    )
    return json.loads((folder / "found.json").read_bytes()), time.perf_counter() - began


def line_of(prompt: Prompt) -> bytes:
    """A prompt as a line of a file."""
    return msgspec.json.encode(
        {"id": prompt.id, "category": prompt.category, "messages": prompt.messages}
    )


def tokens_of(case: Case) -> tuple[WorkItem, ...]:
    """The prompts in the target's template."""
    target, _draft = demo_pair()
    with Engine() as engine:
        loaded = engine.load_target(LoadTarget(options=target, context=CONTEXT, max_draft=1))
        return tokenize(
            engine,
            case.prompts,
            n_predict=_N_PREDICT,
            sampling=SamplingConfig(temp=0.0),
            n_ctx=loaded.n_ctx,
        ).items


def grid_speedups(case: Case, items: Sequence[WorkItem], folder: Path) -> list[float]:
    """[n_settings]: of decoding, over a server without a draft."""
    found: list[float] = []
    with start_server(None, folder / "off.log") as off:
        for start in range(0, len(case.grid), _BLOCK):
            block = case.grid[start : start + _BLOCK]
            with ExitStack() as stack:
                servers = [
                    stack.enter_context(start_server(one, folder / f"{n}.log", draft=draft))
                    for n, (draft, one) in enumerate(block)
                ]
                *own, alone = in_turns([*servers, off], items)
            found += [alone / seconds for seconds in own]
    return found


def side_by_side(
    case: Case, items: Sequence[WorkItem], best: Sequence[int], chosen: Iterable[str], folder: Path
) -> list[float]:
    """[n_best + 1]: speedups of the best of the grid and of the chosen command, all in turn."""
    with ExitStack() as stack:

        def started(setting: Speculation | None, draft: DemoModel, name: str) -> LlamaServer:
            log = folder / f"{name}.log"
            return stack.enter_context(start_server(setting, log, draft=draft))

        servers = [
            started(setting, draft, f"best-{n}")
            for n, (draft, setting) in enumerate(case.grid[index] for index in best)
        ]
        command = LlamaServer(
            server_binary(), [*chosen, "-np", "1"], log_path=folder / "chosen.log"
        )
        servers.append(stack.enter_context(command))
        servers.append(started(None, case.drafts[0], "off"))
        *own, alone = in_turns(servers, items)
    return [alone / seconds for seconds in own]


def in_turns(servers: Sequence[LlamaServer], items: Sequence[WorkItem]) -> list[float]:
    """[n_servers]: seconds per decoded token, all servers in turn on every prompt."""
    seconds = [0.0] * len(servers)
    for server in servers:
        server.complete(items[0].tokens, n_predict=8)
    for turn, item in enumerate(items):
        for step in range(len(servers)):
            index = (turn + step) % len(servers)
            done = servers[index].complete(item.tokens, n_predict=_N_PREDICT)
            seconds[index] += done.predicted_s / max(1, done.n_predicted - 1)
    return seconds


if __name__ == "__main__":
    main()
