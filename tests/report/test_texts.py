"""Markdown and rows, texts of others in them, and charts' scales."""

import math
import re
from dataclasses import replace

import pytest

from spectui.measure.arm import Arm
from spectui.report.charts import Forest, Row, Scale, Seconds, scale_of
from spectui.report.content import content_of
from spectui.report.markdown import escaped, render_markdown
from spectui.report.row import render_row
from spectui.report.settings import arm_of
from tests.golden.commands_support import SPECULATIONS
from tests.report.studies import BEST, content, document, renamed, study
from tests.report.test_page import HOSTILE


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a|b", "a\\|b"),
        ("*a* _b_ `c` ~~d~~", "\\*a\\* \\_b\\_ \\`c\\` \\~\\~d\\~\\~"),
        ("[a](b) ![c](d)", "\\[a\\](b) !\\[c\\](d)"),
        ("<b>&amp;", "&lt;b&gt;&amp;amp;"),
        ("@somebody and #12", "@\u2060somebody and #\u206012"),
        ("https://a.example www.b.example", "https:\u2060//a.example www\u2060.b.example"),
        ("two\nlines\x1b[1m", "two lines?\\[1m"),
        ("plain 1.18×, 5 - 3 (of 4)", "plain 1.18×, 5 - 3 (of 4)"),
    ],
)
def test_markdown_is_escaped(text: str, told: str) -> None:
    assert escaped(text) == told


@pytest.mark.parametrize("word", HOSTILE)
def test_hostile_texts_stay_texts(word: str) -> None:
    found = renamed(document("disturbed/disturbed"), lambda text: f"{word}|{text}")
    hostile = content(found=found, name=word)
    plain, row = render_markdown(hostile), render_row(hostile)
    assert len(plain.encode()) < 65_000
    for text in (plain, row):
        assert not re.search("<script|<img|\x1b", text)
    assert [len(re.findall(r"(?<!\\)\|", line)) for line in row.splitlines()] == [10, 10, 10]


def cells_of(text: str) -> dict[str, str]:
    heads, _marks, row = (line.strip("| ").split(" | ") for line in text.splitlines())
    return dict(zip(heads, row, strict=True))


def test_a_row_tells_facts_alone() -> None:
    found = document()
    found["target"]["path"] = "/home/me/Big-Q4_K_M.gguf"
    assert cells_of(render_row(content(found=found))) == {
        "models": "Big-Q4\\_K\\_M.gguf + close.gguf",
        "quantisation": "Q4\\_K\\_M + –",
        "machine": "A processor (4 cores)",
        "setting": "close: max 9, min 0, p\\_min 0.00",
        "speedup (95 %)": "3.02× (2.37× to 3.68×)",
        "prompts": "8, 24 tokens each",
        "sampling": "greedy",
        "versions": escaped(
            f"spectui {found['spectui']}, llama.cpp {found['engine']['llama_cpp']}"
        ),
        "date": "2026-05-01",
    }
    bare = cells_of(render_row(content_of(replace(study(), report=None, outcome=None))))
    assert set(bare.values()) == {"–"}


@pytest.mark.parametrize(
    ("reason", "headline"),
    [
        ("Use it for answers of 122 tokens or more: X is worth +9 %.", "Use it for answers of 122"),
        ("Use it: X is worth +9 %.", "Use it"),
        ("Turn it off: no gain of 2 % was shown.", "Turn it off"),
    ],
)
def test_the_headline_has_the_condition(reason: str, headline: str) -> None:
    found = content()
    assert found.verdict is not None
    found = replace(found, verdict=replace(found.verdict, reason=reason))
    assert found.headline.startswith(headline)
    assert found.headline == reason.partition(":")[0]


def test_settings_of_documents_are_read_again() -> None:
    assert arm_of(BEST.document()) == BEST
    for speculation in SPECULATIONS.values():
        one = Arm(draft=None, speculation=speculation)
        assert arm_of(one.document()) == one
    found = document("verdicts/use")
    for plain in (*found["forecasts"], *found["trials"]):
        read = arm_of(plain["params"])
        assert read is not None
        assert read.document() == plain["params"]
    assert arm_of({"draft_max": "many"}) is None
    assert arm_of({"draft_max": 3, "ahead": 5}) is None


def test_a_scale_holds_what_it_is_made_for() -> None:
    for values in ([2.0], [0.3, 7.0], [1.0], [1e-3, 1e5]):
        scale = scale_of(values)
        assert all(0 < scale.at(value) < 100 for value in (1.0, *values))
        assert "1×" in {label for _, label in scale.ticks}
        places = [at for at, _ in scale.ticks]
        assert places == sorted(places)
    assert Scale(low=0.5, high=2.0).at(1.0) == pytest.approx(50)
    assert Seconds(most=0.0).ticks == ()
    assert [label for _, label in Seconds(most=0.25).ticks] == ["0 s", "100 ms", "200 ms"]


def test_an_interval_of_nothing_does_not_stretch_the_scale() -> None:
    wide = Forest(rows=(Row(label="a", speedup=1.2, low=1e-3, high=500.0),))
    assert math.log(wide.scale.high / wide.scale.low) < math.log(30)
