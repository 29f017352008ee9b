"""Chat templates of any model are rendered within limits."""

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import psutil
import pytest

from spectui.engine.templates import Templates
from spectui.errors import BadInputError
from spectui.llama.model import Model
from spectui.options.setup import ModelOptions, Rendering
from tests.support.models import Tiny, TinyPath

pytest_plugins = ["tests.support.fixtures"]

ASKED = (("user", "hello"),)


def model(source: str | None) -> Model:
    """A model that has this template."""
    vocabulary = SimpleNamespace(
        bos=SimpleNamespace(added=False, id=1),
        eos=SimpleNamespace(added=False, id=2),
        piece=lambda token, *, special: b"<%d>" % token if special else b"",
    )
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
        # Half of a surrogate pair is no text that a tokenizer could read.
        assert text == '<1>user:"the \\"löwe\\" ?"<2>20True'


LONG = {
    "much text": "{% for a in range(99999) %}{{ 'a' * 9999 }}{% endfor %}",
    "a large power": "{{ 9 ** (9 ** (9 ** 9)) }}",
}
"""Those that take all the time there is."""
HOSTILE = {
    "memory": "{{ 'a' * 10000000000 }}",
    "recursion": "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "nesting": "{{ " + "(" * 50_000 + "1" + ")" * 50_000 + " }}",
    "python": "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "its own words": "{{ raise_exception('\x1b]0;title\x07' ~ 'x' * 9999) }}",
    "refuses by itself": "{{ raise_exception('roles must alternate') }}",
    "fails in Python": "{{ 1 + messages[0].content }}",
    "divides by zero": "{{ 1 / 0 }}",
}
CASES = [
    *(pytest.param(source, id=name) for name, source in HOSTILE.items()),
    *(pytest.param(source, id=name, marks=pytest.mark.ci) for name, source in LONG.items()),
]


@pytest.mark.parametrize("source", CASES)
def test_a_template_that_is_hostile_or_fails_is_refused(source: str, templates: Templates) -> None:
    with pytest.raises(BadInputError, match=r"chat template of m\.gguf refuses") as caught:
        templates.render(model(source), ASKED)
    assert len(str(caught.value)) < 500
    # The next one is rendered as if nothing had been.
    assert templates.render(model("{{ messages[0].content }}"), ASKED) == "hello"


def rendered(
    templates: Templates,
    source: str,
    *messages: tuple[str, str],
    template: str | None = None,
    **arguments: object,
) -> str:
    rendering = Rendering(template=template, arguments=json.dumps(arguments))
    return templates.render(model(source), messages, rendering)


SHOWN = "{% for m in messages %}[{{ m.role }}:{{ m.content }}]{% endfor %}"
ALONE = "{% for m in messages if m.role == 'user' %}{{ m.content }};{% endfor %}"
PARTS = "{% for m in messages %}{% for p in m.content %}{{ p.text }};{% endfor %}{% endfor %}"
TOLD = (("developer", "Be brief."), ("user", "hi"))


def test_messages_are_made_what_the_template_reads(templates: Templates) -> None:
    assert rendered(templates, SHOWN, *TOLD) == "[system:Be brief.][user:hi]"
    # Templates with channels have that role themselves.
    assert rendered(templates, "<|channel|>" + SHOWN, *TOLD).endswith(
        "[developer:Be brief.][user:hi]"
    )
    # One that does not show the system's gets it with the question.
    assert rendered(templates, ALONE, *TOLD) == "Be brief.\nhi;"
    assert rendered(templates, ALONE, TOLD[0]) == ""
    assert rendered(templates, PARTS, *TOLD) == "Be brief.;hi;"
    assert rendered(templates, "a{% generation %}b{% endgeneration %}c", *TOLD) == "abc"
    # Those with StepFun's words get contents without blanks around.
    trimmed = "{# You have access to the following functions in JSONSchema format #}" + SHOWN
    assert rendered(templates, trimmed, ("user", " a b\n")) == "[user:a b]"
    # What is undefined adds nothing.
    assert rendered(templates, "{{ 'a' + tools.of + 'b' }}", *TOLD) == "ab"


def test_what_the_command_says_of_the_template_counts(templates: Templates) -> None:
    hi = ("user", "hi")
    assert rendered(templates, "x", hi, template="{{ mine }}", mine=[1]) == "[1]"
    chatml = "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    assert rendered(templates, "x", hi, template="chatml") == chatml
    kept = "{{ preserve_thinking }}{{ clear_thinking }}{{ reasoning_strength }}"
    assert rendered(templates, kept, hi) == "TrueFalse"
    more = rendered(templates, kept, hi, preserve_reasoning=False, reasoning_effort="low")
    assert more == "FalseTruelow"


def test_the_line_of_a_broken_template_is_told(templates: Templates) -> None:
    with pytest.raises(
        BadInputError, match=r"of m\.gguf refuses the messages \(line 2: Expected an expression"
    ):
        rendered(templates, "a\n{% for %}", ("user", "hi"))


def test_what_a_file_says_of_its_template_is_heeded(templates: Templates, tiny: TinyPath) -> None:
    said = [("user", "<é> & 'x'")]
    template = "{{ bos_token }}{{ messages[0].content | tojson }}{{ eos_token }}"
    # What the tokenizer adds is left to it, and JSON is not escaped for HTML.
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


def test_the_child_has_no_secrets_and_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "geheim")
    monkeypatch.setenv("SPECTUI_STORAGE", "postgresql://me:geheim@db/studies")
    monkeypatch.setenv("SPECTUI_TEST", "told")
    before = {*psutil.Process().children()}
    with Templates() as templates:
        templates.render(model("a"), ASKED)
        (child,) = {*psutil.Process().children()} - before
        environment = child.environ()
    assert environment["SPECTUI_TEST"] == "told"
    assert not any("geheim" in value for value in environment.values())
    assert not child.is_running()
