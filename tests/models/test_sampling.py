"""A model's own sampling is read as llama-server reads it."""

from pathlib import Path

import gguf
import pytest

from spectui.models.sampling import model_sampling, unmeasured_sampling, unmeasured_sentences
from tests.support.models import add_sampling, write_empty, write_file

DEFAULT = "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature"


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
        ({"penalty_repeat": 1.0, "xtc_probability": 0.0, "mirostat": 0}, None),
        ({"penalty_repeat": 1.05}, "a repeat penalty of 1.05, which is"),
        ({"penalty_repeat": 1.05, "penalty_last_n": 0}, None),
        ({"xtc_probability": 0.5, "xtc_threshold": 0.1}, "an XTC probability of 0.5, which is"),
        ({"xtc_probability": 0.5, "xtc_threshold": 0.6}, None),
        ({"mirostat": 2, "mirostat_tau": 5.0}, "Mirostat 2, which is"),
        ({"sequence": DEFAULT}, None),
        ({"sequence": "top-k;nucleus;Min_P;temp"}, None),
        ({"sequence": "temperature;top_k;top_p;min_p"}, "samplers of its own choice, which is"),
        ({"sequence": "top_k;temperature"}, "samplers of its own choice, which is"),
        (
            {"penalty_repeat": 1.1, "mirostat": 1, "xtc_probability": 0.25},
            "a repeat penalty of 1.1, an XTC probability of 0.25 and Mirostat 1, which are",
        ),
    ],
)
def test_what_it_lacks(tmp_path: Path, values: dict[str, float | str], told: str | None) -> None:
    sentences = unmeasured_sentences(asking(tmp_path, **values))
    assert sentences == (() if told is None else (f"asking.gguf asks for {told} not measured",))


def test_a_file_that_cannot_be_read_asks_for_nothing(tmp_path: Path) -> None:
    (tmp_path / "text.gguf").write_text("no model")
    write_empty(tmp_path / "empty.gguf")
    for name in ("missing.gguf", "text.gguf", "empty.gguf", "."):
        assert model_sampling(tmp_path / name) == {}
        assert unmeasured_sampling(tmp_path / name) == {}
    assert unmeasured_sentences(Path()) == ()
