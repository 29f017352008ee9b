"""``spectui bench``: the engine, and servers that it starts."""

from tests.golden.conftest import Golden
from tests.golden.support import Place, Ways

RUN = ("-c", 256, "-t", 1, "-n", 12, "--temp", 0, "--prompts", "prompts.jsonl")
SAMPLED = (*RUN[:6], *RUN[8:])
"""Without a temperature, as llama-server samples."""
PAIR = ("-m", "target.gguf", "-md", "close.gguf", *RUN)
SERVED = ("--backend", "server", "--server-bin", "./llama-server")


def test_engine(golden: Golden, place: Place) -> None:
    ngrams = ("-m", "target.gguf", *RUN, "--ignore-eos", "-n", 40, "--spec-type", "ngram-simple")
    sizes = ("--spec-ngram-simple-size-n", 2, "--spec-ngram-simple-size-m", 6)
    chained = (*PAIR, "--spec-type", "ngram-cache,draft-simple", "--draft-max", 4)
    texts = place.both("model", "bench", *PAIR)
    texts |= place.pages(
        setting=("bench", *PAIR, "--draft-max", 8, "--draft-min", 2, "--quiet"),
        rough=("bench", *PAIR[:2], "-md", "rough.gguf", *RUN, "--quiet"),
        ngram=("bench", *ngrams, *sizes, "--quiet"),
        no_drafts=("bench", *ngrams, "--quiet"),
        chained=("bench", *chained, "--quiet"),
        temperature=("bench", *PAIR[:4], *SAMPLED, "--quiet"),
        experts=("bench", "-m", "moe.gguf", *PAIR[2:], "--quiet"),
        repeats=("bench", *PAIR, "--repeats", 2, "--prompt-length", 20, "--quiet"),
    )
    golden("bench/engine", texts)


def test_interrupted(golden: Golden, place: Place) -> None:
    place.interrupt_at("c: 110 ms")
    golden("bench/interrupted", place.page("interrupted", "bench", *PAIR))


def test_server(golden: Golden, place: Place) -> None:
    place.server("llama-server")
    texts = place.both("faster", "bench", *PAIR, *SERVED)
    ways: dict[str, Ways] = {
        "slower": {"on_ms": 12.5},
        "not-lossless": {"parts": True},
        "drafts-nothing": {"manner": "drafts nothing"},
        "drafts-always": {"manner": "drafts always"},
        "killed": {"manner": "is killed", "n_good": 3},
    }
    for name, how in ways.items():
        place.server("llama-server", **how)
        texts |= place.page(name, "bench", *PAIR, *SERVED, "--quiet")
    golden("bench/server", texts)
