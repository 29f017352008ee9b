"""``spectui verify``: what was promised, and what a scripted server delivers."""

from tests.golden.conftest import Golden
from tests.golden.support import Place, Ways, compute_bound, slight

RUN = ("-c", 256, "-t", 1, "-n", 24, "--temp", 0, "--ignore-eos", "--prompts", "sixteen.jsonl")
TWIN = ("-m", "target.gguf", *RUN, "-md", "twin.gguf")
TUNE = ("tune", *TWIN, "--spec-type", "draft-simple", "--trials", 2)
VERIFY = ("verify", "--server-bin", "./llama-server")

WAYS: dict[str, Ways] = {
    "less": {"on_ms": 9.5},
    "more": {"on_ms": 7.0},
    "noise": {"on_ms": 2.0},
    "output-parts": {"parts": True},
    "drafts-nothing": {"manner": "drafts nothing"},
    "ends-at-once": {"manner": "ends at once"},
    "killed": {"manner": "is killed", "n_good": 3},
}


def test_a_study(golden: Golden, place: Place) -> None:
    place.time.cost = slight
    place.server("llama-server", on_ms=7.8)
    assert place.run(*TUNE, "--study", "mine").code == 0
    texts = place.both("holds", *VERIFY, "mine")
    texts |= place.page("repeats", *VERIFY, "mine", "--repeats", 2, "--quiet")
    for name, how in WAYS.items():
        place.server("llama-server", **how)
        texts |= place.page(name, *VERIFY, "mine", "--quiet")
    place.server("llama-server", on_ms=7.8)
    place.time.cost = compute_bound
    assert place.run(*TUNE, "--study", "off").code == 0
    golden("verify/study", texts | place.page("off", *VERIFY, "off"))
