"""Whose llama.cpp library is loaded, and which is refused."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

import pytest

from spectui.llama.facts import features_in
from spectui.llama.layout import BATCH, LAYOUTS, MODEL, Image, Reading
from spectui.llama.search import LIBRARY_VARIABLE, PREBUILT, Origin, Place, places
from tests.support.models import TARGET, write_tiny
from tests.support.rpc import built

PINNED, MOE_CACHE = LAYOUTS
_SOURCE = """
#include <string.h>
struct model {{ char bytes[{model}]; }};
struct context {{ char bytes[{context}]; }};
struct batch {{ char bytes[56]; }};
struct model llama_model_default_params(void) {{ struct model one; memset(&one, 0, sizeof one); return one; }}
struct context llama_context_default_params(void) {{ {body} struct context one; memset(&one, 0, sizeof one); return one; }}
struct batch llama_batch_get_one(int * tokens, int n) {{ struct batch one; memset(&one, 0, sizeof one); return one; }}
"""  # noqa: E501 - C

pytestmark = pytest.mark.slow


def write_library(folder: Path, *, model: int = 80, context: int = 176, body: str = "") -> Path:
    """A libllama that has structures and nothing else."""
    folder.mkdir(parents=True)
    source = folder / "llama.c"
    source.write_text(_SOURCE.format(model=model, context=context, body=body))
    library = folder / "libllama.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    return library


def spectui(*arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "spectui", *map(str, arguments)],
        env={**os.environ, "SPECTUI_ISOLATE": "0", **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


@pytest.fixture(scope="module")
def server_library() -> Path:
    """The library beside the llama-server that is built for tests."""
    server = built("server")
    if server is None:
        pytest.skip("no llama-server is built: run tools/build_llama_server.py")
    return server.parent


@pytest.fixture(scope="module")
def prebuilt() -> Path:
    """The folder of the package that carries a library."""
    found = find_spec(PREBUILT)
    if found is None or found.origin is None:
        pytest.skip(f"{PREBUILT} has no wheel here")
    return Path(found.origin).parent


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tiny") / "target.gguf"
    write_tiny(TARGET, path)
    return path


def test_the_layouts_are_told_apart() -> None:
    def reading(context: Image, model: Image = MODEL) -> Reading:
        return Reading(version=None, commit=None, model=model, context=context, batch=BATCH)

    for layout in LAYOUTS:
        assert reading(layout.context).layout() is layout
    with pytest.raises(LookupError, match="its context structure has 176 bytes"):
        reading(Image(176, ())).layout()
    with pytest.raises(LookupError, match="its model structure has 88 bytes"):
        reading(PINNED.context, Image(88, ())).layout()
    with pytest.raises(LookupError, match="where only a library that was built with"):
        Reading(version=None, commit=None).layout()


BENCH = ("--prompts", "-c", 256, "-n", 16, "--ignore-eos", "--temp", 0, "--json", "-")


def test_a_pair_runs_on_every_library(
    server_library: Path, prebuilt: Path, tiny: Path, tmp_path: Path
) -> None:
    """On those of other layouts, and on one that lies as a single file in a package."""
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text('{"prompt": "tell me of it"}\n')
    links = tmp_path / "versioned"
    links.mkdir()
    for file in server_library.glob("lib*.so.?"):
        (links / file.name).symlink_to(file)
    found = {}
    for folder in (server_library, links, prebuilt):
        done = spectui(
            *("bench", "-m", tiny, "-md", tiny, BENCH[0], prompts, *BENCH[1:], "--quiet"),
            **{LIBRARY_VARIABLE: str(folder)},
        )
        assert done.returncode == 0, done.stderr
        document = json.loads(done.stdout)
        library = document["engine"]["library"]
        assert library["origin"] == LIBRARY_VARIABLE
        assert Path(library["file"]).parent == folder
        assert library["features"]
        [prompt] = document["prompts"]
        found[folder] = prompt["n_drafted"], prompt["n_accepted"]
    assert found[links] == found[server_library]
    assert found[prebuilt] == found[server_library]


@pytest.mark.parametrize(
    ("library", "why"),
    [
        ({}, "its context structure has 176 bytes (no padding), where 160 bytes"),
        ({"body": "__builtin_trap();"}, "ends the process that opens it (SIGILL)"),
        (None, "it has no libllama; name the folder of another"),
    ],
)
def test_a_library_that_does_not_fit_is_refused(
    library: Mapping[str, str] | None, why: str, tiny: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "lib"
    if library is None:
        folder.mkdir()
    else:
        write_library(folder, **library)  # type: ignore[arg-type]
    done = spectui("bench", "-m", tiny, "-md", tiny, **{LIBRARY_VARIABLE: str(folder)})
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith(f"error: {LIBRARY_VARIABLE}={folder} cannot be used: ")
    assert why in done.stderr


def test_the_users_own_comes_before_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(LIBRARY_VARIABLE, raising=False)
    monkeypatch.setattr("spectui.llama.search._named", [])
    monkeypatch.setenv("HOME", str(tmp_path))
    server = write_server_of(write_library(tmp_path / "llama" / "bin"))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "llama-server").symlink_to(server)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    first, *others = places()
    assert first == Place(Origin.SERVER, server.parent, tmp_path / "bin" / "llama-server")
    assert Origin.SERVER not in {one.origin for one in others}
    # What others can write is not loaded.
    server.parent.chmod(0o777)
    assert Origin.SERVER not in {one.origin for one in places()}
    monkeypatch.setenv(LIBRARY_VARIABLE, str(tmp_path))
    assert next(places()) == Place(Origin.VARIABLE, tmp_path)


def write_server_of(library: Path) -> Path:
    """A llama-server beside its library."""
    server = library.with_name("llama-server")
    server.write_text("#!/bin/sh\n")
    server.chmod(0o755)
    return server


def test_doctor_lists_them_with_prices(server_library: Path, tiny: Path, tmp_path: Path) -> None:
    own, theirs = (write_server_of(write_library(tmp_path / name)) for name in ("own", "theirs"))
    path = os.pathsep.join([str(own.parent), os.environ["PATH"]])
    # A library that a command names is not loaded.
    command = f"{LIBRARY_VARIABLE}={theirs.parent} {theirs} -m {tiny} -c 256"
    done = spectui(
        *("doctor", "--libraries", "--json", "-", "--from", command),
        **{LIBRARY_VARIABLE: str(server_library), "PATH": path},
    )
    assert done.returncode == 0, done.stderr
    used, refused, *packages = json.loads(done.stdout)["libraries"]
    assert (used["origin"], used["is_used"]) == (LIBRARY_VARIABLE, True)
    assert used["batch_s"]["1"] > 0
    assert used["batch_s"]["4"] > 0
    assert refused["origin"] == "llama-server"
    assert "its context structure has 176 bytes" in refused["refused"]
    assert not any(one["file"].startswith(str(theirs.parent)) for one in (used, *packages))


def test_features_are_the_processors() -> None:
    text = "CUDA : ARCHS = 890 | USE_GRAPHS = 1 | CPU : SSE3 = 1 | AVX2 = 1 | AVX512 = 0 | "
    assert features_in(f"{text}REPACK = 1 | ") == ("SSE3", "AVX2", "REPACK")
    assert features_in("CPU : NEON = 1 | DOTPROD = 1 | BLAS : ON = 1 | ") == ("NEON", "DOTPROD")
    assert features_in("") == ()
