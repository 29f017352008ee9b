"""A model's own sampling is read as llama-server reads it."""

from pathlib import Path

import gguf
import pytest

from spectui.models.facts import model_sampling, repeat_penalty, unmeasured_sentences
from tests.support.models import add_sampling, write_empty, write_file


def asking(tmp_path: Path, **values: float | str) -> Path:
    path = tmp_path / "asking.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    add_sampling(writer, values.items())
    write_file(writer)
    return path


def test_what_the_chain_has(tmp_path: Path) -> None:
    whole = {"temp": 0.6, "top_k": 20, "top_p": 0.95, "min_p": 0.0}
    low = {"temp": -1.0, "top_k": -1, "top_p": 1.5, "min_p": -0.5}
    tables: list[tuple[dict[str, float | str], dict[str, float]]] = [
        ({}, {}),
        ({**whole}, whole),
        ({"temp": 1, "top_k": 20.9}, {"temp": 1.0, "top_k": 20}),
        ({"temp": " 0.7", "top_k": "30"}, {"temp": 0.7, "top_k": 30}),
        ({"temp": "warm", "top_k": "", "top_p": "nan", "min_p": "inf"}, {}),
        ({"temp": True, "top_k": "9" * 50}, {"top_k": 2**31 - 1}),
        ({**low}, {"temp": 0.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0}),
    ]
    for values, expected in tables:
        assert model_sampling(asking(tmp_path, **values)) == expected


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"temp": 0.6, "top_k": 20}, None),
        ({"penalty_repeat": 1.0}, None),
        ({"penalty_repeat": 1.05}, "a repeat penalty of 1.05"),
    ],
)
def test_what_it_lacks(tmp_path: Path, values: dict[str, float | str], told: str | None) -> None:
    sentences = unmeasured_sentences(asking(tmp_path, **values))
    expected = f"asking.gguf asks for {told}, which is not measured"
    assert sentences == (() if told is None else (expected,))


def test_a_file_that_cannot_be_read_asks_for_nothing(tmp_path: Path) -> None:
    (tmp_path / "text.gguf").write_text("no model")
    write_empty(tmp_path / "empty.gguf")
    for name in ("missing.gguf", "text.gguf", "empty.gguf", "."):
        assert model_sampling(tmp_path / name) == {}
        assert repeat_penalty(tmp_path / name) is None
    assert unmeasured_sentences(Path()) == ()
