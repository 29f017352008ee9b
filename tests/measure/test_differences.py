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
CHANGES: list[tuple[dict[str, object], str | None]] = [
    ({}, None),
    ({"backend": {**SERVER, "path": "/b"}}, "with another backend (path)"),
    ({"backend": {**SERVER, "extra": ["-x"]}}, "with another backend (extra)"),
    ({"prompts": "q", "machine": "n"}, "on another machine and with other prompts"),
    ({"target": {"file": "u"}}, "with another target (file)"),
    ({"context": {"threads": 2, "flash_attn": "on"}}, "with other options (flash_attn, threads)"),
    ({"new": 1}, "with other settings"),
]


GPU = {"machine": "m", "driver": "550"}


@pytest.mark.parametrize(
    ("known", "now", "told"),
    [
        *((SPEC, {**SPEC, **changes}, told) for changes, told in CHANGES),
        (
            {"backend": ENGINE},
            {"backend": {**ENGINE, "llama.cpp": ["2"]}},
            "with another backend (llama.cpp)",
        ),
        (GPU, GPU, None),
        (GPU, {**GPU, "driver": "560"}, "with another GPU driver"),
        (GPU, {"machine": "n", "driver": "560"}, "on another machine"),
        # Whoever never kept it, or is not told it, has nothing to compare.
        ({"machine": "m"}, GPU, None),
        (GPU, {"machine": "m"}, None),
        # Studies of before have the machine without its GPUs as well.
        ({**GPU, "host": "h"}, GPU, None),
    ],
    ids=str,
)
def test_what_differs_is_named(
    known: dict[str, object], now: dict[str, object], told: str | None
) -> None:
    assert differences(known, now) == told
