"""Acceptance of sampled drafts: predicted from a recording, and by a llama-server that has them.

The target writes answers at llama-server's sampling, the draft reads them, and the acceptance of
drafts that are sampled and verified by rejection follows (``trace.probabilistic``). Then the server
of the package xllamacpp, of a llama.cpp that has ``--spec-draft-sampling``, answers the same
prompts with other seeds, once with that and once without.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.common import CONTEXT, demo_pair, write_results
from spectui.engine.commands import RecordChains, WriteAnswers
from spectui.engine.driver import Engine
from spectui.engine.events import AnswerWritten
from spectui.measure.workload import Workload, tokenize
from spectui.options.setup import SamplingConfig
from spectui.prompts import builtin_suite
from spectui.speculative.decoder import Stop
from spectui.speculative.models import Rollback
from spectui.trace.costs import Prices, RoundPrices
from spectui.trace.probabilistic import replay_sampled
from spectui.trace.record import Recording

LONGEST = 8
FREE = np.zeros(LONGEST + 1)
NO_PRICES = Prices(
    depths=(0,),
    rounds=(
        RoundPrices(chain=FREE, batch=FREE, token=0.0, fixed=0.0, rollback=0.0, rollback_token=0.0),
    ),
)
SERVER = """
import json, sys
import xllamacpp
asked = json.load(sys.stdin)
params = xllamacpp.CommonParams()
params.model.path, params.n_ctx, params.n_parallel = asked["target"], asked["n_ctx"], 1
params.warmup = False
speculative = params.speculative
speculative.types = [xllamacpp.common_speculative_type.COMMON_SPECULATIVE_TYPE_DRAFT_SIMPLE]
draft = speculative.draft
draft.mparams.path, draft.n_max, draft.n_min, draft.p_min = asked["draft"], asked["n_max"], 0, 0.0
draft.probabilistic = asked["probabilistic"]
server = xllamacpp.Server(params)
counts = [0, 0]
for seed in asked["seeds"]:
    for prompt in asked["prompts"]:
        found = server.handle_completions({**asked["request"], "prompt": prompt, "seed": seed})
        timings = (found if isinstance(found, dict) else json.loads(found))["timings"]
        counts[0] += timings["draft_n"]
        counts[1] += timings["draft_n_accepted"]
print("\\n" + json.dumps(counts))
"""


def main() -> None:
    """Record, ask the server, and write ``results/sampled_drafts.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompts", type=int, default=12)
    parser.add_argument("--n-predict", type=int, default=48)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--lengths", type=int, nargs="+", default=[1, 4])
    arguments = parser.parse_args()
    n_predict, sampling = arguments.n_predict, SamplingConfig(ignore_eos=True)
    with Engine() as engine:
        workload, recordings = recorded(engine, arguments.prompts, n_predict, sampling)
    prompts = [item.tokens for item in workload.items]
    seeds = range(1, arguments.seeds + 1)
    rows = []
    for longest in arguments.lengths:
        sums = sum(replay_sampled(one, one.chains["draft"], NO_PRICES) for one in recordings)
        drafted, accepted = np.asarray(sums)[longest - 1, 1:].tolist()
        served = [
            served_counts(prompts, longest, n_predict, sampling, seeds, probabilistic=one)
            for one in (True, False)
        ]
        rows.append(
            {
                "draft_max": longest,
                "predicted": accepted / drafted,
                "served": served[0][1] / served[0][0],
                "served_counts": served[0],
                "served_greedy": served[1][1] / served[1][0],
                "served_greedy_counts": served[1],
            }
        )
        print(rows[-1], file=sys.stderr, flush=True)
    write_results(
        "sampled_drafts",
        {
            "n_prompts": len(prompts),
            "n_predict": n_predict,
            "n_seeds": len(seeds),
            "largest_difference": max(abs(one["predicted"] - one["served"]) for one in rows),
            "rows": rows,
        },
    )


def recorded(
    engine: Engine, n_prompts: int, n_predict: int, sampling: SamplingConfig
) -> tuple[Workload, list[Recording]]:
    """Answers of the demo's dense target, with the probabilities that its draft gives them."""
    target, draft = demo_pair()
    loaded = engine.load_target(target, CONTEXT, max_draft=LONGEST)
    suite = builtin_suite()
    workload = tokenize(
        engine,
        suite[:: max(1, len(suite) // n_prompts)][:n_prompts],
        n_predict=n_predict,
        sampling=sampling,
        n_ctx=loaded.n_ctx,
    )
    answers: dict[int, AnswerWritten] = {}
    command = WriteAnswers(
        prompts=tuple(item.tokens for item in workload.items),
        n_predict=n_predict,
        sampling=sampling,
    )
    engine.write_answers(command, lambda one: answers.update({one.index: one}))
    engine.load_draft(draft)
    found = []
    for index, item in enumerate(workload.items):
        answer = answers[index]
        told = engine.record_chains(
            RecordChains(prompt=item.tokens, output=answer.tokens, depth=LONGEST, reuse_prompt=True)
        )
        found.append(
            Recording(
                id=item.id,
                category=item.category,
                prompt=item.tokens,
                output=answer.tokens,
                probabilities=answer.probabilities,
                stop=Stop.LENGTH,
                n_predict=n_predict,
                n_ctx=loaded.n_ctx,
                chains={"draft": told.chains},
                rollback=Rollback.TRUNCATE,
            )
        )
    return workload, found


def served_counts(
    prompts: Sequence[Sequence[int]],
    longest: int,
    n_predict: int,
    sampling: SamplingConfig,
    seeds: Sequence[int],
    *,
    probabilistic: bool,
) -> list[int]:
    """Drafted and accepted tokens of the package's server, in a process of its own."""
    target, draft = demo_pair()
    asked: dict[str, Any] = {
        "target": str(target.path),
        "draft": str(draft.path),
        "n_ctx": CONTEXT.ctx_size,
        "n_max": longest,
        "probabilistic": probabilistic,
        "prompts": prompts,
        "seeds": list(seeds),
        "request": {
            "n_predict": n_predict,
            "temperature": sampling.temp,
            "top_k": sampling.top_k,
            "top_p": sampling.top_p,
            "min_p": sampling.min_p,
            "ignore_eos": True,
        },
    }
    ended = subprocess.run(
        [sys.executable, "-c", SERVER],
        input=json.dumps(asked),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    counts: list[int] = json.loads(ended.stdout.splitlines()[-1])
    return counts


if __name__ == "__main__":
    main()
