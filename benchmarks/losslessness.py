"""Whether greedy output is the target's own, whoever drafts and however rejected tokens go.

Tiny models with random weights, of every kind of memory and every way to forget that llama.cpp has
for it; drafters with and without a model, the target's own MTP layers, and one that knows the
target's output and is right as often as it is told to be. Each cell has many random prompts, and
each prompt two runs: a whole one, and one that is stopped after a random graph node of its rounds
and then gone on with as a chat is, from what the stop has left in the caches.

Where an output differs, the target is asked how clear its choice was there: logits that are closer
than batching moves them may trade places, which is told apart from a loss. A cell's row goes to a
file as it comes, if one is named, and an interrupted run goes on from there.

With ``--devices`` target and drafts are on two RPC servers, one each, and only models draft. Their
graph nodes are computed there and cannot be counted here, so that all runs are whole ones.
"""

import argparse
import os
import random
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.common import add_row, read_rows, write_results
from benchmarks.tiny_pairs import KINDS, MAX_DRAFT, N_VOCAB, Kind, Pair
from spectui.options.drafters import (
    DrafterSetting,
    DraftMtp,
    DraftSimple,
    Ngram,
    NgramCache,
    NgramDrafter,
    NgramMapK,
    NgramMapK4V,
    NgramMod,
    NgramSimple,
)
from spectui.options.setup import Devices
from spectui.options.speculation import Speculation
from spectui.speculative.drafters import (
    ChainedDrafter,
    Draft,
    Drafter,
    DraftModelDrafter,
)
from spectui.speculative.models import Rollback
from spectui.speculative.mtp import MtpDrafter
from spectui.speculative.ngram import ngram_drafter
from tests.support.rpc import rpc_build

RIGHT = (0.0, 0.25, 0.5, 0.75, 0.95, 1.0)
MODEL = Speculation(DraftSimple(draft_max=6))
NGRAMS = (
    NgramSimple(size_n=1, size_m=6),
    NgramMapK(size_n=1, size_m=8, min_hits=1),
    NgramMapK4V(size_n=1, size_m=3, min_hits=1),
    NgramMod(n_match=1, n_min=0, n_max=12),
    NgramCache(),
)
LONGEST_PROMPT = 64
N_OWN = 32
N_SPECIAL = 5
"""Tokens of the vocabulary that no prompt is made of."""
OUTCOMES = ("identical", "tied", "lost")


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """Who drafts: one that knows the output, or ``config``."""

    name: str
    right: float = 0.0
    """Probability with which each token of one that knows the output is right."""
    config: Speculation | None = None
    draft: str = "same kind"


WAYS = (
    *(Way(name=f"scripted, {right:.0%} right", right=right) for right in RIGHT),
    *(
        Way(name=f"model of the {draft}", config=MODEL, draft=draft)
        for draft in ("same kind", "other kind")
    ),
    *(Way(name=one.kind, config=Speculation(one)) for one in NGRAMS),
    Way(name="all n-gram drafters, then a model", config=MODEL.after(NGRAMS)),
)


MTP = Speculation(DraftMtp(draft_max=6))
MTP_WAYS = (
    Way(name="its own MTP layers", config=MTP),
    Way(name="all n-gram drafters, then its own MTP layers", config=MTP.after(NGRAMS)),
)
"""Of targets that draft for themselves."""


class ScriptedDrafter(Drafter):
    """Knows what the target says after a prompt, and drafts it right or wrong, by chance."""

    def __init__(
        self, n_prompt: int, expected: Sequence[int], right: float, dice: random.Random
    ) -> None:
        self._n_prompt = n_prompt
        self._expected = expected
        self._right = right
        self._dice = dice
        self._at = 0
        """Number of the last token among those expected."""

    def begin(self, prompt: Sequence[int]) -> None:
        """What follows the prompt itself has been said before."""
        self._at = len(prompt) - self._n_prompt

    def draft(self, last: int, n_max: int) -> Draft:  # noqa: ARG002 - the base's names
        """Draft some tokens, as many as chance has it."""
        n_tokens = min(self._dice.randint(1, MAX_DRAFT), n_max)
        coming = self._expected[self._at + 1 : self._at + 1 + n_tokens]
        return Draft(tokens=tuple(map(self._guess, coming)))

    def _guess(self, token: int) -> int:
        is_right = self._dice.random() < self._right
        return token if is_right else (token + self._dice.randrange(1, N_VOCAB)) % N_VOCAB

    def accept(self, n_accepted: int) -> None:
        """Go on from the last token that was emitted."""
        self._at += 1 + n_accepted


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A prompt and what the target says after it."""

    number: int
    prompt: tuple[int, ...]
    expected: tuple[int, ...]


class Drafting:
    """Makes the drafters of one generation and of what it is gone on with."""

    def __init__(self, pair: Pair, way: Way, case: Case) -> None:
        self._pair = pair
        self._way = way
        self._case = case
        self._dice = random.Random(case.number)  # noqa: S311 - drafts are no secrets
        self._ngrams: dict[Ngram, Drafter] = {}

    def drafter(self) -> Drafter:
        """One that knows what the last one has learnt, as in the turns of a chat."""
        way, case = self._way, self._case
        if way.config is None:
            return ScriptedDrafter(len(case.prompt), case.expected, way.right, self._dice)
        drafters = [self._one(one) for one in way.config.chain]
        return drafters[0] if len(drafters) == 1 else ChainedDrafter(drafters)

    def _one(self, config: DrafterSetting) -> Drafter:
        if isinstance(config, NgramDrafter):
            return self._ngrams.setdefault(config, ngram_drafter(config))
        mtp = self._pair.mtp
        if mtp is not None:
            return MtpDrafter(mtp, config, time.perf_counter, n_layers=mtp.n_layers)
        draft = self._pair.drafts[self._way.draft]
        return DraftModelDrafter(draft, config, time.perf_counter)


def main() -> None:
    """Compare and write ``results/losslessness.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompts", type=int, default=200, help="per cell")
    parser.add_argument("--n-predict", type=int, default=48)
    parser.add_argument("--devices", action="store_true", help="on two RPC servers, one each")
    parser.add_argument("--rows", type=Path, help="JSON lines: what is there is not run again")
    arguments = parser.parse_args()
    size = {"n_prompts": arguments.prompts, "n_predict": arguments.n_predict}
    known = [row for row in read_rows(arguments.rows) if size.items() <= row.items()]
    rows = list(known)
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        devices = two_devices(stack) if arguments.devices else None
        for kind in KINDS:
            for rollback in kind.rollbacks:
                done = {row["drafter"] for row in known if is_of(row, kind, rollback)}
                every = MTP_WAYS if kind.mtp else WAYS
                if devices is not None:
                    every = tuple(way for way in every if _has_draft(way))
                ways = [way for way in every if way.name not in done]
                for row in compare_pair(kind, rollback, ways, size, Path(folder), devices=devices):
                    rows.append(row)
                    add_row(arguments.rows, row)
                    print(len(rows), *row.values(), file=sys.stderr)
    name = "losslessness_devices" if arguments.devices else "losslessness"
    write_results(name, {**size, "totals": totals(rows), "rows": rows})


def _has_draft(way: Way) -> bool:
    """Whether a model of its own drafts."""
    return way.config is not None and MODEL.own in way.config.chain


def two_devices(stack: ExitStack) -> tuple[Devices, Devices]:
    """Start an RPC server each for target and drafts, which end with ``stack``."""
    build = rpc_build()
    if build is None:
        raise RuntimeError("build the server first: python tools/build_llama_server.py rpc")
    os.environ |= build.environment
    rpc = tuple(stack.enter_context(build.serving()).endpoint for _ in range(2))
    return Devices(rpc=rpc, names=("RPC0",)), Devices(rpc=rpc, names=("RPC1",))


def is_of(row: dict[str, Any], kind: Kind, rollback: Rollback) -> bool:
    """Whether a row is of this kind of model, and of this way to forget."""
    return bool(row["target"] == kind.name and row["rollback"] == rollback)


def totals(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What came of all whole runs and of all stopped ones."""
    return {
        run: {outcome: sum(row[run][outcome] for row in rows) for outcome in OUTCOMES}
        for run in ("whole", "stopped")
    }


def compare_pair(
    kind: Kind,
    rollback: Rollback,
    ways: Sequence[Way],
    size: dict[str, int],
    folder: Path,
    *,
    devices: tuple[Devices, Devices] | None,
) -> Iterator[dict[str, Any]]:
    """One row per way to draft."""
    if not ways:
        return
    with Pair(kind, rollback, folder, devices or (Devices(), Devices())) as pair:
        numbers = range(size["n_prompts"])
        cases = [case_of(pair, number, kind.n_before, size["n_predict"]) for number in numbers]
        # Of a text that is one token over and over, a broken cache could say as much.
        n_distinct = statistics.median(len(set(case.expected)) for case in cases)
        for way in ways:
            began = time.perf_counter()
            row = compare(pair, way, cases, stops=devices is None)
            seconds = round(time.perf_counter() - began, 1)
            where = {"target": kind.name, "rollback": rollback, "drafter": way.name}
            yield {**where, **size, "n_distinct": n_distinct, **row, "seconds": seconds}


def case_of(pair: Pair, number: int, n_before: int, n_predict: int) -> Case:
    """A random prompt that may repeat itself, and the output of the target alone.

    Every other prompt ends with words of the target's own, in which lookups find what comes.
    """
    dice = random.Random(number)  # noqa: S311 - prompts are no secrets
    piece = [dice.randrange(N_SPECIAL, N_VOCAB) for _ in range(dice.randint(1, LONGEST_PROMPT))]
    prompt = tuple(piece * dice.randint(1, 4))[:LONGEST_PROMPT]
    before = (dice.randrange(N_SPECIAL, N_VOCAB) for _ in range(n_before))
    prompt = (*before, *prompt)
    n_own = N_OWN * (number % 2)
    own = alone(pair, prompt, n_own) if n_own else ()
    # From the whole prompt in one batch, as those who draft begin: rounding depends on it.
    prompt = (*prompt, *own)
    return Case(number=number, prompt=prompt, expected=alone(pair, prompt, n_predict))


def alone(pair: Pair, prompt: Sequence[int], n_predict: int) -> tuple[int, ...]:
    """What the target says without a draft."""
    pair.forget()
    return pair.generate(prompt, Drafter(), n_predict).tokens


def compare(pair: Pair, way: Way, cases: Sequence[Case], *, stops: bool) -> dict[str, Any]:
    """Run all prompts, whole and, if it is wanted, stopped."""
    found = {"whole": Counter[str](), "stopped": Counter[str]()}
    lost = []
    n_drafted = n_accepted = 0
    for case in cases:
        pair.forget()
        drafter = Drafting(pair, way, case).drafter()
        whole = pair.generate(case.prompt, drafter, len(case.expected))
        n_drafted += whole.n_drafted
        n_accepted += whole.n_accepted
        outputs, stop_at = {"whole": whole.tokens}, None
        if stops:
            dice = random.Random(case.number)  # noqa: S311 - where to stop is no secret
            stop_at = dice.randint(whole.n_prompt_nodes + 1, whole.n_nodes)
            outputs["stopped"] = stopped(pair, way, case, stop_at)
        for run, tokens in outputs.items():
            parted = pair.divergence(str(case.number), case.prompt, case.expected, tokens)
            if parted is None:
                found[run]["identical"] += 1
            elif parted.explained:
                found[run]["tied"] += 1
            else:
                found[run]["lost"] += 1
                lost.append({"run": run, "stop_at": stop_at, **asdict(parted)})
    by_run = {run: {name: counts[name] for name in OUTCOMES} for run, counts in found.items()}
    return {"n_drafted": n_drafted, "n_accepted": n_accepted, **by_run, "losses": lost}


def stopped(pair: Pair, way: Way, case: Case, stop_at: int) -> tuple[int, ...]:
    """Stop in the middle, go on from there, and return what was said in all."""
    drafting = Drafting(pair, way, case)
    pair.forget()
    before = pair.generate(case.prompt, drafting.drafter(), len(case.expected), stop_at)
    if not before.stopped:
        raise RuntimeError(f"prompt {case.number} ended before graph node {stop_at}")
    text = (*case.prompt, *before.tokens)
    pair.recall(text)
    n_left = len(case.expected) - len(before.tokens)
    return (*before.tokens, *pair.generate(text, drafting.drafter(), n_left).tokens)


if __name__ == "__main__":
    main()
