import base64
import hashlib
import re
from dataclasses import replace
from pathlib import Path

import pytest

from spectui.report.content import Content, content_of
from spectui.report.page import render_page
from spectui.tune.trials import TrialRecord, TrialState
from tests.report.pages import Page, read_page
from tests.report.studies import BEST, content, document, many_trials, renamed, study

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
    for told in ("3.02×", "2.37× to 3.68×", "+202 %", "100.0", "301.7", "245 ms", "93 ms"):
        assert told in page.text, told
    commands = [one.text for one in page.all("code")]
    assert commands[0].startswith("llama-server -m /models/target.gguf")
    assert "--spec-draft-n-max 9" in commands[0]
    assert all(one.attributes.get("data-copy") for one in page.all("button"))
    titles = [one.text for one in page.all("h2")]
    assert {"Every setting", "By kind of prompt", "Where the time goes", "What was tried"} <= {
        *titles
    }
    leads = [one for one in page.elements if one.attributes.get("class") == "lead"]
    assert len(leads) == len(titles)


def test_the_map_marks_what_was_measured_and_the_best() -> None:
    page = page_of(content())
    classes = [one.attributes.get("class") or "" for one in page.elements]
    assert classes.count("measured") == 3
    assert sum(one.startswith("star") for one in classes) == 1
    cells = [one.text for one in page.all("title")[1:]]
    # Two values of p_min share a row.
    assert len(cells) == 16 * 10
    assert "draft_max 9, p_min 0: 4 settings, predicted 2.70×, measured 3.02×" in cells
    assert "640 settings predicted, 3 measured" in page.text


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
    for part in ("requests", "per_category", "explanation_terms", "conditions", "machine"):
        for wrong in wrongs:
            page = page_of(content(found={**document(), part: wrong}))
            check_inert(page)
            assert whole - {one.text for one in page.all("h2")} <= {
                "A whole request",
                "By kind of prompt",
                "Where the time goes",
                "What disturbed it",
            }
            assert page.one("h1").text == "Use it"
    page = page_of(content(found={**document(), "requests": [{"speedup": float("nan")}]}))
    assert "numbers that are none" in page.text


def test_ten_thousand_trials_and_long_words_fit() -> None:
    found = renamed(document(), lambda text: f"{text}{'<' * 3000}")
    check_inert(page_of(content(found=found, trials=many_trials(2000), name="n" * 500)))
    failed = TrialRecord(number=9, state=TrialState.FAIL, arm=BEST, error="it <broke>; mend it")
    page = page_of(content(trials=(*many_trials(9_999), failed)))
    for told in ("1 failed", "it <broke>; mend it"):
        assert told in page.text
    assert "10,000 trials in all" in page.text
    assert "left out" in page.text
    rows = [one for one in page.all("th") if one.attributes.get("scope") == "row"]
    assert len(rows) < 150
    assert "off" in {one.text for one in rows}


def test_a_study_without_a_document_says_what_it_lacks() -> None:
    bare = replace(study(), report=None, predictions=None)
    page = page_of(content_of(bare))
    assert page.one("h1").text == "Use it"
    assert "What is not here" in {one.text for one in page.all("h2")}
    assert "older spectui" in page.text
    assert "only what was measured is on the map" in page.text
    page = page_of(content_of(replace(study(), predictions=None)))
    assert "only the best 50 of 1,585 predictions" in page.text
    page = page_of(content_of(replace(bare, outcome=None, trials=())))
    assert page.one("h1").text == "No verdict yet"


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
