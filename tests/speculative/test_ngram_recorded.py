"""N-gram drafters draft what llama.cpp does, as ``tests/data/ngram-drafts.json.gz`` has it."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from spectui.speculative.drafters import Drafter
from spectui.speculative.ngram_cache import NgramCacheDrafter
from spectui.speculative.ngram_map import NgramMapDrafter
from spectui.speculative.ngram_mod import NgramModDrafter

RECORDED: dict[str, Any] = json.loads(
    gzip.decompress((Path(__file__).parents[1] / "data" / "ngram-drafts.json.gz").read_bytes())
)


def drafter_of(kind: str, options: dict[str, Any]) -> Drafter:
    match kind:
        case "map":
            # By default, as in llama-server.
            if options["min_hits"] == 1:
                del options["min_hits"]
            if options["n_slots"] == 1 << 18:
                del options["n_slots"]
            return NgramMapDrafter(**options)
        case "mod":
            if options["n_entries"] == 1 << 22:
                del options["n_entries"]
            return NgramModDrafter(**options)
        case _:
            return NgramCacheDrafter()


@pytest.mark.parametrize("kind", ["map", "mod", "cache"])
def test_drafts_are_llama_cpps(kind: str) -> None:
    cases = [one for one in RECORDED["cases"] if one["kind"] == kind]
    assert sum(any(one["drafts"]) for one in cases) > 60
    for number, case in enumerate(cases):
        drafter, expected = drafter_of(kind, dict(case["options"])), iter(case["drafts"])
        text, prompt = list[int](), list[int]()
        for again, eighths, added, rounds in case["turns"]:
            prompt = [*(prompt if again else text[: len(text) * eighths // 8]), *added]
            text = list(prompt)
            drafter.begin(prompt)
            for last, n_max, n_accepted in rounds:
                drafted = drafter.draft(last, n_max).tokens if n_max else ()
                assert list(drafted) == next(expected), (number, len(text))
                drafter.verified((last, *drafted))
                n_right = min(n_accepted, len(drafted))
                # Of rounds without a draft llama-server says nothing.
                if drafted:
                    drafter.judged(n_right)
                drafter.accept(n_right)
                text += (last, *drafted)[: 1 + n_right]
