"""Which part of a round is not llama.cpp's decode, and where it goes.

Runs the dense demo pair with the engine's own clocks, then once more with a timer around each
suspect. Timers cost time themselves, so the total comes from the first run and only the split from
the second. Sampling is llama.cpp's own code, but is counted here as not decoding.
"""

import argparse
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import spectui.llama.pair as pair_module
from benchmarks.common import load_pair, write_results
from spectui.engine.commands import Generate
from spectui.engine.driver import Engine
from spectui.engine.events import GenerationResult
from spectui.engine.generation import Generation
from spectui.engine.models import LoadedModels
from spectui.engine.worker import LocalWorker
from spectui.llama.context import Context
from spectui.llama.sampling import SamplerChain
from spectui.llama.sequence import Batch
from spectui.measure.workload import Workload
from spectui.options.drafters import DraftSimple
from spectui.options.speculation import Speculation

SUSPECTS: tuple[tuple[str, Any, str], ...] = (
    ("target sampler chain", SamplerChain, "sample"),
    ("draft top token", pair_module, "top_token"),
    ("filling batches", Batch, "fill"),
    ("logits view", Context, "logits"),
    ("rollback", Context, "truncate"),
    ("token pieces and events", Generation, "_emit_token"),
)


def main() -> None:
    """Measure and write ``results/python_share.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompts", type=int, default=4)
    parser.add_argument("--n-predict", type=int, default=64)
    parser.add_argument("--draft-max", type=int, default=4)
    arguments = parser.parse_args()
    speculation = Speculation(DraftSimple(draft_max=arguments.draft_max))
    worker = LocalWorker()
    with Engine(worker=worker) as engine:
        workload = load_pair(
            engine,
            max_draft=arguments.draft_max,
            n_prompts=arguments.prompts,
            n_predict=arguments.n_predict,
        )
        ways = {
            "off": None,
            "on": speculation,
        }
        shares = {name: measure(engine, worker.models, workload, way) for name, way in ways.items()}
    write_results("python_share", {"draft_max": arguments.draft_max, "ways": shares})


def measure(
    engine: Engine, models: LoadedModels, workload: Workload, speculation: Speculation | None
) -> dict[str, Any]:
    """Share of everything but decoding, and its split."""
    run_all(engine, workload, speculation)
    # Prompts are known from here on: what llama.cpp decodes is of the answers.
    before_s = sum(context.native_s for context in models.contexts)
    results = run_all(engine, workload, speculation)
    native_s = sum(context.native_s for context in models.contexts) - before_s
    wall_s = sum(result.decode_s for result in results)
    n_rounds = sum(result.counters.n_rounds for result in results)
    outside_s = wall_s - native_s
    split = timed(lambda: run_all(engine, workload, speculation))
    return {
        "round_ms": 1e3 * wall_s / n_rounds,
        "outside_decode_ms": 1e3 * outside_s / n_rounds,
        "outside_decode_share": outside_s / wall_s,
        "split_ms": {name: 1e3 * seconds / n_rounds for name, seconds in split.items()},
    }


def run_all(
    engine: Engine, workload: Workload, speculation: Speculation | None
) -> list[GenerationResult]:
    """Decode every prompt once."""
    return [
        engine.generate(
            Generate(
                prompt=item.tokens,
                n_predict=workload.n_predict,
                speculation=speculation,
                reuse_prompt=True,
            )
        )
        for item in workload.items
    ]


def timed(run: Callable[[], object]) -> dict[str, float]:
    """Seconds in each suspect while ``run`` runs."""
    spent: dict[str, float] = defaultdict(float)
    originals = [(owner, name, getattr(owner, name)) for _label, owner, name in SUSPECTS]
    for label, owner, name in SUSPECTS:
        setattr(owner, name, stopwatch(getattr(owner, name), label, spent))
    try:
        run()
    finally:
        for owner, name, original in originals:
            setattr(owner, name, original)
    return dict(spent)


def stopwatch(
    function: Callable[..., Any], label: str, spent: dict[str, float]
) -> Callable[..., Any]:
    """Add the seconds of every call to ``spent``."""

    def wrapped(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - stands for any function
        began = time.perf_counter()
        try:
            return function(*args, **kwargs)
        finally:
            spent[label] += time.perf_counter() - began

    return wrapped


if __name__ == "__main__":
    main()
