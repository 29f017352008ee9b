"""``spectui report``: of a verdict to use it, of one to leave it off, of both side by side."""

import re

from spectui import __version__
from tests.golden.conftest import Golden
from tests.golden.support import Place, Said, compute_bound, document_text, memory_bound
from tests.golden.test_tune import MODEL, PAIR

_TODAY = re.compile(r"20\d\d-\d\d-\d\d( \d\d:\d\d)?")
_VERSION = re.compile(rf"(?<![\w.]){re.escape(__version__)}(?!\.?\w)")
_TOOK = re.compile(r"(the search took \|)[^|]*")


def _said(said: Said) -> str:
    text = _VERSION.sub("<spectui>", said.text)
    return _TOOK.sub(r"\1 <s> ", _TODAY.sub("<date>", text))


def test_report(golden: Golden, place: Place) -> None:
    for name, cost in (("use", memory_bound), ("off", compute_bound)):
        place.time.cost = cost
        tuned = place.run("tune", *PAIR, *MODEL, "--trials", 4, "--study", name, "--quiet")
        assert tuned.code == 0, tuned.err
    texts: dict[str, str] = {}
    for names in (("use",), ("off",), ("use", "off")):
        stem = "-".join(names)
        card = place.run("report", *names, "--format", "json").out
        texts[f"{stem}.md.txt"] = _said(place.run("report", *names, "--format", "md"))
        texts[f"{stem}.json"] = document_text(_TODAY.sub("<date>", card))
    golden("report", texts)
    page = place.run("report", "use")
    assert (page.code, page.out) == (0, "")
    assert page.err.startswith("written to spectui-report-use.html (")
    again = place.run("report", "use")
    golden("report-refused", {"exists.txt": again.text})
