"""Is what tuning chooses what an exhaustive search would have chosen, and at what price?

The real llama-server is the judge. A grid of settings is measured on it, a few at a time on servers
that take turns on every prompt with one without a draft, since the machine drifts. Then spectui
tunes the same pair in an eighth of the time that the grid's own runs took (starts of the server and
prompts included, the runs without a draft left out), and so does Optuna alone, with real trials
only. The settings that each found, the best three of the grid and both defaults are measured once
more on servers that run at the same time, in turn on every prompt: the best of forty noisy numbers
would flatter itself.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.common import CONTEXT, demo_pair, server_binary, write_results
from spectui.commands.arguments import server_arguments
from spectui.demo import DemoModel
from spectui.engine.commands import LoadTarget
from spectui.engine.driver import Engine
from spectui.measure.measurer import Measurer
from spectui.measure.workload import WorkItem, Workload, tokenize
from spectui.monitor.machine import this_machine
from spectui.options.drafters import DraftSimple
from spectui.options.option import Dialect
from spectui.options.setup import ModelOptions, SamplingConfig
from spectui.options.speculation import Speculation
from spectui.prompts import builtin_suite
from spectui.server.process import LlamaServer
from spectui.tune.candidates import Candidate, Loader
from spectui.tune.forecaster import Forecaster
from spectui.tune.pace import Pace
from spectui.tune.result import TuneResult
from spectui.tune.search import Search
from spectui.tune.setup import Limits, SearchSetup, divide
from spectui.tune.space import OLD_DEFAULTS, SERVER_DEFAULTS, SearchSpace, longest_draft
from spectui.tune.studies.study import StudyOptions, TuningStudy

GRID = [
    Speculation(DraftSimple(draft_max=longest, draft_p_min=floor))
    for longest, floor in product((1, 2, 3, 4, 6, 8, 12, 16), (0.0, 0.3, 0.5, 0.75, 0.9))
]
DRAFT = "draft"
_TOP = 3
_BLOCK = 4
"""Settings of the grid whose servers run at the same time."""
_MAX_TRIALS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What is decoded, by whom."""

    target: ModelOptions
    draft: ModelOptions
    items: tuple[WorkItem, ...]
    n_predict: int
    logs: Path

    def start(self, config: Speculation | None, name: str) -> LlamaServer:
        """Start the real server with the flags that spectui exports."""
        arguments = server_arguments(
            self.target,
            self.draft if config is not None and config.needs_draft else None,
            CONTEXT,
            config,
            dialect=Dialect.LLAMA_CPP,
        )
        return LlamaServer(
            server_binary(), [*arguments, "-np", "1"], log_path=self.logs / f"{name}.log"
        )

    def seconds(self, server: LlamaServer, item: WorkItem) -> float:
        """Decode one prompt; return seconds per token."""
        done = server.complete(item.tokens, n_predict=self.n_predict)
        return done.predicted_s / max(1, done.n_predicted - 1)


def main() -> None:
    """Measure and write ``results/tuning_regret_<target>.json``."""
    arguments = parsed()
    target, draft = demo_pair(arguments.target)
    with tempfile.TemporaryDirectory() as folder:
        workload = prepare(target, arguments.n_predict)
        job = Job(
            target=target,
            draft=draft,
            items=workload.items[: arguments.prompts],
            n_predict=arguments.n_predict,
            logs=Path(folder),
        )
        grid = measure_grid(job, arguments.grid or Path(folder) / "grid.jsonl")
        grid_s = sum(row["seconds"] for row in grid)
        budget_s = arguments.share * grid_s
        results = {
            name: tune(job, workload, budget_s, forecasting=forecasting)
            for name, forecasting in (("spectui", True), ("tpe", False))
        }
        found = {name: chosen(result) for name, (result, _wall_s) in results.items()}
        duel = measure_together(job, finals(grid, found))
    top = max(duel[f"grid {rank}"] for rank in range(_TOP))
    write_results(
        f"tuning_regret_{arguments.target}",
        {
            "n_settings": len(grid),
            "n_prompts": len(job.items),
            "n_predict": job.n_predict,
            "grid_s": grid_s,
            "budget_s": budget_s,
            "tuning": {name: told(result, wall) for name, (result, wall) in results.items()},
            "speedups_together": duel,
            "of_the_best": {name: value / max(top, 1.0) for name, value in duel.items()},
            "grid": grid,
        },
    )


def parsed() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", type=DemoModel, default=DemoModel.DENSE)
    parser.add_argument("--prompts", type=int, default=8)
    parser.add_argument("--n-predict", type=int, default=48)
    parser.add_argument("--grid", type=Path, help="JSON lines: what is there is not measured again")
    parser.add_argument("--share", type=float, default=1 / 8, help="of the grid's time")
    return parser.parse_args()


def finals(
    grid: Sequence[dict[str, Any]], found: Mapping[str, Speculation | None]
) -> dict[str, Speculation | None]:
    """Settings that are measured once more: the best of the grid, the defaults, what was found."""
    best = sorted(grid, key=lambda row: -row["speedup"])[:_TOP]
    return {
        "off": None,
        "defaults": Speculation(SERVER_DEFAULTS),
        "old defaults": Speculation(OLD_DEFAULTS),
        **{
            f"grid {rank}": Speculation(msgspec.convert(row["config"], DraftSimple))
            for rank, row in enumerate(best)
        },
        **found,
    }


def prepare(target: ModelOptions, n_predict: int) -> Workload:
    """Tokenize the built-in suite."""
    with Engine() as engine:
        loaded = engine.load_target(LoadTarget(options=target, context=CONTEXT, max_draft=1))
        return tokenize(
            engine,
            builtin_suite(),
            n_predict=n_predict,
            sampling=SamplingConfig(temp=0.0),
            n_ctx=loaded.n_ctx,
        )


def measure_grid(job: Job, path: Path) -> list[dict[str, Any]]:
    """One row per setting, each prompt beside the same prompt without a draft.

    Rows go to ``path`` as they come, and an interrupted grid goes on from there.
    """
    known = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    rows: list[dict[str, Any]] = [json.loads(line) for line in known]
    with job.start(None, "off") as off:
        while len(rows) < len(GRID):
            block = measure_block(job, GRID[len(rows) : len(rows) + _BLOCK], off)
            with path.open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(row) + "\n" for row in block)
            rows += block
            print(*block, sep="\n", file=sys.stderr, flush=True)
    return rows


def measure_block(
    job: Job, configs: Sequence[Speculation], off: LlamaServer
) -> list[dict[str, Any]]:
    """Rows of a few settings. Their seconds are what they themselves took, off left out."""
    spent: list[float] = []
    decoding = [0.0] * (len(configs) + 1)
    with ExitStack() as stack:
        servers = []
        for index, config in enumerate(configs):
            began = time.perf_counter()
            servers.append(stack.enter_context(job.start(config, f"grid-{index}")))
            job.seconds(servers[-1], job.items[0])
            spent.append(time.perf_counter() - began)
        for turn, item in enumerate(job.items):
            for index in in_turn(len(decoding), turn):
                began = time.perf_counter()
                decoding[index] += job.seconds((*servers, off)[index], item)
                if index < len(spent):
                    spent[index] += time.perf_counter() - began
    return [
        {"config": config.own.numbers, "seconds": seconds, "speedup": decoding[-1] / own}
        for config, seconds, own in zip(configs, spent, decoding, strict=False)
    ]


def in_turn(n: int, turn: int) -> list[int]:
    """All of ``n``, beginning elsewhere in every turn."""
    return [(turn + step) % n for step in range(n)]


def tune(
    job: Job, workload: Workload, budget_s: float, *, forecasting: bool
) -> tuple[TuneResult, float]:
    """Tune in ``budget_s``; return what was found, and the seconds that it took."""
    name = "spectui" if forecasting else "tpe"
    with Engine() as engine:
        began = time.perf_counter()
        loaded = engine.load_target(
            LoadTarget(options=job.target, context=CONTEXT, max_draft=longest_draft(CONTEXT))
        )
        candidates = [Candidate(name=DRAFT, options=job.draft, loaded=engine.load_draft(job.draft))]
        loader = Loader(engine, candidates, loaded=DRAFT)
        space = SearchSpace(drafts=(DRAFT,), max_draft=longest_draft(CONTEXT))
        limits = Limits(n_trials=_MAX_TRIALS, time_budget_s=budget_s)
        forecaster = Forecaster(
            replace(workload, items=divide(workload).trial_items),
            loader,
            space,
            target=loaded,
        )
        study = TuningStudy(
            name,
            StudyOptions(storage=f"sqlite:///{job.logs / name}.sqlite3", seed=1),
            spec={"machine": this_machine().fingerprint},
            space=space,
        )
        with study:
            setup = SearchSetup(
                engine=engine,
                study=study,
                workload=workload,
                measurer=Measurer(engine, workload),
                loader=loader,
                limits=limits,
                on_event=lambda event: print(name, type(event).__name__, file=sys.stderr),
            )
            result = Search(Pace(setup), forecaster if forecasting else None).run()
        return result, time.perf_counter() - began


def chosen(result: TuneResult) -> Speculation | None:
    """The setting to use, None for off."""
    if not result.verdict.use_speculation or result.best is None:
        return None
    return result.best.speculation


def told(result: TuneResult, wall_s: float) -> dict[str, Any]:
    """What a tuning run said, for the results."""
    config = chosen(result)
    return {
        "wall_s": wall_s,
        "n_trials": len(result.trials),
        "n_replayed": len(result.outlook.forecasts),
        "setting": None if config is None else msgspec.to_builtins(config),
        "verdict": result.verdict.reason,
    }


def measure_together(job: Job, settings: dict[str, Speculation | None]) -> dict[str, float]:
    """Speedup over off of each setting, on servers that take turns on every prompt."""
    distinct = list(dict.fromkeys(settings.values()))
    seconds: dict[Speculation | None, list[float]] = {config: [] for config in distinct}
    with ExitStack() as stack:
        servers = [
            stack.enter_context(job.start(config, f"final-{index}"))
            for index, config in enumerate(distinct)
        ]
        for server in servers:
            job.seconds(server, job.items[0])
        for turn, item in enumerate(job.items * 2):
            for index in in_turn(len(distinct), turn):
                seconds[distinct[index]].append(job.seconds(servers[index], item))
    off = statistics.fmean(seconds[None])
    return {name: off / statistics.fmean(seconds[config]) for name, config in settings.items()}


if __name__ == "__main__":
    main()
