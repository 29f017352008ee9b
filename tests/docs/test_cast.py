"""The moving picture that is committed."""

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.support.chromium import PROGRAM, browser

PICTURE = Path(__file__).parents[2] / "screenshots" / "cast.svg"
MOST_BYTES = 600_000
LONGEST_S = 25
SVG = "{http://www.w3.org/2000/svg}"
VERDICT = re.compile(r"Use it|Leave it off|Turn it off|Not decided")
ELEMENTS = {"svg", "title", "style", "rect", "circle", "text", "path", "g", "set"}
SEEK = """
(() => {
  const svg = document.documentElement;
  svg.pauseAnimations();
  svg.setCurrentTime(%s);
  return [...document.querySelectorAll("g > text")]
    .filter(one => one.getClientRects().length)
    .map(one => one.textContent).join("\\n");
})()
"""


def shown_without_animation(picture: str) -> str:
    """Lines of what a viewer that animates nothing draws."""
    root = ET.fromstring(picture)  # noqa: S314 - our own
    texts: dict[int, list[tuple[int, str]]] = {}
    for parent in root.iter(f"{SVG}g"):
        if parent.get("display") != "none":
            for one in parent.findall(f"{SVG}text"):
                line = texts.setdefault(int(one.attrib["y"]), [])
                line.append((int(one.attrib["x"]), one.text or ""))
    return "\n".join(" ".join(text for _, text in sorted(texts[y])) for y in sorted(texts))


def test_the_committed_picture_is_small_and_fetches_nothing_and_ends_in_a_command() -> None:
    picture = PICTURE.read_text("utf-8")
    assert len(picture.encode()) <= MOST_BYTES
    root = ET.fromstring(picture)  # noqa: S314 - our own
    assert {one.tag.removeprefix(SVG) for one in root.iter()} <= ELEMENTS
    attributes = {name for one in root.iter() for name in one.attrib}
    assert not [name for name in attributes if "href" in name or name.startswith("on")]
    assert re.findall(r"url\((?!data:font/woff;base64,)", picture) == []
    assert "@import" not in picture
    whole = next(one for one in root.iter(f"{SVG}set") if one.get("id") == "c")
    assert float(whole.attrib["dur"].removesuffix("s")) <= LONGEST_S
    assert "time-lapse" in picture
    shown = shown_without_animation(picture)
    assert VERDICT.search(shown)
    assert "llama-server" in shown


@pytest.mark.slow
@pytest.mark.skipif(PROGRAM is None, reason="needs Debian's chromium")
def test_a_browser_plays_it_again_and_again(tmp_path: Path) -> None:
    with browser(tmp_path) as page:
        page.open(PICTURE, width=900)
        whole_s = page.value("parseFloat(document.getElementById('c').getAttribute('dur'))")
        first, last = (page.value(SEEK % time_s) for time_s in (0.01, whole_s - 0.01))
        assert not VERDICT.search(first)
        assert VERDICT.search(last)
        assert page.value(SEEK % (whole_s + 0.01)) == first
        assert page.complaints == []
