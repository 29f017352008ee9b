"""``spectui verify``: what was promised, and what a scripted server delivers."""

from tests.golden.conftest import Golden
from tests.golden.support import Place, Ways, compute_bound, modest

RUN = ("-c", 256, "-t", 1, "-n", 12, "--temp", 0, "--prompts", "prompts.jsonl")
ALONE = ("-m", "target.gguf", *RUN)
PAIR = (*ALONE, "-md", "close.gguf")
TWIN = (*ALONE, "-md", "twin.gguf")
VERIFY = ("verify", "--server-bin", "./llama-server")


PLAIN = ("--no-promise", "--quiet")
WAYS: dict[str, tuple[Ways, tuple[object, ...]]] = {
    "open": ({"on_ms": 4.5}, PAIR),
    "less": ({"on_ms": 8.0}, PAIR),
    "more": ({"on_ms": 2.0}, PAIR),
    "repeats": ({}, (*PAIR, *PLAIN, "--repeats", 2)),
    "output-parts": ({"parts": True}, (*PAIR, *PLAIN)),
    "drafts-nothing": ({"manner": "drafts nothing"}, (*PAIR, "--no-promise", "--quiet")),
    "ends-at-once": ({"manner": "ends at once"}, (*PAIR, *PLAIN)),
    "killed": ({"manner": "is killed", "n_good": 3}, (*PAIR, *PLAIN)),
}


def test_settings(golden: Golden, place: Place) -> None:
    place.server("llama-server", on_ms=4.05)
    texts = place.both("holds", *VERIFY, *TWIN)
    for name, (how, words) in WAYS.items():
        place.server("llama-server", **how)
        texts |= place.page(name, *VERIFY, *words)
    golden("verify/settings", texts)


def test_study(golden: Golden, place: Place) -> None:
    tune = ("tune", *TWIN, "--spec-type", "draft-simple", "--tune", "draft_max", "--trials", 2)
    place.time.cost = modest
    place.server("llama-server", on_ms=4.2)
    assert place.run(*tune, "--study", "holds").code == 0
    texts = place.both("holds", *VERIFY, "holds")
    place.time.cost = compute_bound
    assert place.run(*tune, "--study", "off").code == 0
    golden("verify/study", texts | place.page("off", *VERIFY, "off"))


def test_command(golden: Golden, place: Place) -> None:
    place.server("llama-server")
    command = "LLAMA_ARG_CTX_SIZE=256 llama-server -m target.gguf -md close.gguf -t 1 --port 9"
    command += " --spec-type draft-simple --spec-draft-n-max 5 -np 3 --api-key x"
    given = ("--prompts", "prompts.jsonl", "-n", 12, "--no-promise")
    golden("verify/command", place.page("command", *VERIFY, "--from", command, *given))
