"""The stand-in for NVIDIA's library as fixtures. Test modules take them with ``pytest_plugins``."""

import ctypes
from collections.abc import Iterator
from pathlib import Path

import pynvml
import pytest

from tests.support.nvml import StandIn, build


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def nvml(nvml_library: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    """Give this process a driver that knows no GPU yet, for the length of a test."""
    library = ctypes.CDLL(str(nvml_library))
    library.stub_reset()
    monkeypatch.setattr(pynvml, "nvmlLib", library)
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    monkeypatch.setattr(pynvml, "_nvmlLib_refcount", 0)
    yield StandIn(library)
    library.stub_reset()
