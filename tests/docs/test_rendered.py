"""What is rendered from data and from the program is what is committed."""

import shutil
import subprocess
from pathlib import Path

import pytest

from benchmarks.page import RESULTS, used_results
from tools.render_docs import ROOT, held_files, rendered

PAGES = rendered()


@pytest.mark.parametrize("name", sorted(PAGES))
def test_a_rendered_file_is_up_to_date(name: str) -> None:
    held = (ROOT / name).read_text("utf-8") if (ROOT / name).exists() else ""
    assert held == PAGES[name], f"{name} is another one now: python -m tools.render_docs"


def test_no_page_is_left_of_what_is_gone() -> None:
    assert {str(path.relative_to(ROOT)) for path in held_files()} <= PAGES.keys()


def test_every_result_has_a_row() -> None:
    assert {path.stem for path in Path(RESULTS).glob("*.json")} == used_results()


@pytest.mark.skipif(shutil.which("groff") is None, reason="no groff")
def test_groff_has_nothing_to_say_of_a_man_page() -> None:
    pages = [str(ROOT / name) for name in PAGES if name.startswith("man/")]
    command = ["groff", "-man", "-ww", "-Tutf8", "-Kutf8", "-z", *pages]
    said = subprocess.run(command, capture_output=True, text=True, check=True)
    assert said.stderr == ""
