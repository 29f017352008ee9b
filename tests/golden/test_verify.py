"""``spectui verify``: what was promised, and what a scripted server delivers."""

import pytest

from tests.golden.conftest import Golden
from tests.golden.support import Place, Ways, compute_bound, modest

RUN = ("-c", 256, "-t", 1, "-n", 12, "--temp", 0, "--prompts", "prompts.jsonl")
ALONE = ("-m", "target.gguf", *RUN)
PAIR = (*ALONE, "-md", "close.gguf")
TWIN = (*ALONE, "-md", "twin.gguf")
VERIFY = ("verify", "--server-bin", "./llama-server")


@pytest.mark.parametrize(
    ("name", "how", "more"),
    [
        ("holds", {"on_ms": 4.05}, ("-md", "twin.gguf")),
        ("open", {"on_ms": 4.5}, ()),
        ("less", {"on_ms": 8.0}, ()),
        ("more", {"on_ms": 2.0}, ()),
        ("nothing-promised", {}, ("--no-promise",)),
        ("one-at-a-time", {}, ("--no-promise", "--one-at-a-time")),
        pytest.param(
            "repeats",
            {},
            ("--no-promise", "--repeats", 2, "--quiet"),
            marks=pytest.mark.ci,
        ),
        pytest.param(
            "output-parts",
            {"parts": True},
            ("--no-promise", "--quiet"),
            marks=pytest.mark.ci,
        ),
        pytest.param(
            "drafts-nothing",
            {"manner": "drafts nothing"},
            ("--no-promise", "--quiet"),
            marks=pytest.mark.ci,
        ),
        pytest.param(
            "ends-at-once",
            {"manner": "ends at once"},
            ("--no-promise",),
            marks=pytest.mark.ci,
        ),
        ("killed", {"manner": "is killed", "n_good": 3}, ("--no-promise",)),
        pytest.param(
            "exits",
            {"manner": "exits", "n_good": 0},
            ("--no-promise",),
            marks=pytest.mark.ci,
        ),
    ],
)
def test_setting(
    golden: Golden, place: Place, name: str, how: Ways, more: tuple[object, ...]
) -> None:
    place.server("llama-server", **how)
    pair = ALONE if "-md" in more else PAIR
    golden(f"verify/{name}", place.both(name, *VERIFY, *pair, *more))


def test_study(golden: Golden, place: Place) -> None:
    tune = ("tune", *TWIN, "--spec-type", "draft-simple", "--tune", "draft_max", "--trials", 2)
    texts: dict[str, str] = {}
    place.time.cost = modest
    for name, on_ms in (("holds", 4.2), ("less", 9.0)):
        place.server("llama-server", on_ms=on_ms)
        assert place.run(*tune, "--study", name).code == 0
        texts |= place.both(name, *VERIFY, name)
    place.time.cost = compute_bound
    assert place.run(*tune, "--study", "off").code == 0
    golden("verify/study", texts | place.both("off", *VERIFY, "off"))


def test_command(golden: Golden, place: Place) -> None:
    place.server("llama-server")
    command = "LLAMA_ARG_CTX_SIZE=256 llama-server -m target.gguf -md close.gguf -t 1 --port 9"
    command += " --spec-type draft-simple --spec-draft-n-max 5 -np 3 --api-key x"
    given = ("--prompts", "prompts.jsonl", "-n", 12, "--no-promise")
    golden("verify/command", place.both("command", *VERIFY, "--from", command, *given))
