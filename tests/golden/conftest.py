"""The golden net: texts that a change must not alter unnoticed.

Each test owns a folder of ``expected/`` and compares all of it at once. After an intended change,
``pytest tests/golden --renew`` writes the files anew, and ``git diff tests/golden`` shows a person
what changed.
"""

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from difflib import unified_diff
from pathlib import Path

import pytest

from spectui.llama.library import llama_cpp_version
from tests.golden.support import MODELS, Place, furnished, install_machine
from tests.support.kept_planner import end_planners, keeping_planners
from tests.support.models import write_tiny

_OF_LLAMA_CPP = "0.5.0-dev"
"""What llama-cpp-python is pinned to, and what tools/build_llama_server.py builds."""
EXPECTED = Path(__file__).parent / "expected"

Golden = Callable[[str, Mapping[str, str]], None]
"""Compares a folder, by name below ``expected/``, with texts by file name."""


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Compare texts with the files of a folder; extra and missing files differ as well."""

    def compare(folder: str, texts: Mapping[str, str]) -> None:
        place = EXPECTED / folder
        held = {str(path.relative_to(place)): path for path in place.rglob("*") if path.is_file()}
        if request.config.getoption("--renew"):
            for name in held.keys() - texts.keys():
                held[name].unlink()
            for name, text in texts.items():
                (place / name).parent.mkdir(parents=True, exist_ok=True)
                (place / name).write_text(text, "utf-8")
            return
        expected = {name: path.read_text("utf-8") for name, path in held.items()}
        names = sorted(expected.keys() | texts.keys())
        diffs = (_diff(name, expected.get(name, ""), texts.get(name, "")) for name in names)
        if different := "\n".join(filter(None, diffs)):
            if (found := llama_cpp_version()) != _OF_LLAMA_CPP and "CI" not in os.environ:
                # Sizes of buffers, and names that hold the version, change with it.
                pytest.skip(f"{folder} is of llama.cpp {_OF_LLAMA_CPP}, and this is {found}")
            pytest.fail(
                f"{folder} differs; if intended: pytest tests/golden --renew\n{different}",
                pytrace=False,
            )

    return compare


def _diff(name: str, expected: str, found: str) -> str:
    lines = unified_diff(
        expected.splitlines(), found.splitlines(), f"expected/{name}", f"found/{name}", lineterm=""
    )
    return "\n".join(lines)


@pytest.fixture(scope="session")
def golden_models() -> Iterator[Path]:
    """Tiny models, built once, on the disk of ``furnished``."""
    with tempfile.TemporaryDirectory() as name:
        for stem, recipe in MODELS.items():
            write_tiny(recipe, Path(name) / f"{stem}.gguf")
        yield Path(name)
    end_planners()


@pytest.fixture
def place(
    golden_models: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Place]:
    """A folder with models and prompts, in which commands run in virtual time."""
    install_machine(monkeypatch)
    with furnished(golden_models) as folder, keeping_planners():
        monkeypatch.chdir(folder)
        monkeypatch.setenv("SPECTUI_HOME", str(folder / "home"))
        yield Place(folder, monkeypatch, capsys)
