"""``spectui bench``: the engine, servers that it starts, and servers that run."""

import pytest

from tests.golden.conftest import Golden
from tests.golden.support import Place, Ways

RUN = ("-c", 256, "-t", 1, "-n", 12, "--temp", 0, "--prompts", "prompts.jsonl")
SAMPLED = (*RUN[:6], *RUN[8:])
"""Without a temperature, as llama-server samples."""
PAIR = ("-m", "target.gguf", "-md", "close.gguf", *RUN)
SERVED = ("--backend", "server", "--keep-both", "--server-bin", "./llama-server")


def test_engine(golden: Golden, place: Place) -> None:
    ngrams = ("-m", "target.gguf", *RUN, "--ignore-eos", "-n", 40, "--spec-type", "ngram-simple")
    sizes = ("--spec-ngram-simple-size-n", 2, "--spec-ngram-simple-size-m", 6)
    chained = (*PAIR, "--spec-type", "ngram-cache,draft-simple", "--draft-max", 4)
    several = ("--temp", "0,0.7", "--prompt-length", "20,60")
    texts = {
        **place.both("model", "bench", *PAIR),
        **place.both("setting", "bench", *PAIR, "--draft-max", 8, "--draft-min", 2, "--quiet"),
        **place.both("rough", "bench", *PAIR[:2], "-md", "rough.gguf", *RUN, "--quiet"),
        **place.both("other", "bench", *PAIR[:2], "-md", "other.gguf", *RUN, "--quiet"),
        **place.both("ngram", "bench", *ngrams, *sizes),
        **place.both("no-drafts", "bench", *ngrams, "--quiet"),
        **place.both("chained", "bench", *chained, "--quiet"),
        **place.both("temperature", "bench", *PAIR[:4], *SAMPLED),
        **place.both("fast", "bench", *PAIR, "--schedule", "fast", "--quiet"),
        **place.both("experts", "bench", "-m", "moe.gguf", *PAIR[2:], "--quiet"),
        **place.both("repeats", "bench", *PAIR, "--repeats", 2, "--quiet"),
        **place.both("several", "bench", *PAIR, *several),
    }
    said = place.run("bench", *PAIR, "--quiet", "--json", "-")
    assert said.err == ""
    assert said.document == texts["model.json"]
    golden("bench/engine", texts)


def test_interrupted(golden: Golden, place: Place) -> None:
    place.interrupt_at("c: off")
    golden("bench/interrupted", place.both("interrupted", "bench", *PAIR))


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("faster", {}),
        ("slower", {"on_ms": 12.5}),
        ("not-lossless", {"parts": True}),
        ("drafts-nothing", {"manner": "drafts nothing"}),
        ("drafts-always", {"manner": "drafts always"}),
        ("killed", {"manner": "is killed", "n_good": 3}),
        ("refuses", {"manner": "answers 500", "n_good": 3}),
        ("exits", {"manner": "exits", "n_good": 0}),
    ],
)
def test_server(golden: Golden, place: Place, name: str, how: Ways) -> None:
    place.server("llama-server", **how)
    golden(f"bench/server-{name}", place.both(name, "bench", *PAIR, *SERVED))
