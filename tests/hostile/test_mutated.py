"""Mutated files of every kind: each is read, or refused in a sentence."""

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spectui.errors import SpectuiError
from tests.hostile.parsers import PARSERS, TOKENS, Parser
from tests.hostile.trees import mutated


@st.composite
def _mutated(draw: st.DrawFn, parser: Parser) -> bytes:
    content = draw(st.sampled_from(parser.seeds()))
    if parser.stays_json:
        return mutated(content, draw(st.randoms(use_true_random=False))) or content
    for _ in range(draw(st.integers(1, 4))):
        start, length = draw(st.integers(0, len(content))), draw(st.integers(0, 30))
        part = draw(
            st.sampled_from(TOKENS)
            | st.binary(max_size=4)
            | st.just(content[start : start + draw(st.integers(0, 200))])
        )
        content = content[:start] + part + content[start + length :]
    return content


@pytest.mark.parametrize("kind", PARSERS)
def test_a_mutated_file_is_read_or_refused(kind: str, tmp_path: Path) -> None:
    parser = PARSERS[kind]

    @settings(
        max_examples=40, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
    )
    @given(_mutated(parser))
    def holds(content: bytes) -> None:
        path = tmp_path / parser.name
        path.write_bytes(content)
        with suppress(SpectuiError):
            parser.read(path)

    holds()
