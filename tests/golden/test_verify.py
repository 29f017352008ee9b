"""``spectui verify``: what was promised, and what a scripted server delivers."""

from tests.golden.conftest import Golden
from tests.golden.support import Place, Ways, compute_bound, modest

RUN = ("-c", 256, "-t", 1, "-n", 24, "--temp", 0, "--ignore-eos", "--prompts", "sixteen.jsonl")
TWIN = ("-m", "target.gguf", *RUN, "-md", "twin.gguf")
TUNE = ("tune", *TWIN, "--spec-type", "draft-simple", "--tune", "draft_max", "--trials", 2)
VERIFY = ("verify", "--server-bin", "./llama-server")

WAYS: dict[str, Ways] = {
    "open": {"on_ms": 4.5},
    "less": {"on_ms": 8.0},
    "more": {"on_ms": 2.0},
    "output-parts": {"parts": True},
    "drafts-nothing": {"manner": "drafts nothing"},
    "ends-at-once": {"manner": "ends at once"},
    "killed": {"manner": "is killed", "n_good": 3},
}


def test_a_study(golden: Golden, place: Place) -> None:
    place.time.cost = modest
    place.server("llama-server", on_ms=4.2)
    assert place.run(*TUNE, "--study", "mine").code == 0
    texts = place.both("holds", *VERIFY, "mine")
    texts |= place.page("repeats", *VERIFY, "mine", "--repeats", 2, "--quiet")
    for name, how in WAYS.items():
        place.server("llama-server", **how)
        texts |= place.page(name, *VERIFY, "mine", "--quiet")
    place.server("llama-server", on_ms=4.2)
    place.time.cost = compute_bound
    assert place.run(*TUNE, "--study", "off").code == 0
    golden("verify/study", texts | place.page("off", *VERIFY, "off"))
