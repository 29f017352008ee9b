"""How often each kind of 95 % interval contains the true speedup, on simulated measurements.

The simulated machine: half of the prompts reach the token limit more often than the others; the
time per token differs by 5 % between prompts; a slow drift is common to the two runs of a pair,
which alternate in order; each run has its own noise. What differs is the distribution of the
per-prompt log-speedup. Run from the repository root:

    python benchmarks/interval_coverage.py benchmarks/results/interval_coverage.json
"""

import json
import math
import sys
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

from spectui.measure.speedup import PairedMeasurement
from spectui.measure.statistics import paired_speedup

Array = npt.NDArray[np.float64]

SCENARIOS = ("log-sd 0.10", "log-sd 0.25", "two categories", "skewed")
N_PROMPTS = (6, 8, 16, 24)
NOISE = (0.02, 0.05)
N_SIMULATIONS = 2000
N_RESAMPLES = 1000
N_PREDICT = 96
SEED = 20240607
STUDENT_975 = {6: 2.570582, 8: 2.364624, 16: 2.131450, 24: 2.068658}
NORMAL = NormalDist()
SIGNS = np.array([1.0, -1.0, -1.0, 1.0])


def population(
    rng: np.random.Generator, n: int, scenario: str, code: npt.NDArray[np.bool_] | None = None
) -> tuple[Array, Array, Array]:
    """Tokens, baseline seconds and log-speedup of ``n`` prompts.

    ``code`` is which of them are of the one of two kinds; None for any.
    """
    code = rng.integers(0, 2, n) == 1 if code is None else code
    full = rng.random(n) < np.where(code, 0.9, 0.5)
    tokens = np.where(full, N_PREDICT, rng.integers(24, N_PREDICT, n)).astype(np.float64)
    seconds = tokens * 0.08 * np.exp(rng.normal(0, 0.05, n))
    if scenario == "two categories":
        gain = np.where(code, rng.normal(0.45, 0.10, n), rng.normal(-0.02, 0.06, n))
    elif scenario == "skewed":
        gain = -0.1 + rng.exponential(0.25, n)
    else:
        gain = rng.normal(0.2, float(scenario.removeprefix("log-sd ")), n)
    return tokens, seconds, gain


@cache
def true_log_speedup(scenario: str) -> float:
    """Log of the ratio of totals over a very large number of prompts."""
    _, seconds, gain = population(np.random.default_rng(SEED), 4_000_000, scenario)
    return math.log(seconds.sum() / (seconds * np.exp(-gain)).sum())


def measure(
    rng: np.random.Generator, n: int, scenario: str, noise: float, repeats: int
) -> list[PairedMeasurement]:
    """One simulated benchmark of ``n`` prompts."""
    tokens, seconds, gain = population(rng, n, scenario)
    pairs = []
    for _ in range(repeats):
        drift = np.cumsum(rng.normal(0, 0.005, 2 * n)).reshape(n, 2)
        drift[1::2] = drift[1::2, ::-1]  # off and on take turns in going first
        off = seconds * np.exp(drift[:, 0] + rng.normal(0, noise, n))
        on = seconds * np.exp(drift[:, 1] + rng.normal(0, noise, n) - gain)
        pairs += [
            PairedMeasurement(
                prompt_id=str(i),
                category="",
                baseline_s=float(off[i]),
                baseline_tokens=int(tokens[i]),
                speculative_s=float(on[i]),
                speculative_tokens=int(tokens[i]),
            )
            for i in range(n)
        ]
    return pairs


def log_ratio(totals: Array) -> Array:
    """Log-speedup from speculative tokens and seconds, baseline tokens and seconds."""
    ratio: Array = np.log(totals) @ SIGNS
    return ratio


def rival_intervals(
    rng: np.random.Generator, pairs: list[PairedMeasurement], n: int
) -> dict[str, tuple[float, float]]:
    """Log intervals of the methods that were considered and not chosen."""
    rows = [(p.speculative_tokens, p.speculative_s, p.baseline_tokens, p.baseline_s) for p in pairs]
    totals = np.array(rows, dtype=np.float64).reshape(-1, n, 4).mean(axis=0)
    estimate = log_ratio(totals.mean(axis=0)).item()
    counts = rng.multinomial(n, np.full(n, 1 / n), size=N_RESAMPLES)
    boots = log_ratio(counts @ totals / n)
    influence = (totals / totals.mean(axis=0)) @ SIGNS
    half = STUDENT_975[n] * float(influence.std(ddof=1)) / math.sqrt(n)
    tail = NORMAL.cdf(-math.sqrt(n / (n - 1)) * STUDENT_975[n])
    left, right = bca_tails(totals, estimate, boots)
    return {
        "student-t": (estimate - half, estimate + half),
        "percentile": quantiles(boots, 0.025, 0.975),
        "expanded percentile": quantiles(boots, tail, 1 - tail),
        "bca": quantiles(boots, left, right),
    }


def quantiles(values: Array, left: float, right: float) -> tuple[float, float]:
    """Two quantiles as floats."""
    low, high = np.quantile(values, [left, right])
    return float(low), float(high)


def bca_tails(totals: Array, estimate: float, boots: Array) -> tuple[float, float]:
    """Bias-corrected and accelerated tail probabilities (Efron 1987) for 95 %."""
    below = float((boots < estimate).mean())
    bias = NORMAL.inv_cdf(min(max(below, 1e-4), 1 - 1e-4))
    jackknife = log_ratio((totals.sum(axis=0) - totals) / (len(totals) - 1))
    lean = jackknife.mean() - jackknife
    acceleration = float((lean**3).sum() / (6 * (lean**2).sum() ** 1.5))

    def corrected(z: float) -> float:
        return NORMAL.cdf(bias + (bias + z) / (1 - acceleration * (bias + z)))

    return corrected(NORMAL.inv_cdf(0.025)), corrected(NORMAL.inv_cdf(0.975))


def intervals(
    rng: np.random.Generator, pairs: list[PairedMeasurement], n: int
) -> dict[str, tuple[float, float]]:
    """Log intervals of all methods, the one that spectui uses first."""
    ours = paired_speedup(pairs, n_resamples=N_RESAMPLES)
    if ours.low is None or ours.high is None:
        raise ValueError(ours.interval_reason)
    shipped = (math.log(ours.low), math.log(ours.high))
    return {
        "spectui (the outer ends of bootstrap-t and student-t)": shipped,
        **rival_intervals(rng, pairs, n),
    }


def simulate(scenario: str, n: int, noise: float, repeats: int) -> dict[str, Any]:
    """Coverage, misses below and widths of every method in one setting."""
    truth = true_log_speedup(scenario)
    rng = np.random.default_rng([SEED, SCENARIOS.index(scenario), n, repeats, int(noise * 1000)])
    found: dict[str, list[tuple[float, float]]] = {}
    for _ in range(N_SIMULATIONS):
        for name, interval in intervals(rng, measure(rng, n, scenario, noise, repeats), n).items():
            found.setdefault(name, []).append(interval)
    methods = {name: summary(np.array(rows), truth) for name, rows in found.items()}
    return {
        "scenario": scenario,
        "n_prompts": n,
        "noise": noise,
        "repeats": repeats,
        "true_speedup": round(math.exp(truth), 4),
        "methods": methods,
    }


def summary(bounds: Array, truth: float) -> dict[str, float]:
    """What the intervals of one method did; widths are of the log-speedup."""
    low, high = bounds.T
    return {
        "coverage": round(float(((low <= truth) & (truth <= high)).mean()), 4),
        "too_high": round(float((low > truth).mean()), 4),
        "width_median": round(float(np.median(high - low)), 4),
        "width_p95": round(float(np.quantile(high - low, 0.95)), 4),
    }


def overview(cells: list[dict[str, Any]]) -> dict[str, dict[str, dict[str, float]]]:
    """Lowest and mean coverage over the settings, per method and number of prompts."""
    table: dict[str, dict[str, list[float]]] = {}
    for cell in cells:
        for name, result in cell["methods"].items():
            row = table.setdefault(name, {})
            row.setdefault(str(cell["n_prompts"]), []).append(result["coverage"])
    return {
        name: {
            n: {"lowest": min(values), "mean": round(float(np.mean(values)), 4)}
            for n, values in row.items()
        }
        for name, row in table.items()
    }


def main(out: Path) -> None:
    """Simulate every setting and write the results."""
    settings = [(s, n, noise, 1) for s in SCENARIOS for n in N_PROMPTS for noise in NOISE]
    settings += [(s, 8, 0.05, 3) for s in SCENARIOS]
    cells = []
    for setting in settings:
        cells.append(simulate(*setting))
        print(json.dumps(cells[-1]), file=sys.stderr, flush=True)
    document = {
        "date": datetime.now(UTC).date().isoformat(),
        "parameters": {
            "level": 0.95,
            "n_simulations": N_SIMULATIONS,
            "n_resamples": N_RESAMPLES,
            "n_predict": N_PREDICT,
            "drift_step": 0.005,
            "seed": SEED,
        },
        "coverage": overview(cells),
        "settings": cells,
    }
    out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
