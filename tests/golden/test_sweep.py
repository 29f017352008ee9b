"""``spectui sweep``: tables, reports, and cells that fail."""

from tests.golden.conftest import Golden
from tests.golden.support import Place

RUN = ("-c", 256, "-t", 1, "-n", 12, "--prompts", "prompts.jsonl")
TWO = ("sweep", "-m", "target.gguf", "-md", "close.gguf", "-md", "rough.gguf", *RUN)
ONE = ("sweep", "-m", "target.gguf", "-md", "close.gguf", *RUN)
SWEEP, TINY = (*TWO, "--temp", 0), (*ONE, "--temp", 0)
SERVED = ("--backend", "server", "--server-bin", "./llama-server")


def test_cells(golden: Golden, place: Place) -> None:
    drafters = ("--spec-type", "draft-simple", "--spec-type", "ngram-simple")
    axes = ("--draft-max", "2,4", *drafters, "--spec-ngram-simple-size-n", 2)
    lengths = ("--draft-max", 3, "--draft-min", "0,2", "--temp", "0,0.8", "--repeats", 2)
    misfit = ("-md", "misfit.gguf", "--draft-max", 2)
    texts = place.both("drafts", *SWEEP, *axes, "--name", "drafts")
    texts |= place.pages(
        again=(*SWEEP, *axes, "--name", "drafts"),
        lengths=(*TINY, *lengths, "--quiet", "--name", "lengths"),
        failed=(*TINY, *misfit, "--prompt-length", "16,4000", "--name", "failed"),
    )
    golden("sweep/cells", texts)


def test_report(golden: Golden, place: Place) -> None:
    said = place.run(*SWEEP, "--draft-max", "2,4", "--out", "out", "--quiet", "--name", "mine")
    names = ("summary.csv", "report.md", "speedups.svg")
    texts = {name: place.read(f"out/{name}") for name in names}
    files = "\n".join(sorted(path.name for path in (place.folder / "out").iterdir()))
    golden("sweep/report", {"said.txt": said.text, "files.txt": f"{files}\n", **texts})


def test_interrupted(golden: Golden, place: Place) -> None:
    place.interrupt_at("cell 2 of")
    again = (*TINY, "--draft-max", "2,4,8", "--name", "mine")
    texts = place.page("interrupted", *again) | place.page("resumed", *again)
    golden("sweep/interrupted", texts)


def test_server(golden: Golden, place: Place) -> None:
    place.server("llama-server", manner="exits with a draft")
    failed = place.page("failed", *TINY, *SERVED, "--draft-max", 2, "--name", "failed")
    place.server("llama-server")
    cells = (*TINY, *SERVED, "--draft-max", "2,4", "--name", "cells")
    golden("sweep/server", failed | place.page("cells", *cells))
