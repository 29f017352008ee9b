"""How many settings a replay takes per minute on one core, for a trace of 2,000 tokens.

The trace is made up: its acceptance is that of a good draft, so that there are many rounds to walk
through. With and without prices; CPU seconds, not wall time.
"""

import argparse
import random
import time
from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks.common import write_results
from spectui.speculative.decoder import Stop
from spectui.speculative.models import Rollback
from spectui.trace.costs import Costs, Prices
from spectui.trace.record import Chains, Recording, Tail, mismatches
from spectui.trace.replay import Grid, replay_grid

DEPTH = 16
ACCEPTANCE = 0.75
COSTS = Costs(
    n_past=50,
    lengths=(0, 4, 16),
    verify_s=(0.05, 0.06, 0.1),
    verify_growth_s=(0.000005, 0.000006, 0.00001),
    again_s=(0.004, 0.01, 0.03),
    again_growth_s=(0.000001, 0.000001, 0.000003),
    step_s=0.004,
    step_growth_s=0.000001,
    token_s=0.0004,
    fixed_s=0.0003,
    off_s=0.05,
    rollback_s=0.0001,
    rollback_token_s=0.00002,
    off_growth_s=0.000005,
)


def main() -> None:
    """Measure and write ``results/replay_speed.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=2000)
    arguments = parser.parse_args()
    recording = made_up(arguments.tokens)
    rows = [
        measure(recording, n_floors, prices)
        for n_floors in (20, 250)
        for prices in (None, COSTS.prices(DEPTH))
    ]
    write_results("replay_speed", {"n_tokens": arguments.tokens, "rows": rows})


def measure(recording: Recording, n_floors: int, prices: Prices | None) -> dict[str, Any]:
    """Replay one grid."""
    grid = Grid(
        draft_max=tuple(range(1, DEPTH + 1)),
        draft_min=(0, 1, 2, 3, 4),
        draft_p_min=tuple(map(float, np.linspace(0, 0.95, n_floors))),
    )
    n_settings = int(np.prod(grid.shape))
    began = time.process_time()
    replayed = replay_grid([recording], "draft", grid, prices=prices)
    seconds = time.process_time() - began
    return {
        "n_settings": n_settings,
        "with_prices": prices is not None,
        "cpu_s": seconds,
        "settings_per_minute": round(60 * n_settings / seconds),
        "rounds": [int(replayed.n_rounds.min()), int(replayed.n_rounds.max())],
    }


def made_up(n_tokens: int) -> Recording:
    """A trace with a given acceptance and confident and less confident tokens."""
    dice = random.Random(1)  # noqa: S311 - no secrets

    def probability() -> float:
        return float(np.float32(dice.random() ** 0.4))

    output = tuple(dice.randrange(1000) for _ in range(n_tokens))
    right = [after if dice.random() < ACCEPTANCE else -1 for _, after in pairwise(output)]
    tokens = (*right, -1)
    tails = tuple(
        Tail(
            tokens=(0,) * (DEPTH - 1), probabilities=tuple(probability() for _ in range(DEPTH - 1))
        )
        for _ in mismatches(output, tokens)
    )
    chains = Chains(
        depth=DEPTH,
        tokens=tokens,
        probabilities=tuple(probability() for _ in tokens),
        tails=tails,
    )
    return Recording(
        id="made up",
        category="none",
        prompt=(1,) * 50,
        output=output,
        stop=Stop.LENGTH,
        n_predict=n_tokens,
        n_ctx=2 * n_tokens + 100,
        chains={"draft": chains},
        rollback=Rollback.TRUNCATE,
    )


if __name__ == "__main__":
    main()
