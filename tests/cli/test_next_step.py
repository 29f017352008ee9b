"""Each command ends with the next one, which can be copied and runs."""

import shlex
from pathlib import Path

import pytest

from tests.support.cli import Spectui
from tests.support.models import TARGET, TinyPath

pytest_plugins = ["tests.support.fixtures", "tests.support.cli_fixtures"]


def next_words(spectui: Spectui) -> list[str]:
    """The first command of the last lines, without the program's name."""
    lines = spectui.out.splitlines()
    at = max(n for n, line in enumerate(lines) if line.startswith("Next: "))
    program, *words = shlex.split(lines[at + 1])
    assert program == "spectui"
    return words


def test_doctor_names_a_scan_and_then_the_search(
    spectui: Spectui, tiny: TinyPath, pair: list[object]
) -> None:
    assert spectui("doctor") == 0
    assert next_words(spectui) == ["models", "scan"]
    target = str(tiny(TARGET))
    assert spectui("doctor", *pair[:2], "-c", 256) == 0
    assert next_words(spectui) == ["models", "scan", "-m", target]
    assert spectui("doctor", *pair[:4], "-c", 256, "--draft-max", 4) == 0
    words = next_words(spectui)
    assert words == ["tune", *map(str, pair[:4]), "-c", "256"]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("llama-server -m a.gguf -np 1", ["tune", "--from", "llama-server -m a.gguf -np 1"]),
        ("llama-server -m a.gguf --draft-max", None),
        ("llama-server -hf a/b", None),
        ("llama-server -m ''", None),
        ("llama-server -m a.gguf -c 4k", None),
        ("serve.sh", ["tune", "--from", "serve.sh"]),
    ],
)
def test_lint_names_the_search_from_what_it_has_corrected(
    spectui: Spectui,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    words: list[str] | None,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "serve.sh").write_text("llama-server -m a.gguf --draft-max 8\n")
    spectui("lint", command, "--no-models")
    assert ("Next: " in spectui.out) is (words is not None)
    assert words is None or next_words(spectui) == words
