"""How much gains differ from prompt to prompt, and what a dozen prompts choose.

A trace of long answers is cut at several lengths, and every setting is replayed on each. The first
stage of a search records a dozen prompts: what it would choose is held against the best setting on
the other prompts, which is not known beforehand.

    spectui trace --demo --temp 0 -n 128 --ignore-eos --out long.spectui-trace
    python -m benchmarks.prompt_spread long.spectui-trace

A trace that Ctrl-C ended behind its first draft will do. Without ``--keep-text`` n-gram drafters
that hash tokens are left out.
"""

import argparse
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import write_results
from spectui.trace.file import read_trace
from spectui.trace.record import Chains, Recording, Tail, Trace, mismatches, spread_out
from spectui.tune.forecast import Forecast, shrunk
from spectui.tune.forecasting import STAGE
from spectui.tune.recorded import Recorded
from spectui.tune.space import SearchSpace

LENGTHS = (16, 32, 64, 128)
_N_CHOICES = 300


def main() -> None:
    """Measure and write ``results/prompt_spread.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace", type=Path, help="with costs and one draft or more")
    arguments = parser.parse_args()
    trace = read_trace(arguments.trace)
    rows = [row for n in LENGTHS for row in spread(trace, n)]
    write_results("prompt_spread", {"n_prompts": len(trace.recordings), "rows": rows})


def spread(trace: Trace, n_tokens: int) -> list[dict[str, Any]]:
    """Gains of the best settings of each kind, on answers of so many tokens."""
    recordings = [cut(one, n_tokens) for one in trace.recordings]
    drafts = tuple(sorted(set.intersection(*(set(one.chains) for one in recordings))))
    recorded = Recorded(
        recordings=recordings,
        costs=trace.costs,
        space=SearchSpace(drafts=drafts),
        has_text=trace.has_text,
    )
    forecasts = recorded.forecasts(recorded.totals())
    kinds = {
        "n-grams": [one for one in forecasts if one.arm.draft is None],
        "draft": [one for one in forecasts if one.arm.draft is not None and not _ahead(one)],
        "n-grams ahead of a draft": [one for one in forecasts if _ahead(one)],
    }
    best = [_row(name, found[0]) for name, found in kinds.items() if found]
    categories = [one.category for one in recordings]
    return [{"n_tokens": n_tokens, **row} for row in (*best, _choice(forecasts, categories))]


def _ahead(one: Forecast) -> bool:
    return one.arm.speculation is not None and bool(one.arm.speculation.ahead)


def _row(kind: str, best: Forecast) -> dict[str, Any]:
    answers = best.answers.whole
    on_s, off_s = answers.on_s[:, 0], answers.off_s[:, 0]
    # What each prompt moves the logarithm of the speedup by, times the prompts.
    influence = off_s / off_s.mean() - on_s / on_s.mean()
    return {
        "kind": kind,
        "best": best.arm.label,
        "speedup": best.speedup,
        "standard_deviation": float(influence.std(ddof=1)),
    }


def _choice(forecasts: Sequence[Forecast], categories: Sequence[str]) -> dict[str, Any]:
    """Gain of what a dozen prompts of all categories choose, on the others."""
    on_s, off_s = (
        np.array([getattr(one.answers, name) for one in forecasts]) for name in ("on_s", "off_s")
    )
    dice = np.random.default_rng(0)
    names, of_names = sorted(set(categories)), np.array(categories)
    each = -(-STAGE // len(names))
    chosen, best = list[float](), list[float]()
    for _ in range(_N_CHOICES):
        some = np.concatenate(
            [dice.permutation(np.flatnonzero(of_names == one))[:each] for one in names]
        )
        first = dice.permutation(some)[:STAGE]
        others = np.setdiff1d(np.arange(len(categories)), first)
        gains = np.log(off_s[:, others].sum((1, 2)) / on_s[:, others].sum((1, 2)))
        by_parts = (one[:, first].reshape(len(forecasts), -1) for one in (off_s, on_s))
        chosen.append(float(gains[np.argmax(shrunk(*by_parts))]))
        best.append(float(gains.max()))
    return {
        "kind": "chosen by a dozen, on the others",
        "speedup": math.exp(np.mean(chosen)),
        "best_on_the_others": math.exp(np.mean(best)),
    }


def cut(recording: Recording, n_tokens: int) -> Recording:
    """The beginning of a recorded answer."""
    output = recording.output[:n_tokens]

    def cut_chains(chains: Chains) -> Chains:
        rows = spread_out(recording.output, chains)[1]
        tokens = chains.tokens[:n_tokens]
        ends = (rows[position] for position in mismatches(output, tokens))
        return replace(
            chains,
            tokens=tokens,
            probabilities=chains.probabilities[:n_tokens],
            tails=tuple(
                Tail(tokens=one.tokens[1:], probabilities=one.probabilities[1:]) for one in ends
            ),
            of_output=chains.of_output[:n_tokens],
        )

    return replace(
        recording,
        output=output,
        probabilities=recording.probabilities[:n_tokens],
        n_predict=len(output),
        chains={name: cut_chains(one) for name, one in recording.chains.items()},
    )


if __name__ == "__main__":
    main()
