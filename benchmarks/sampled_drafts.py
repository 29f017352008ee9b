"""Acceptance of sampled drafts: what a llama-server has, and what its own texts say it has.

The server of the package xllamacpp, of a llama.cpp that has ``--spec-draft-sampling``, answers
prompts with sampled drafts. Target and draft then read these answers, and the acceptance that
follows from the probabilities of their tokens (``trace.probabilistic``) is held against the
server's counts: on the same text, so that the texts' differences do not count.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.common import CONTEXT, demo_pair, write_results
from spectui.engine.commands import LoadTarget
from spectui.engine.driver import Engine
from spectui.llama.context import Context
from spectui.llama.model import Model
from spectui.llama.sampling import SamplerChain
from spectui.measure.workload import tokenize
from spectui.options.setup import SamplingConfig
from spectui.prompts import builtin_suite
from spectui.speculative.decoder import Stop
from spectui.speculative.models import Outputs, Rollback
from spectui.trace.costs import Prices
from spectui.trace.probabilistic import replay_sampled
from spectui.trace.record import Chains, Recording, Tail

LONGEST = 8
SAMPLING = SamplingConfig(ignore_eos=True)
FREE = np.zeros(LONGEST + 1)
NO_PRICES = Prices(chain=FREE, batch=FREE, token=0.0, fixed=0.0, rollback=0.0, rollback_token=0.0)
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
draft.probabilistic = True
server = xllamacpp.Server(params)
answers = []
for seed in asked["seeds"]:
    for prompt in asked["prompts"]:
        found = server.handle_completions({**asked["request"], "prompt": prompt, "seed": seed})
        found = found if isinstance(found, dict) else json.loads(found)
        answers.append(
            {
                "prompt": prompt,
                "text": found["choices"][0]["text"],
                "drafted": found["timings"]["draft_n"],
                "accepted": found["timings"]["draft_n_accepted"],
            }
        )
print("\\n" + json.dumps(answers))
"""


def main() -> None:
    """Ask the server, read its answers, and write ``results/sampled_drafts.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompts", type=int, default=16)
    parser.add_argument("--n-predict", type=int, default=48)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--lengths", type=int, nargs="+", default=[1, 4])
    arguments = parser.parse_args()
    n_predict = arguments.n_predict
    prompts = prompts_of(arguments.prompts)
    rows = []
    for longest in arguments.lengths:
        answers = served(prompts, longest, n_predict, range(1, arguments.seeds + 1))
        reader = Reader(n_predict)
        counts = np.zeros(4)
        n_read = 0
        for answer in answers:
            recording = reader.recorded(answer)
            if recording is not None:
                found = replay_sampled(recording, recording.chains["draft"], NO_PRICES)
                counts += [*found[longest - 1, 1:], answer["drafted"], answer["accepted"]]
                n_read += 1
        drafted, accepted, served_drafted, served_accepted = counts.tolist()
        rows.append(
            {
                "draft_max": longest,
                "n_answers": n_read,
                "predicted": accepted / drafted,
                "served": served_accepted / served_drafted,
                "predicted_counts": [drafted, accepted],
                "served_counts": [served_drafted, served_accepted],
            }
        )
        print(rows[-1], file=sys.stderr, flush=True)
    write_results(
        "sampled_drafts",
        {
            "n_prompts": len(prompts),
            "n_predict": n_predict,
            "largest_difference": max(abs(one["predicted"] - one["served"]) for one in rows),
            "rows": rows,
        },
    )


def prompts_of(n: int) -> list[tuple[int, ...]]:
    """Tokens of prompts of the built-in suite, of all categories."""
    suite = builtin_suite()
    with Engine() as engine:
        loaded = engine.load_target(
            LoadTarget(options=demo_pair()[0], context=CONTEXT, max_draft=LONGEST)
        )
        workload = tokenize(
            engine,
            suite[:: max(1, len(suite) // n)][:n],
            n_predict=LONGEST,
            sampling=SAMPLING,
            n_ctx=loaded.n_ctx,
        )
    return [item.tokens for item in workload.items]


class Reader:
    """Reads answers with the dense demo target and its draft."""

    def __init__(self, n_predict: int) -> None:
        """Load both."""
        self._n_predict = n_predict
        self._models = [Model(options) for options in demo_pair()]
        self._contexts = [Context(model, CONTEXT, max_outputs=n_predict) for model in self._models]
        self._samplers = [SamplerChain(SAMPLING, model.vocabulary) for model in self._models]

    def recorded(self, answer: dict[str, Any]) -> Recording | None:
        """An answer with the probabilities of its tokens; None where its text is no such tokens."""
        vocabulary, prompt = self._models[0].vocabulary, tuple(answer["prompt"])
        tokens = vocabulary.tokenize(answer["text"], add_special=False)
        if len(tokens) != self._n_predict:
            return None
        of_target, of_draft = (
            self._chances(context, sampler, prompt, tokens)
            for context, sampler in zip(self._contexts, self._samplers, strict=True)
        )
        chains = Chains(
            depth=LONGEST,
            # Its own choices are not known, nor needed.
            tokens=(-1,) * len(tokens),
            probabilities=(0.0,) * len(tokens),
            tails=(Tail(tokens=(), probabilities=()),) * len(tokens),
            of_output=(*of_draft[1:], 0.0),
        )
        return Recording(
            id="",
            category="",
            prompt=prompt,
            output=tokens,
            # Where sums are rounded otherwise, a token may be just outside what samplers leave.
            probabilities=tuple(max(one, 1e-9) for one in of_target),
            stop=Stop.LENGTH,
            n_predict=self._n_predict,
            n_ctx=CONTEXT.ctx_size,
            chains={"draft": chains},
            rollback=Rollback.TRUNCATE,
        )

    def _chances(
        self, context: Context, sampler: SamplerChain, prompt: Sequence[int], tokens: Sequence[int]
    ) -> list[float]:
        context.clear()
        context.decode(prompt, Outputs.LAST)
        first = sampler.chance(context.logits(0), tokens[0])
        context.decode(tokens[:-1], Outputs.ALL)
        rest = enumerate(tokens[1:])
        return [first, *(sampler.chance(context.logits(at), token) for at, token in rest)]


def served(
    prompts: Sequence[Sequence[int]], longest: int, n_predict: int, seeds: Sequence[int]
) -> list[dict[str, Any]]:
    """Answers of the package's server with sampled drafts, in a process of its own."""
    target, draft = demo_pair()
    asked: dict[str, Any] = {
        "target": str(target.path),
        "draft": str(draft.path),
        "n_ctx": CONTEXT.ctx_size,
        "n_max": longest,
        "prompts": prompts,
        "seeds": list(seeds),
        "request": {
            "n_predict": n_predict,
            "temperature": SAMPLING.temp,
            "top_k": SAMPLING.top_k,
            "top_p": SAMPLING.top_p,
            "min_p": SAMPLING.min_p,
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
    answers: list[dict[str, Any]] = json.loads(ended.stdout.splitlines()[-1])
    return answers


if __name__ == "__main__":
    main()
