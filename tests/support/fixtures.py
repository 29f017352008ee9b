"""Models as fixtures. Test modules take them with ``pytest_plugins``."""

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from spectui.demo.build import smollm2_path
from tests.support.kept_planner import kept_pids
from tests.support.models import Tiny, TinyPath, write_tiny
from tests.support.rpc import RpcBuild, built, rpc_backend, rpc_build


@pytest.fixture(scope="session")
def llama_server_binary() -> Path:
    """Find the real llama-server; in CI it must be there, elsewhere its tests are skipped."""
    found = built("server")
    if found is None:
        pytest.skip("llama-server is not built yet: run `python tools/build_llama_server.py`")
    return found


@pytest.fixture
def no_process_is_left() -> Iterator[None]:
    before = psutil.Process().children(recursive=True)
    yield
    left = psutil.Process().children(recursive=True)
    kept = kept_pids()
    assert [one for one in left if one not in before and one.pid not in kept] == []


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> TinyPath:
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


@pytest.fixture(scope="module")
def rpc() -> Iterator[RpcBuild]:
    """What was built for devices of RPC servers, with the backend in every child process."""
    build = rpc_build()
    if build is None:
        pytest.skip("no RPC server: run `python tools/build_llama_server.py rpc`")
    with rpc_backend(build):
        yield build
