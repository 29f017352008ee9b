"""``spectui tune``: each verdict, and what stands below it."""

from tests.golden.conftest import Golden
from tests.golden.support import Place, compute_bound, even

PAIR = ("-m", "target.gguf", "-md", "close.gguf", "-c", 256, "-t", 1, "-n", 12)


def test_tune(golden: Golden, place: Place) -> None:
    common = ("tune", *PAIR, "--prompts", "ten.jsonl", "--trials", 5)
    texts = {}
    for name, cost in (("use", place.time.cost), ("off", compute_bound), ("even", even)):
        place.time.cost = cost
        said = place.run(*common, "--study", name, "--json", f"{name}.json")
        texts[f"{name}.txt"] = said.text
        texts[f"{name}.json"] = place.read(f"{name}.json")
    golden("tune", texts)
