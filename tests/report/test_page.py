"""A page tells what its study says, texts of others stay texts, and charts have their scales."""

import base64
import hashlib
import re
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from spectui.errors import BadInputError
from spectui.measure.arm import Arm
from spectui.report.content import Content, content_of
from spectui.report.document import arm_of
from spectui.report.formats import escaped, render_markdown, render_page, render_row
from tests.golden.commands_support import SPECULATIONS
from tests.report.pages import Page, read_page
from tests.report.studies import BEST, content, document, renamed, study

MOST_BYTES = 400_000
HOSTILE = (
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "{{ 7 * 7 }}{% raw %}",
    "</style></title><!-- ]]>",
    "a\x1b[31m\u202e\x00b\udc80",
    "javascript:alert(1)//https://evil.example",
    "&lt;b&gt;&amp;",
)


def page_of(found: Content) -> Page:
    text = render_page(found)
    assert len(text.encode()) <= MOST_BYTES
    return read_page(text)


def hash_of(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def check_inert(page: Page) -> None:
    """See that nothing runs, loads or leads elsewhere."""
    policy = page.one("meta") if len(page.all("meta")) == 1 else page.all("meta")[1]
    told = policy.attributes["content"] or ""
    assert policy.attributes["http-equiv"] == "Content-Security-Policy"
    assert "default-src 'none'" in told
    assert f"style-src '{hash_of(page.one('style').text)}'" in told
    assert f"script-src '{hash_of(page.one('script').text)}'" in told
    for one in page.elements:
        assert not {"src", "style", "srcdoc", "action", "xlink:href"} & one.attributes.keys()
        assert not [name for name in one.attributes if name.startswith("on")]
    assert [one.attributes.get("href") for one in page.all("link")] == ["data:,"]
    assert not page.all("a")


def test_a_page_tells_what_the_study_says() -> None:
    page = page_of(content())
    check_inert(page)
    assert page.one("h1").text == "Use it"
    for told in ("3.02×", "2.37× to 3.68×", "+202 %", "100.0", "276.6", "245 ms", "97.6 ms"):
        assert told in page.text, told
    commands = [one.text for one in page.all("code")]
    assert commands[0].startswith("llama-server -m /models/target.gguf")
    assert "--spec-draft-n-max 9" in commands[0]
    assert all(one.attributes.get("data-copy") for one in page.all("button"))
    titles = [one.text for one in page.all("h2")]
    assert {"How sure is it?", "A whole request", "Where the time goes"} <= {*titles}
    leads = [one for one in page.elements if one.attributes.get("class") == "lead"]
    assert len(leads) == len(titles)


@pytest.mark.parametrize("word", HOSTILE)
def test_hostile_texts_stay_texts(word: str) -> None:
    def rename(text: str) -> str:
        return text if text in {"process", "slept"} else f"{word} {text}"

    friendly, hostile = document("disturbed/disturbed"), document("disturbed/disturbed")
    tags = {one.tag for one in page_of(content(found=friendly)).elements}
    evil = renamed(hostile, rename)
    page = page_of(content(found=evil, name=word, draft="close", extra=("--alias", word)))
    check_inert(page)
    assert {one.tag for one in page.elements} == tags
    assert len(page.all("script")) == len(page.all("style")) == 1
    assert not re.search("[\x00-\x08\x0b-\x1f\u202e\ud800-\udfff]", page.text)
    assert "49" not in page.all("title")[0].text


def test_a_document_of_other_shapes_costs_its_sections_alone() -> None:
    wrongs: tuple[object, ...] = ("text", 3, [3], {"a": []}, -1, 1e300)
    whole = {one.text for one in page_of(content()).all("h2")}
    for part in ("requests", "explanation_terms", "conditions", "machine"):
        for wrong in wrongs:
            page = page_of(content(found={**document(), part: wrong}))
            check_inert(page)
            assert whole - {one.text for one in page.all("h2")} <= {
                "A whole request",
                "Where the time goes",
                "What disturbed it",
            }
            assert page.one("h1").text == "Use it"
    page = page_of(content(found={**document(), "requests": [{"speedup": float("nan")}]}))
    assert "A whole request" not in {one.text for one in page.all("h2")}


def test_long_words_fit() -> None:
    found = renamed(document(), lambda text: f"{text}{'<' * 3000}")
    check_inert(page_of(content(found=found, name="n" * 500)))


def test_a_page_has_the_gain_of_the_place() -> None:
    gain = {"speedup": 1.34, "speedup_ci95": [1.3, 1.39]}
    placing = {"given": {"threads": 16}, "best": {"threads": 8}, "decoding": gain}
    page = page_of(content_of(study(found=document() | {"placing": placing})))
    for told in ("before that, threads 8 over your command", "1.34×", "1.30× to 1.39×"):
        assert told in page.text, told
    # A place that was shown to be no faster is none.
    page = page_of(content_of(study(found=document() | {"placing": {**placing, "best": {}}})))
    assert "over your command" not in page.text


def test_a_study_without_a_document_has_its_verdict() -> None:
    bare = msgspec.structs.replace(study(), report=None)
    page = page_of(content_of(bare))
    assert page.one("h1").text == "Use it"
    assert "How sure is it?" in {one.text for one in page.all("h2")}
    with pytest.raises(BadInputError, match="has no verdict"):
        content_of(msgspec.structs.replace(bare, outcome=None))


def test_secrets_and_the_home_folder_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/amelie")
    extra = ("--api-key", "s3cr3t", "--host", "http://me:pass@host/", "--hf-token=s3cr3t")
    shown = content(folder="/home/amelie/my models", extra=extra)
    text = render_page(shown)
    assert "s3cr3t" not in text
    assert ":pass@" not in text
    assert str(Path.home()) == "/home/amelie"
    assert "amelie" not in text
    assert "-m ~/&#39;my models/target.gguf&#39;" in text


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
def test_hostile_texts_stay_texts_in_markdown_and_rows(word: str) -> None:
    found = renamed(document("disturbed/disturbed"), lambda text: f"{word}|{text}")
    hostile = content(found=found, name=word)
    plain, row = render_markdown(hostile), render_row(hostile)
    assert len(plain.encode()) < 65_000
    for text in (plain, row):
        assert not re.search("<script|<img|\x1b", text)
    assert [len(re.findall(r"(?<!\\)\|", line)) for line in row.splitlines()] == [9, 9, 9]


def cells_of(text: str) -> dict[str, str]:
    heads, _marks, row = (line.strip("| ").split(" | ") for line in text.splitlines())
    return dict(zip(heads, row, strict=True))


def test_a_row_tells_facts_alone() -> None:
    found = document()
    found["target"]["path"] = "/home/me/Big-Q4_K_M.gguf"
    assert cells_of(render_row(content(found=found))) == {
        "GPU": "none: A processor",
        "model": "Big-Q4\\_K\\_M.gguf + close.gguf",
        "quant": "Q4\\_K\\_M + –",
        "placement": "-t 1",
        "off, tokens/s": "100.0",
        "on, tokens/s": "276.6",
        "speedup (95 %)": "3.02× (2.37× to 3.68×)",
        "setting": "close: max 11, min 0, p\\_min 0.00",
    }
    bare = cells_of(render_row(content_of(msgspec.structs.replace(study(), report=None))))
    assert (bare["GPU"], bare["placement"]) == ("–", "-t 1")


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
    verdict = replace(found.verdict, reason=reason)
    found = replace(found, outcome=replace(found.outcome, verdict=verdict))
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
