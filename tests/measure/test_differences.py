"""Why numbers do not compare, in words."""

import pytest

from spectui.measure.comparable import differences

SERVER = {"name": "server", "path": "/a", "version": "b1", "build": {"size_bytes": 1}}
ENGINE = {"name": "engine", "llama.cpp": ["1"]}
SPEC = {
    "machine": "m",
    "backend": SERVER,
    "target": {"file": "t"},
    "prompts": "p",
    "context": {"threads": 1, "flash_attn": "auto"},
}


@pytest.mark.parametrize(
    ("now", "told"),
    [
        ({}, None),
        ({"backend": {**SERVER, "path": "/b"}}, "with another llama-server"),
        ({"backend": {**SERVER, "build": None}}, "with another llama-server"),
        ({"backend": {**SERVER, "extra": ["-x"]}}, "with other arguments for llama-server"),
        ({"backend": ENGINE}, "with another backend"),
        ({"prompts": "q", "machine": "n"}, "on another machine and with other prompts"),
        ({"target": {}}, "with another target"),
        (
            {"context": {"threads": 2, "flash_attn": "on"}},
            "with other options (-fa; -t 1, here 2)",
        ),
        ({"new": 1}, "with other settings"),
    ],
    ids=str,
)
def test_what_differs_is_named(now: dict[str, object], told: str | None) -> None:
    assert differences(SPEC, {**SPEC, **now}) == told


def test_an_engine_of_another_llama_cpp() -> None:
    other = {"name": "engine", "llama.cpp": ["2"]}
    assert differences({"backend": ENGINE}, {"backend": other}) == "with another llama.cpp"
