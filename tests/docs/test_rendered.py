"""What is rendered from data and from the program is what is committed."""

from pathlib import Path

import pytest

from benchmarks.page import RESULTS, used_results
from tools.render_docs import ROOT, rendered

PAGES = rendered()


@pytest.mark.parametrize("name", sorted(PAGES))
def test_a_rendered_file_is_up_to_date(name: str) -> None:
    held = (ROOT / name).read_text("utf-8") if (ROOT / name).exists() else ""
    assert held == PAGES[name], f"{name} is another one now: python -m tools.render_docs"


def test_every_result_has_a_row() -> None:
    assert {path.stem for path in Path(RESULTS).glob("*.json")} == used_results()
