"""The page in a real browser: nothing complains, nothing is asked for, nothing sticks out."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from spectui.report.formats import render_page
from tests.report.studies import content, document, renamed
from tests.support.chromium import PROGRAM, Browser, browser

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(PROGRAM is None, reason="needs Debian's chromium"),
]
WIDTHS = (360, 768, 1440)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("chromium")) as started:
        yield started


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Pages by what they are of."""
    many = content(found=document("verdicts/use"))
    word = '<img src=x onerror="alert(1)"><script>alert(1)</script>'
    hostile = content(
        found=renamed(document("disturbed/disturbed"), lambda text: f"{word}{text}{'w' * 300}"),
        name=word,
        extra=("--alias", f"{word}{'-' * 200}"),
    )
    folder = tmp_path_factory.mktemp("pages")
    pages = {"one": many, "hostile": hostile}
    for name, found in pages.items():
        (folder / f"{name}.html").write_text(render_page(found), "utf-8")
    return {name: folder / f"{name}.html" for name in pages}


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["one", "hostile"])
def test_a_page_fits_and_is_quiet(
    page: Browser, files: dict[str, Path], name: str, width: int
) -> None:
    for is_dark in (False, True):
        page.open(files[name], width=width, is_dark=is_dark)
        assert page.complaints == []
        assert page.requests == [files[name].as_uri()]
        assert page.value("document.documentElement.scrollWidth") <= width
        assert page.value("document.querySelectorAll('img, iframe, a, object').length") == 0
        assert page.value("document.scripts.length") == 1
        background = page.value("getComputedStyle(document.body).backgroundColor")
        light = sum(map(int, background.removeprefix("rgb(").removesuffix(")").split(",")))
        assert (light < 3 * 128) is is_dark


def test_a_button_copies_its_command(page: Browser, files: dict[str, Path]) -> None:
    page.open(files["one"], width=768)
    command = page.value("document.getElementById('command').textContent")
    assert command.startswith("llama-server -m /models/target.gguf -ngl all ")
    page.value("document.querySelector('button[data-copy]').click()")
    shown = page.value(
        "new Promise(found => { const button = document.querySelector('button[data-copy]');"
        "const look = () => button.textContent === 'Copy' ? requestAnimationFrame(look)"
        " : found(button.textContent); look(); })"
    )
    assert shown == "Copied"
    assert page.complaints == []


def test_it_prints(page: Browser, files: dict[str, Path]) -> None:
    page.open(files["one"], width=1440, is_dark=True)
    assert page.printed().startswith(b"%PDF-")
