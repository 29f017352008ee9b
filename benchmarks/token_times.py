"""Does a machine have one speed? A single token and batches, minute after minute, in one process.

A token of the target alone waits for memory bandwidth, a batch for the cores. Where other programs
or virtual machines take bandwidth at times, single tokens take longer and batches do not: then the
gain of a draft differs from minute to minute, whatever estimates it.
"""

import argparse
import statistics
import time
from dataclasses import replace

from benchmarks.common import load_pair, write_results
from spectui.engine.commands import Generate
from spectui.engine.driver import Engine
from spectui.engine.events import Event, RoundFinished
from spectui.measure.workload import WorkItem
from spectui.options.drafters import DraftSimple
from spectui.options.speculation import Speculation
from spectui.speculative.counters import Round

LENGTHS = (0, 3, 8)
"""Drafted tokens of the rounds that are compared."""
_N_PREDICT = 48


def main() -> None:
    """Measure and write ``results/token_times.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=300.0)
    arguments = parser.parse_args()
    rows = list[dict[str, float]]()
    with Engine() as engine:
        workload = load_pair(engine, max_draft=max(LENGTHS), n_prompts=1, n_predict=_N_PREDICT)
        began = time.monotonic()
        while (at_s := time.monotonic() - began) < arguments.seconds:
            times = {f"batch_of_{n + 1}_s": verify_s(engine, workload.items[0], n) for n in LENGTHS}
            rows.append({"at_s": round(at_s, 1), **times})
    found = {name: spread([row[name] for row in rows]) for name in rows[0] if name != "at_s"}
    write_results("token_times", {**found, "rows": rows})


def verify_s(engine: Engine, item: WorkItem, n_drafted: int) -> float:
    """Median seconds in which the target evaluates a token and so many drafted ones."""
    rounds = list[Round]()

    def listen(event: Event) -> None:
        if isinstance(event, RoundFinished):
            rounds.append(event.round)

    own, engine.on_event = engine.on_event, listen
    command = Generate(prompt=item.tokens, n_predict=_N_PREDICT, reuse_prompt=True)
    if n_drafted:
        command = replace(command, speculation=Speculation(DraftSimple(draft_max=n_drafted)))
    engine.generate(command)
    engine.on_event = own
    return statistics.median(one.times.verify_s for one in rounds if one.n_drafted == n_drafted)


def spread(seconds: list[float]) -> dict[str, float]:
    """Least, median and greatest."""
    return {"least": min(seconds), "median": statistics.median(seconds), "most": max(seconds)}


if __name__ == "__main__":
    main()
