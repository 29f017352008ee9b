"""The same setting beside other programs: what is measured, and what ``tune`` concludes.

Part one measures one setting on the demo pairs again and again, in turn on a quiet machine, beside
another program that is busy in bursts, and beside a compiler. Three estimates of each measurement
are compared: prompts decoded whole, one after the other, by the stopwatch; segments that take turns
within the prompts, by the stopwatch; those segments with exact counts and robust prices, which is
what ``bench`` reports; and the same with a share of each answer decoded by the target alone, which
is what ``tune`` reports. The truth is the last but one over all quiet measurements together.

Part two (``--tune N``) runs ``tune`` as a user would, beside each load.
"""

import argparse
import math
import multiprocessing
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.common import add_row, load_pair, read_rows, write_results
from benchmarks.demo_verdicts import PRESETS, run
from spectui.demo import DemoModel
from spectui.engine.commands import SEGMENT_S, Generate, GeneratePair
from spectui.engine.driver import Engine
from spectui.measure.measurer import Measurer, Pair, measurements, steady
from spectui.measure.statistics import paired_speedup
from spectui.measure.workload import WorkItem, Workload
from spectui.options.drafters import DraftSimple
from spectui.options.speculation import Speculation
from spectui.tune.race import BASELINE_SHARE

LOADS = ("quiet", "bursts", "compiler")
ESTIMATES = ("whole_stopwatch", "segments_stopwatch", "segments_steady", "share_steady")
SETTING = Speculation(DraftSimple(draft_max=4, draft_min=0, draft_p_min=0.0))
_N_PREDICT = 64
_BUSY_S = (0.5, 3.0)
_IDLE_S = (1.0, 6.0)
_SOURCE = """
#include <map>
#include <regex>
#include <string>
template <int N> struct Deep { std::map<std::string, Deep<N - 1>> parts; std::regex rule; };
template <> struct Deep<0> { std::string text; };
int main() { Deep<60> one; return static_cast<int>(one.parts.size()); }
"""


def main() -> None:
    """Measure and write ``results/busy_machine.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompts", type=int, default=12)
    parser.add_argument("--runs", type=int, default=6, help="measurements beside each load")
    parser.add_argument("--tune", type=int, default=0, help="runs of tune beside each load")
    parser.add_argument("--loads", nargs="+", choices=LOADS, default=LOADS, help="of those runs")
    parser.add_argument("--targets", nargs="+", choices=list(DemoModel), default=list(PRESETS))
    parser.add_argument("--rows", type=Path, help="JSON lines; an interrupted run goes on")
    arguments = parser.parse_args()
    rows = read_rows(arguments.rows)
    verdicts = [row for row in rows if "verdict" in row]
    rows = [row for row in rows if "verdict" not in row]
    for target in map(DemoModel, arguments.targets):
        known = {(row["load"], row["run"]) for row in rows if row.get("target") == target}
        for row in _measurements(target, arguments.prompts, arguments.runs, known):
            rows.append(row)
            add_row(arguments.rows, row)
            print(row, file=sys.stderr, flush=True)
    told = {(row["target"], row["load"], row["seed"]) for row in verdicts}
    runs = product(range(1, arguments.tune + 1), arguments.targets, arguments.loads)
    for seed, target, name in runs:
        if (target, name, seed) not in told:
            verdicts.append(_verdict(DemoModel(target), name, seed))
            add_row(arguments.rows, verdicts[-1])
            print(name, target, verdicts[-1]["verdict"]["reason"], file=sys.stderr, flush=True)
    write_results(
        "busy_machine",
        {
            "setting": SETTING.own.numbers,
            "n_prompts": arguments.prompts,
            "n_predict": _N_PREDICT,
            "segment_s": SEGMENT_S,
            "summary": _summary(rows),
            "measurements": rows,
            "verdicts": verdicts,
        },
    )


def _measurements(
    target: DemoModel, n_prompts: int, n_runs: int, known: set[tuple[str, int]]
) -> Iterator[dict[str, Any]]:
    """Measure beside each load in turn."""
    with Engine() as engine:
        workload = load_pair(
            engine,
            target=target,
            max_draft=SETTING.longest,
            n_prompts=n_prompts,
            n_predict=_N_PREDICT,
        )
        Measurer(engine, workload).warm_up(SETTING)
        for number in range(n_runs):
            for name in LOADS:
                if (name, number) not in known:
                    with load(name, number):
                        found = _measured(engine, workload, number)
                    yield {"target": str(target), "load": name, "run": number, **found}


def _measured(engine: Engine, workload: Workload, number: int) -> dict[str, Any]:
    """Every prompt in segments and whole, which of the two first in turn."""
    kinds = {
        "segments": (SEGMENT_S, 1.0),
        "whole": (math.inf, 1.0),
        "share": (SEGMENT_S, BASELINE_SHARE),
    }
    pairs: dict[str, list[Pair]] = {kind: [] for kind in kinds}
    seconds = dict.fromkeys(kinds, 0.0)
    for turn, item in enumerate(workload.items, number):
        command = Generate(
            prompt=item.tokens,
            n_predict=workload.n_predict,
            sampling=workload.sampling,
            speculation=SETTING,
            reuse_prompt=True,
        )
        for kind in list(kinds)[:: -1 if turn % 2 else 1]:
            segment_s, share = kinds[kind]
            began_s = time.perf_counter()
            pairs[kind].append(
                _decoded(
                    engine,
                    item,
                    GeneratePair(
                        speculative=command,
                        baseline_first=turn // 2 % 2 == 0,
                        segment_s=segment_s,
                        baseline_share=share,
                    ),
                )
            )
            seconds[kind] += time.perf_counter() - began_s
    return {
        "whole_stopwatch": _estimate(pairs["whole"]),
        "segments_stopwatch": _estimate(pairs["segments"]),
        "segments_steady": _estimate(steady(pairs["segments"])),
        "share_steady": _estimate(steady(pairs["share"])),
        **{f"{kind}_s": seconds[kind] for kind in kinds},
    }


def _decoded(engine: Engine, item: WorkItem, command: GeneratePair) -> Pair:
    done = engine.generate_pair(command)
    return Pair(
        item=item, baseline=done.baseline, speculative=done.speculative, segments=done.segments
    )


def _estimate(pairs: Sequence[Pair]) -> dict[str, float | None]:
    found = paired_speedup(measurements(pairs))
    return {"speedup": found.estimate, "low": found.low, "high": found.high}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Errors:
    """Estimates of one kind beside one load."""

    relative: list[float]
    """Estimates over the truth."""
    n_covered: int
    """Intervals that hold it."""
    half_widths: list[float]

    def document(self) -> dict[str, Any]:
        errors = [abs(math.log(one)) for one in self.relative]
        return {
            "n": len(errors),
            "root_mean_square_error": math.sqrt(sum(e * e for e in errors) / len(errors)),
            "greatest_error": max(errors),
            "highest_over_lowest": max(self.relative) / min(self.relative),
            "n_intervals_that_hold_the_truth": self.n_covered,
            "median_half_width": median(self.half_widths),
        }


def _summary(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    found = []
    for target in dict.fromkeys(row["target"] for row in rows):
        own = [row for row in rows if row["target"] == target]
        quiet = [row["segments_steady"]["speedup"] for row in own if row["load"] == "quiet"]
        truth = math.exp(sum(map(math.log, quiet)) / len(quiet))
        for name in LOADS:
            for kind in ESTIMATES:
                given = [row[kind] for row in own if row["load"] == name]
                errors = _Errors(
                    relative=[one["speedup"] / truth for one in given],
                    n_covered=sum(one["low"] <= truth <= one["high"] for one in given),
                    half_widths=[(one["high"] - one["low"]) / 2 for one in given],
                )
                found.append(
                    {
                        "target": target,
                        "load": name,
                        "estimate": kind,
                        "truth": truth,
                        **errors.document(),
                    }
                )
    return found


def _verdict(target: DemoModel, name: str, seed: int) -> dict[str, Any]:
    """What ``tune`` says beside a load."""
    with load(name, seed):
        found = run(PRESETS[target], seed, "4m")
    return {"target": str(target), "load": name, **found}


@contextmanager
def load(name: str, seed: int) -> Iterator[None]:
    """Keep a core busy as ``name`` says."""
    if name == "quiet":
        yield
        return
    with tempfile.TemporaryDirectory() as folder:
        started = multiprocessing.get_context("spawn").Process(
            target=_bursts if name == "bursts" else _compile, args=(seed, folder)
        )
        started.start()
        try:
            yield
        finally:
            started.terminate()
            started.join()


def _bursts(seed: int, _folder: str) -> None:
    """Compute for a while, rest for a while, until it is ended."""
    chance = random.Random(seed)  # noqa: S311 - a load, not a secret
    while True:
        until_s = time.perf_counter() + chance.uniform(*_BUSY_S)
        while time.perf_counter() < until_s:
            pass
        time.sleep(chance.uniform(*_IDLE_S))


def _compile(_seed: int, folder: str) -> None:
    """Compile again and again, until it is ended; the compiler at work ends by itself soon."""
    source = Path(folder) / "source.cpp"
    source.write_text(_SOURCE, encoding="utf-8")
    while True:
        subprocess.run(
            ["g++", "-O2", "-c", source.name], cwd=folder, check=True, stderr=subprocess.DEVNULL
        )


if __name__ == "__main__":
    main()
