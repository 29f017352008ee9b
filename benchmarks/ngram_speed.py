"""What a round of an n-gram drafter costs where the text is long, in Python alone.

Each drafter gets a text, then rounds along its continuation: it drafts, and learns how much of the
draft was right. The time is that of all it does in a round; no model runs. The texts: one that
repeats itself, one of random tokens, and Python source code through SmolLM2's tokenizer. Every
drafter has llama-server's settings and ones that look up much less, and so find much more.
"""

import argparse
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle, islice, product
from pathlib import Path
from typing import Any

import numpy as np

import spectui
from benchmarks.common import write_results
from spectui.demo.build import smollm2_path
from spectui.llama.model import Model
from spectui.options.drafters import (
    Ngram,
    NgramCache,
    NgramMapK,
    NgramMapK4V,
    NgramMod,
    NgramSimple,
)
from spectui.options.setup import ModelOptions
from spectui.speculative.drafters import Drafter
from spectui.speculative.ngram import ngram_drafter

N_VOCAB = 49_152
PERIOD = 100
LIMIT_US = 50.0
NO_BOUND = 1 << 20
"""Tokens that context and budget leave room for."""
SETTINGS: tuple[Ngram, ...] = (
    NgramSimple(size_n=12, size_m=48),
    NgramSimple(size_n=2, size_m=16),
    NgramMapK(size_n=12, size_m=48, min_hits=1),
    NgramMapK(size_n=2, size_m=16, min_hits=1),
    NgramMapK4V(size_n=12, size_m=48, min_hits=1),
    NgramMapK4V(size_n=2, size_m=16, min_hits=1),
    NgramMod(n_match=24, n_min=48, n_max=64),
    NgramMod(n_match=2, n_min=0, n_max=16),
    NgramCache(),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """One round."""

    seconds: float
    n_drafted: int
    n_accepted: int
    is_first: bool
    """After ``begin``: some tables are filled then."""


def main() -> None:
    """Measure and write ``results/ngram_speed.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--history", type=int, default=32_768, help="tokens before the rounds")
    parser.add_argument("--new", type=int, default=2048, help="tokens that the text grows by")
    parser.add_argument("--rounds", type=int, default=2000, help="at least, from texts begun anew")
    arguments = parser.parse_args()
    texts = streams(arguments.history + arguments.new)
    rows = [
        {
            "kind": config.kind,
            "setting": config.summary,
            "text": name,
            **measure(config, text, arguments.history, arguments.rounds),
        }
        for config, (name, text) in product(SETTINGS, texts.items())
    ]
    write_results(
        "ngram_speed",
        {
            "n_history": arguments.history,
            "n_new": arguments.new,
            "limit_us": LIMIT_US,
            "n_rows_within_limit": sum(row["p95_us"] <= LIMIT_US for row in rows),
            "n_rows": len(rows),
            "rows": rows,
        },
    )


def streams(n_tokens: int) -> dict[str, tuple[int, ...]]:
    """Texts of so many tokens each."""
    dice = random.Random(1)  # noqa: S311 - no secrets
    drawn = tuple(dice.randrange(N_VOCAB) for _ in range(n_tokens))
    return {
        "periodic": tuple(islice(cycle(drawn[:PERIOD]), n_tokens)),
        "random": drawn,
        "source code": source_code(n_tokens),
    }


def source_code(n_tokens: int) -> tuple[int, ...]:
    """The first tokens of spectui's own sources."""
    files = sorted(Path(spectui.__file__).parent.rglob("*.py"))
    text = "\n".join(file.read_text(encoding="utf-8") for file in files)
    with Model(ModelOptions(path=smollm2_path()), vocab_only=True) as model:
        tokens = model.vocabulary.tokenize(text)
    if len(tokens) < n_tokens:
        raise ValueError(f"the sources have {len(tokens)} tokens, not {n_tokens}; take fewer")
    return tokens[:n_tokens]


def measure(config: Ngram, text: Sequence[int], n_history: int, n_rounds: int) -> dict[str, Any]:
    """Time rounds of one drafter on one text."""
    begins_s: list[float] = []
    timed: list[Timed] = []
    while len(timed) < n_rounds:
        drafter = ngram_drafter(config)
        began = time.perf_counter()
        drafter.begin(text[:n_history])
        begins_s.append(time.perf_counter() - began)
        timed += rounds(drafter, text, n_history)
    return {"begin_ms": round(1e3 * float(np.median(begins_s)), 2), **summary(timed)}


def summary(timed: Sequence[Timed]) -> dict[str, Any]:
    """Times in microseconds, of all rounds and of those right after ``begin``."""
    times_us = [1e6 * one.seconds for one in timed]
    first_us = [1e6 * one.seconds for one in timed if one.is_first]
    return {
        "n_rounds": len(timed),
        "n_drafted": sum(one.n_drafted for one in timed),
        "n_accepted": sum(one.n_accepted for one in timed),
        "median_us": round(float(np.median(times_us)), 2),
        "p95_us": round(float(np.percentile(times_us, 95)), 2),
        "share_within_limit": round(float(np.mean(np.array(times_us) <= LIMIT_US)), 4),
        "first_round_us": round(float(np.median(first_us)), 1),
    }


def rounds(drafter: Drafter, text: Sequence[int], at: int) -> list[Timed]:
    """Draft along ``text`` from position ``at``, whose token the target has just emitted."""
    timed: list[Timed] = []
    while at < len(text):
        last = text[at]
        began = time.perf_counter()
        draft = drafter.draft(last, NO_BOUND).tokens
        drafted = time.perf_counter()
        n_accepted = n_right(draft, text[at + 1 : at + 1 + len(draft)])
        batch = (last, *draft)
        told = time.perf_counter()
        drafter.verified(batch)
        if draft:
            drafter.judged(n_accepted)
        drafter.accept(n_accepted)
        ended = time.perf_counter()
        timed.append(
            Timed(
                seconds=(drafted - began) + (ended - told),
                n_drafted=len(draft),
                n_accepted=n_accepted,
                is_first=not timed,
            )
        )
        at += 1 + n_accepted
    return timed


def n_right(draft: Sequence[int], text: Sequence[int]) -> int:
    """How many tokens of ``draft`` come next in ``text``."""
    pairs = enumerate(zip(draft, text, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(draft), len(text)))


if __name__ == "__main__":
    main()
