"""Models as fixtures. Test modules take them with ``pytest_plugins``."""

from pathlib import Path

import pytest

from spectui.demo.source import smollm2_path
from tests.support.models import Tiny, TinyPath, write_tiny


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> TinyPath:
    """Build tiny models on demand, each once per session."""
    folder = tmp_path_factory.mktemp("tiny")
    built: dict[Tiny, Path] = {}

    def build(recipe: Tiny) -> Path:
        if recipe not in built:
            path = folder / f"tiny-{len(built)}.gguf"
            write_tiny(recipe, path)
            built[recipe] = path
        return built[recipe]

    return build


@pytest.fixture(scope="session")
def smollm2() -> Path:
    return smollm2_path()
