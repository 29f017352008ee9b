"""What a command says of chat templates, as llama-server reads it."""

import json
from pathlib import Path

import pytest

from spectui.commands.takeover import rendering_of
from spectui.errors import BadInputError
from spectui.options.setup import OWN_TEMPLATE, Rendering
from tests.support.tables import table

ARGUMENTS: dict[str, dict[str, object]] = {
    "-c 512 --reasoning auto --reasoning-budget 0 --jinja": {},
    """--chat-template-kwargs {"a":1,"b":[2]} --chat-template-kwargs {"a":3}""": {"a": 3, "b": [2]},
    "-rea off": {"enable_thinking": False},
    """--reasoning=on --chat-template-kwargs {"enable_thinking":false}""": {
        "enable_thinking": False
    },
    "--reasoning-effort high": {"reasoning_effort": "high"},
    "--reasoning-effort high --reasoning-effort default": {},
    "--no-reasoning-preserve": {"preserve_reasoning": False},
    "--reasoning-preserve": {"preserve_reasoning": True},
}


@table(("words", "expected"), ARGUMENTS.items())
def test_arguments_of_the_template(words: str, expected: dict[str, object]) -> None:
    found = rendering_of(words.split())
    assert found == Rendering(arguments=json.dumps(expected))


def test_the_last_template_counts(tmp_path: Path) -> None:
    file = tmp_path / "a.jinja"
    file.write_text("{{ 1 }}\n")
    assert rendering_of(["--chat-template", "x", "--chat-template-file", str(file)]) == Rendering(
        template="{{ 1 }}\n"
    )
    assert rendering_of(["--chat-template", "chatml"]).template == "chatml"
    # Without Jinja a name stands for a template of llama.cpp's own.
    assert rendering_of(["--no-jinja", "--chat-template", "llama3"]) == OWN_TEMPLATE


@table(
    ("words", "said"),
    [
        (["--chat-template-file", "/no/such"], r"--chat-template-file /no/such .*; check the path"),
        (["--chat-template-kwargs", "{a}"], r"\{a\} is no JSON object .*; write one in braces"),
        (
            ["--chat-template-kwargs", "3"],
            r"--chat-template-kwargs 3 is no JSON object .*; write one",
        ),
    ],
)
def test_what_cannot_be_read_is_refused(words: list[str], said: str) -> None:
    with pytest.raises(BadInputError, match=said):
        rendering_of(words)
