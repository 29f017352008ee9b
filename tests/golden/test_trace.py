"""``spectui trace`` and ``spectui replay``."""

from tests.golden.conftest import Golden
from tests.golden.support import Place, compute_bound

RUN = ("-c", 256, "-t", 1, "-n", 24, "--temp", 0, "--ignore-eos", "--prompts", "prompts.jsonl")
TRACE = ("trace", "-m", "target.gguf", "-md", "close.gguf", *RUN, "--draft-max", 8)


def test_trace(golden: Golden, place: Place) -> None:
    trace = (*TRACE, "-md", "rough.gguf", "--out", "a.gz")
    texts = {
        **place.both("trace", *trace),
        **place.page("ngrams", "trace", "-m", "target.gguf", *RUN, "--out", "n.gz"),
        **place.page("no-costs", *TRACE, "--no-costs", "--quiet", "--out", "c.gz"),
    }
    golden("trace", texts)


def test_replay(golden: Golden, place: Place) -> None:
    assert place.run(*TRACE, "-md", "rough.gguf", "--keep-text", "--out", "a.gz").code == 0
    assert place.run(*TRACE[:-1], 1, "--out", "b.gz").code == 0
    place.time.cost = compute_bound
    assert place.run(*TRACE, "--out", "slow.gz").code == 0
    assert place.run(*TRACE, "--no-costs", "--out", "c.gz").code == 0
    texts = {
        **place.page("priced", "replay", "a.gz"),
        **place.both("short", "replay", "b.gz"),
        **place.page("slow", "replay", "slow.gz"),
        **place.page("no-costs", "replay", "c.gz"),
    }
    said = place.run("replay", "slow.gz", "--draft-max", 9).text
    golden("replay", {**texts, "refused.txt": said})
