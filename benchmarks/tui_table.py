"""Scrolling and adding to the table of trials, by its length, and what a trial costs.

Times are of the processor: all is one thread's work, and what else the machine does has no part in
it.
"""

import asyncio
import random
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable
from typing import Any, cast

from benchmarks.common import write_results
from spectui.measure.arm import OFF, Arm
from spectui.options.drafters import DraftSimple
from spectui.options.speculation import Speculation
from spectui.tui.look import ColouredApp
from spectui.tui.tune.controller import TuneController
from spectui.tui.tune.ledger import digest
from spectui.tui.tune.screen import TuneScreen
from spectui.tui.tune.views import SettingsTable
from spectui.tune.progress import Phase, TuningState
from spectui.tune.trials import PromptScore, TrialRecord, TrialState
from tests.support.cockpit import Recorder

LENGTHS = (100, 1_000)
REPEATS = 50
N_PROMPTS = 8
SIZE = (120, 40)


def main() -> None:
    """Measure and write ``results/tui_table.json``."""
    records = make_records(max(LENGTHS) + REPEATS)
    by_length = {n: asyncio.run(measure(records, n)) for n in LENGTHS}
    write_results(
        "tui_table",
        {
            "terminal": SIZE,
            "repeats": REPEATS,
            "trials_table": by_length,
            "memory": measure_memory(max(LENGTHS)),
        },
    )


def make_records(n: int) -> tuple[TrialRecord, ...]:
    """Off and random settings with random speeds."""
    pick = random.Random(0)  # noqa: S311 - settings, no secrets
    return tuple(_record(pick, number) for number in range(n))


async def measure(records: tuple[TrialRecord, ...], n: int) -> dict[str, Any]:
    """Time the screen and its table at ``n`` trials."""
    screen = TuneScreen(cast("TuneController", Recorder()), _state(records[:n]))
    app = ColouredApp[None]()
    async with app.run_test(size=SIZE) as pilot:
        await app.push_screen(screen)
        await pilot.pause()
        table = screen.query_one(SettingsTable)

        def scroll(step: int) -> None:
            table.scroll_to(y=step * 10 % n, animate=False)
            table.render_lines(table.size.region)

        def insert(step: int) -> None:
            screen.show(_state(records[: n + step + 1]))

        return {name.__name__: _milliseconds(name) for name in (scroll, insert)}


def measure_memory(n: int) -> dict[str, float]:
    """Bytes per trial of the records themselves and of what the screen keeps beside them."""
    tracemalloc.start()
    records = make_records(n)
    of_records = tracemalloc.get_traced_memory()[0]
    ledger = digest(_state(records))
    with_rows = tracemalloc.get_traced_memory()[0]
    order = list(ledger.rows)
    with_order = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return {
        "n_trials": len(order),
        "record_bytes": of_records / n,
        "screen_bytes": (with_order - of_records) / n,
        "of_which_rows_bytes": (with_rows - of_records) / n,
    }


def _milliseconds(work: Callable[[int], None]) -> dict[str, float]:
    seconds = []
    for step in range(REPEATS):
        began = time.process_time()
        work(step)
        seconds.append(time.process_time() - began)
    return {
        "median_cpu_ms": round(1000 * statistics.median(seconds), 3),
        "p95_cpu_ms": round(1000 * statistics.quantiles(seconds, n=20)[-1], 3),
        "max_cpu_ms": round(1000 * max(seconds), 3),
    }


def _state(records: tuple[TrialRecord, ...]) -> TuningState:
    return TuningState(phase=Phase.SEARCHING, study="s", records=records)


def _record(pick: random.Random, number: int) -> TrialRecord:
    arm = OFF
    if number:
        config = Speculation(
            DraftSimple(
                draft_max=pick.randint(1, 16),
                draft_min=pick.randint(0, 4),
                draft_p_min=round(pick.randint(0, 19) * 0.05, 2),
            )
        )
        arm = Arm(draft="SmolLM2-135M-Instruct-Q4_1", speculation=config)
    scores = tuple(
        PromptScore(
            prompt_id=sys.intern(f"prompt-{i}"),
            category="code",
            n_tokens=64,
            decode_s=pick.uniform(3, 7),
            n_drafted=pick.randint(60, 90),
            n_accepted=pick.randint(20, 60),
            n_rounds=pick.randint(20, 40),
        )
        for i in range(N_PROMPTS)
    )
    return TrialRecord(
        number=number,
        state=TrialState.COMPLETE,
        arm=arm,
        prompts=scores,
        speedup=pick.uniform(0.8, 1.6),
    )


if __name__ == "__main__":
    main()
