"""The moving picture: how a recording is cut and drawn, and the one that is committed."""

import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.support.chromium import PROGRAM, Browser, browser
from tools.animated_svg import draw
from tools.film import Frame, Look, Run, Scene, cut

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


def frame(time_s: float, *lines: str, look: Look | None = None) -> Frame:
    rows = tuple((Run(0, line.ljust(60), look or Look()),) for line in lines)
    return Frame(time_s, rows)


def scene(begin_s: float, end_s: float, longest_s: float, **more: float) -> Scene:
    return Scene(caption="c", begin_s=begin_s, end_s=end_s, longest_s=longest_s, **more)  # type: ignore[arg-type] # seconds


RECORDING = [frame(float(time_s), str(time_s)) for time_s in range(20)]


def caption(shown: Frame) -> str:
    return shown.text.splitlines()[-1]


def test_what_takes_no_longer_than_allowed_is_shown_at_its_own_pace() -> None:
    film, end_s = cut(RECORDING, [scene(0, 3, longest_s=5)])
    assert end_s == 3
    assert all("time-lapse" not in caption(one) for one in film)


def test_what_is_shortened_says_so_and_shows_the_real_clock() -> None:
    film, end_s = cut(RECORDING, [scene(0, 18, longest_s=2)])
    assert end_s == 2
    assert all("time-lapse 9.0×" in caption(one) for one in film)
    assert caption(film[-1]).endswith(" 0:18 ")
    assert film[-1].text.startswith("18 ")


def test_scenes_follow_each_other() -> None:
    film, end_s = cut(RECORDING, [scene(0, 3, longest_s=5), scene(3, 13, longest_s=1)])
    times = [one.time_s for one in film]
    assert end_s == 4
    assert times == sorted(times)
    assert film[-1].text.startswith("13 ")


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


def drawn(*frames: Frame, end_s: float) -> str:
    return draw(frames, end_s=end_s, title="t", about="a & b")


def test_without_animation_the_last_frame_is_shown() -> None:
    picture = drawn(frame(0, "stays  goes"), frame(1, "stays  comes & <ends>"), end_s=3)
    assert shown_without_animation(picture) == "stays comes & <ends>"


def test_what_stays_is_drawn_once_and_never_animated() -> None:
    picture = drawn(*(frame(index, f"label   {index}") for index in range(5)), end_s=5)
    assert picture.count(">label<") == 1
    assert len(re.findall("<set", picture)) == 1 + 5


def test_bars_are_areas_and_braille_is_dots() -> None:
    look = Look(foreground="#123456", background="#654321")
    picture = drawn(frame(0, "██ \u2801\u28ff x", look=look), end_s=1)
    assert '<rect x="0" y="0" width="20" height="19" fill="#123456"/>' in picture
    (dots,) = re.findall(r'<path class="l0" d="([^"]*)"/>', picture)
    assert dots.count("M") == 1 + 8
    assert shown_without_animation(picture) == "x"


@pytest.fixture(scope="module")
def committed() -> str:
    return PICTURE.read_text("utf-8")


def test_the_committed_picture_is_small_and_fetches_nothing(committed: str) -> None:
    assert len(committed.encode()) <= MOST_BYTES
    root = ET.fromstring(committed)  # noqa: S314 - our own
    assert {one.tag.removeprefix(SVG) for one in root.iter()} <= ELEMENTS
    attributes = {name for one in root.iter() for name in one.attrib}
    assert not [name for name in attributes if "href" in name or name.startswith("on")]
    assert re.findall(r"url\((?!data:font/woff;base64,)", committed) == []
    assert "@import" not in committed


def test_the_committed_picture_ends_in_a_verdict_and_a_command(committed: str) -> None:
    shown = shown_without_animation(committed)
    assert VERDICT.search(shown)
    assert "llama-server" in shown


def test_the_committed_picture_is_short_and_marks_what_it_shortens(committed: str) -> None:
    root = ET.fromstring(committed)  # noqa: S314 - our own
    whole = next(one for one in root.iter(f"{SVG}set") if one.get("id") == "c")
    assert float(whole.attrib["dur"].removesuffix("s")) <= LONGEST_S
    assert "time-lapse" in committed


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if PROGRAM is None:
        pytest.skip("needs Debian's chromium")
    with browser(tmp_path_factory.mktemp("chromium")) as started:
        yield started


@pytest.mark.slow
def test_a_browser_plays_it_again_and_again(page: Browser) -> None:
    page.open(PICTURE, width=900)
    whole_s = page.value("parseFloat(document.getElementById('c').getAttribute('dur'))")
    first, last = (page.value(SEEK % time_s) for time_s in (0.01, whole_s - 0.01))
    assert not VERDICT.search(first)
    assert VERDICT.search(last)
    assert page.value(SEEK % (whole_s + 0.01)) == first
    assert page.complaints == []


@pytest.mark.slow
def test_an_image_of_a_page_plays_it_without_a_request(page: Browser, tmp_path: Path) -> None:
    html = tmp_path / "page.html"
    html.write_text(f'<img src="{PICTURE.resolve().as_uri()}" width="830">', encoding="utf-8")
    page.open(html, width=870)
    assert page.value("document.images[0].naturalWidth") > 0
    addresses = [one for one in page.requests if not one.startswith("data:font/")]
    assert addresses == [html.as_uri(), PICTURE.resolve().as_uri()]
    assert page.complaints == []
