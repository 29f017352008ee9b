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
    place.time.cost = compute_bound
    assert place.run(*TRACE, "--out", "slow.gz").code == 0
    assert place.run(*TRACE, "--no-costs", "--out", "c.gz").code == 0
    lists = ("--draft-max", "1,2,8", "--draft-min", "0,2", "--draft-p-min", "0,0.5")
    ngrams = ("--spec-type", "ngram-simple,ngram-map-k,ngram-mod,ngram-cache", "--draft-max", 3)
    sizes = ("--spec-ngram-simple-size-n", "1,2", "--spec-ngram-simple-size-m", "2,4")
    ahead = ("--spec-type", "ngram-simple,draft-simple", *sizes, "--draft-max", 3)
    texts = {
        **place.both("costs", "replay", "a.gz", "--draft-max", "1,4"),
        **place.page("all", "replay", "a.gz"),
        **place.page("lists", "replay", "a.gz", "-md", "close", *lists),
        **place.page("ngrams", "replay", "a.gz", *ngrams, *sizes),
        **place.page("ahead", "replay", "a.gz", "-md", "close", *ahead),
        **place.page("slow", "replay", "slow.gz"),
        **place.page("no-costs", "replay", "c.gz", "--draft-max", "1,4"),
    }
    refused = (
        ("--draft-max", 9),
        ("--draft-max", 2_000_000_000),
        ("--draft-max", "1,,2"),
        ("--draft-max", ""),
        ("--draft-max", "2,many"),
        ("--draft-p-min", "nan"),
        ("--draft-p-min", "1.5"),
        ("--spec-ngram-mod-n-match", "x"),
        ("--spec-type", "ngram-simple,"),
        ("-md", "nobody"),
        ("--spec-ngram-simple-size-n", 49),
        ("--spec-type", "draft-mtp"),
    )
    said = [place.run("replay", "slow.gz", *options).text for options in refused]
    said.append(place.run("replay", "slow.gz", "--spec-type", "ngram-mod").text)
    golden("replay", {**texts, "refused.txt": "\n".join(said)})
