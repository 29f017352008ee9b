"""Why numbers do not compare, in words."""

import pytest

from spectui.measure.comparable import differences, found_again, spec_digest

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


GPU = {"machine": "m", "host": "h", "driver": "550"}


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
        (GPU, {**GPU, "driver": "560"}, "with another GPU driver (550, here 560)"),
        (GPU, {"machine": "n", "host": "i", "driver": "560"}, "on another machine"),
        # Whoever never kept it, or is not told it, has nothing to compare.
        ({"machine": "m"}, GPU, None),
        (GPU, {"machine": "m", "host": "h"}, None),
        (
            GPU,
            {"machine": "h"},
            "with this machine's GPUs, which the driver does not list now (see nvidia-smi)",
        ),
    ],
    ids=str,
)
def test_what_differs_is_named(
    known: dict[str, object], now: dict[str, object], told: str | None
) -> None:
    assert differences(known, now) == told


def test_what_was_begun_before_drivers_were_kept_is_found_again() -> None:
    older = {"machine": "m", "host": "h"}
    before, now = spec_digest(older), spec_digest(GPU)
    assert before == spec_digest({"machine": "m"}) != now
    for stored, found in (
        (set(), (GPU, now)),
        ({before}, (older, before)),
        ({now}, (GPU, now)),
        ({before, now}, (GPU, now)),
    ):
        assert found_again(GPU, spec_digest, stored.__contains__) == found
    assert found_again(older, spec_digest, {before}.__contains__) == (older, before)
