"""``spectui bench``."""

from collections.abc import Callable

from tests.golden.conftest import Golden
from tests.golden.support import Place

PAIR = ("-m", "target.gguf", "-md", "close.gguf", "-c", 256, "-t", 1, "-n", 12)


def test_bench(golden: Golden, place: Place) -> None:
    common = (*PAIR, "--prompts", "prompts.jsonl")
    golden(
        "bench",
        {
            "text.txt": place.run("bench", *common).text,
            "document.json": place.run("bench", *common, "--json", "-", "--quiet").document,
        },
    )
