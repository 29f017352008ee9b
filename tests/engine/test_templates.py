"""Chat templates of any model are rendered within limits."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import psutil
import pytest

from spectui.engine.templates import Templates
from spectui.errors import BadInputError
from spectui.llama.model import Model
from spectui.options.setup import ModelOptions
from tests.support.models import TARGET, Tiny, TinyPath

pytest_plugins = ["tests.support.fixtures"]

ASKED = (("user", "hello"),)


def model(source: str | None) -> Model:
    """A model that has this template."""

    def piece(token: int, *, special: bool) -> bytes:
        assert special
        return b"<%d>" % token

    bos, eos = SimpleNamespace(added=False, id=1), SimpleNamespace(id=2)
    vocabulary = SimpleNamespace(bos=bos, eos=eos, piece=piece)
    options = SimpleNamespace(path=Path("m.gguf"))
    found = SimpleNamespace(options=options, chat_template=source, vocabulary=vocabulary)
    return cast("Model", found)


@pytest.fixture
def templates() -> Iterator[Templates]:
    with Templates() as found:
        yield found


def test_a_template_gets_messages_and_tokens(templates: Templates) -> None:
    source = (
        "{{ bos_token }}{% for m in messages %}{{ m.role }}:{{ m.content | tojson }}{% break %}"
        "{% endfor %}{{ eos_token }}{{ strftime_now('%Y')[:2] }}{{ add_generation_prompt }}"
    )
    for _ in range(2):
        said = (("user", 'the "löwe" \ud800'), ("user", "again"))
        text = templates.render(model(source), said)
        assert text == '<1>user:"the \\"löwe\\" \ud800"<2>20True'


def test_the_template_of_a_real_model(templates: Templates, tiny: TinyPath) -> None:
    with Model(ModelOptions(path=tiny(TARGET))) as loaded:
        text = templates.render(loaded, [("system", "Be brief."), ("user", "[/INST] {{ 1 }}")])
    assert text == (
        "<|im_start|>system\nBe brief.<|im_end|>\n"
        "<|im_start|>user\n[/INST] {{ 1 }}<|im_end|>\n"
        "<|im_start|>assistant\n"
    )


HOSTILE = {
    "nested loops": "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}" * 2
    + "{% endfor %}" * 2,
    "memory": "{{ 'a' * 10000000000 }}",
    "much text": "{% for a in range(99999) %}{{ 'a' * 9999 }}{% endfor %}",
    "recursion": "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "nesting": "{{ " + "(" * 50_000 + "1" + ")" * 50_000 + " }}",
    "a large power": "{{ 9 ** (9 ** (9 ** 9)) }}",
    "huge": "x" * (1 << 21),
    "python": "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "its own words": "{{ raise_exception('\x1b]0;title\x07' ~ 'x' * 9999) }}",
}


LONG = {"a large power", "much text"}
"""Those that take all the time there is, as nested loops do."""
BAD = {
    "refuses by itself": "{{ raise_exception('roles must alternate') }}",
    "is no template": "{% for %}",
    "reaches out of its sandbox": "{{ ''.__class__.__mro__ }}",
    "fails in Python": "{{ 1 + messages[0].content }}",
    "divides by zero": "{{ 1 / 0 }}",
}


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=[pytest.mark.ci] * (kind in {"a large power", "much text"}))
        for kind in HOSTILE
    ],
)
def test_a_hostile_template_is_refused(kind: str, templates: Templates) -> None:
    assert_refused(templates, HOSTILE[kind])


def test_templates_that_fail_are_bad_input(templates: Templates) -> None:
    for source in BAD.values():
        assert_refused(templates, source)


def assert_refused(templates: Templates, source: str) -> None:
    with pytest.raises(BadInputError, match=r"chat template of m\.gguf refuses") as caught:
        templates.render(model(source), ASKED)
    assert len(str(caught.value)) < 500
    # The next one is rendered as if nothing had been.
    assert templates.render(model("{{ messages[0].content }}"), ASKED) == "hello"


def test_what_a_file_says_of_its_template_is_heeded(templates: Templates, tiny: TinyPath) -> None:
    said = [("user", "<é> & 'x'")]
    template = "{{ bos_token }}{{ messages[0].content | tojson }}{{ eos_token }}"
    # BOS is left to the tokenizer, and JSON is not escaped for HTML.
    for add_bos, bos in ((True, ""), (False, "<|im_start|>")):
        recipe = Tiny(chat_template=template, add_bos=add_bos)
        with Model(ModelOptions(path=tiny(recipe))) as loaded:
            assert templates.render(loaded, said) == f"{bos}\"<é> & 'x'\"<|im_end|>"
    message = "has no chat template; give raw text as 'prompt'"
    with (
        Model(ModelOptions(path=tiny(Tiny(chat_template=None)))) as loaded,
        pytest.raises(BadInputError, match=message),
    ):
        templates.render(loaded, said)


def test_the_child_has_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "geheim")
    monkeypatch.setenv("SPECTUI_STORAGE", "postgresql://me:geheim@db/studies")
    monkeypatch.setenv("SPECTUI_TEST", "told")
    before = {child.pid for child in psutil.Process().children()}
    with Templates() as templates:
        templates.render(model("a"), ASKED)
        (child,) = (one for one in psutil.Process().children() if one.pid not in before)
        environment = child.environ()
    assert environment["SPECTUI_TEST"] == "told"
    assert not any("geheim" in value for value in environment.values())


def test_no_child_is_left() -> None:
    before = {child.pid for child in psutil.Process().children()}
    with Templates() as templates:
        templates.render(model("a"), ASKED)
        assert {child.pid for child in psutil.Process().children()} != before
    assert {child.pid for child in psutil.Process().children()} == before
