"""Whose llama.cpp library is loaded, and which is refused."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from spectui.errors import MissingLibraryError
from spectui.llama.facts import features_in
from spectui.llama.layout import BATCH, CONTEXT, MODEL, WITH_MOE_CACHE, Reading
from spectui.llama.library import Library, examine, install_command, library
from spectui.llama.search import LIBRARY_VARIABLE, PREBUILT, Origin, Place, places
from tests.support.models import MOE, TARGET, TinyPath

LARGER = "00" * 176
# A field more before n_outputs_max, and one less where deprecated ones end.
SHIFTED = f"{CONTEXT[:40]}00000000{CONTEXT[40:168]}{CONTEXT[176:]}"
_SOURCE = """
static char * put(char * to, const char * bytes, const char * fields, int n) {{
    for (int i = 0; i < n; i++) if (fields[i] == '1') to[i] = bytes[i];
    return to;
}}
{functions}
{more}
"""
# A structure is returned through a hidden first argument.
_FUNCTION = """
char * {name}(char * to) {{
    static const char bytes[] = {{ {bytes} }};
    return put(to, bytes, "{fields}", sizeof bytes);
}}
"""
_WITH_BACKENDS = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>
static void * registered[2];
static size_t n_registered;
size_t ggml_backend_reg_count(void) {{ return n_registered; }}
void * ggml_backend_reg_get(size_t at) {{ return registered[at]; }}
void * ggml_backend_dev_by_type(int type) {{ return type == 0 ? registered[0] : NULL; }}
void * ggml_backend_load(const char * path) {{
    void * handle = dlopen(path, RTLD_NOW);
    return registered[n_registered++] = ((void * (*)(void)) dlsym(handle, "ggml_backend_init"))();
}}
void ggml_backend_load_all_from_path(const char * folder) {{
    char path[4096];
    snprintf(path, sizeof path, "%s/libggml-cpu.so", folder);
    if (!access(path, R_OK)) ggml_backend_load(path);
}}
void ggml_backend_load_all(void) {{
    ggml_backend_load_all_from_path("{compiled_in}");
    if (!n_registered) ggml_backend_load_all_from_path(".");
}}
void llama_backend_init(void) {{ usleep(100000); if (!n_registered) ggml_backend_load_all(); }}
size_t llama_max_devices(void) {{ return 1; }}
void llama_log_set(void * callback, void * data) {{ }}
void ggml_set_abort_callback(void * callback) {{ }}
"""
_BACKEND = """
#include <stdio.h>
static const char * name(void) {{ return "CPU"; }}
static struct {{ int version; const char * (*name)(void); }} backend = {{ 2, name }};
void * ggml_backend_init(void) {{ return &backend; }}
__attribute__((constructor)) static void opened(void) {{ fclose(fopen("{mark}", "w")); }}
"""

pytest_plugins = ["tests.support.fixtures"]
pytestmark = pytest.mark.slow


def write_library(folder: Path, *linked: Path, context: str = CONTEXT, more: str = "") -> Path:
    """A libllama that has structures, and what more C has."""
    images = {
        "llama_model_default_params": MODEL,
        "llama_context_default_params": context,
        "llama_batch_get_one": BATCH,
    }
    functions = ""
    for name, image in images.items():
        content = [image[at : at + 2] for at in range(0, len(image), 2)]
        fields = "".join("01"[byte != "--"] for byte in content)
        listed = ", ".join("0" if byte == "--" else f"0x{byte}" for byte in content)
        functions += _FUNCTION.format(name=name, bytes=listed, fields=fields)
    source = _SOURCE.format(functions=functions, more=more)
    return compiled(folder / "libllama.so", source, *linked)


def write_backend(folder: Path) -> Path:
    """A backend for the CPU; returns the file that is there once it was opened."""
    mark = folder / "opened"
    compiled(folder / "libggml-cpu.so", _BACKEND.format(mark=mark))
    return mark


def compiled(library: Path, source: str, *linked: Path) -> Path:
    library.parent.mkdir(parents=True, exist_ok=True)
    linking = f"-Wl,-soname,{library.name},-rpath,$ORIGIN,--no-as-needed"
    command = ["cc", "-w", "-shared", "-fPIC", linking, "-x", "c", "-", "-x", "none"]
    command += [*map(str, linked), "-o", str(library)]
    subprocess.run(command, input=source, text=True, check=True)
    return library


def spectui(*arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "spectui", *map(str, arguments)],
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


@pytest.fixture(scope="module")
def server_library(llama_server_binary: Path) -> Path:
    """The library beside the llama-server that is built for tests."""
    return llama_server_binary.parent


@pytest.fixture(scope="module")
def prebuilt() -> Path:
    """The folder of the package that carries a library."""
    found = find_spec(PREBUILT)
    if found is None or found.origin is None:
        pytest.skip(f"{PREBUILT} has no wheel here")
    return Path(found.origin).parent


@pytest.fixture
def target(tiny: TinyPath) -> Path:
    return tiny(TARGET)


def test_the_layouts_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    def reading(context: str, model: str = MODEL) -> Reading:
        return Reading(version=None, commit=None, model=model, context=context, batch=BATCH)

    for context, has_moe_cache in ((CONTEXT, False), (WITH_MOE_CACHE, True)):
        reading(context).check()
        assert reading(context).has_moe_cache is has_moe_cache
    with pytest.raises(LookupError, match="its context structure has 176 bytes"):
        reading(LARGER).check()
    with pytest.raises(LookupError, match="its model structure has 176 bytes"):
        reading(CONTEXT, LARGER).check()
    with pytest.raises(LookupError, match="where only a library that was built with"):
        Reading(version=None, commit=None).check()
    # Whoever has another processor is advised to compile.
    monkeypatch.setattr("spectui.llama.layout.IS_READABLE", False)
    monkeypatch.setattr("spectui.llama.library.places", lambda: iter(()))
    with pytest.raises(MissingLibraryError) as refused:
        library.__wrapped__()
    assert f"compile one with {install_command()}, or measure through" in str(refused.value)
    assert PREBUILT not in str(refused.value)
    text = "CUDA : ARCHS = 890 | USE_GRAPHS = 1 | CPU : SSE3 = 1 | AVX2 = 1 | AVX512 = 0 | "
    assert features_in(f"{text}REPACK = 1 | BLAS : ON = 1 | ") == ("SSE3", "AVX2", "REPACK")
    assert features_in("") == ()


BENCH = ("--prompts", "-c", 256, "-n", 16, "--ignore-eos", "--temp", 0, "--json", "-")


def test_a_pair_runs_on_every_library(
    server_library: Path, prebuilt: Path, target: Path, tmp_path: Path
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
            *("bench", "-m", target, "-md", target, BENCH[0], prompts, *BENCH[1:], "--quiet"),
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


_WITH_CACHE = """
import sys
from pathlib import Path
from spectui.errors import UsageError
from spectui.llama import pair
from spectui.llama.model import Model
from spectui.options.setup import ContextOptions, ModelOptions
context = ContextOptions(ctx_size=64, threads=1, moe_cache_mib=3)
with Model(ModelOptions(path=Path(sys.argv[1]))) as model:
    try:
        pair.TargetContext(model, context, max_draft=1)
    except UsageError as error:
        print(error)
"""


def test_a_cache_of_experts_reaches_the_library_that_has_one(
    server_library: Path, prebuilt: Path, tiny: TinyPath
) -> None:
    told = {
        folder: subprocess.run(
            [sys.executable, "-c", _WITH_CACHE, str(tiny(MOE))],
            env={**os.environ, LIBRARY_VARIABLE: str(folder)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for folder in (server_library, prebuilt)
    }
    assert "has no cache of experts; leave it out, or name" in told[server_library]
    # The library's own word, since the field is set.
    assert "MoE cache requires a GPU backend" in told[prebuilt]
    assert "change --moe-cache-mib" in told[prebuilt]


@pytest.mark.parametrize(
    ("library", "why"),
    [
        ({"context": LARGER}, "its context structure has 176 bytes, of no known layout"),
        ({"context": SHIFTED}, "its context structure has 160 bytes, of no known layout"),
        ({}, "libllama.so has no backend for this CPU, nor is there one (libggml-cpu*.so) in "),
        ({"more": "__builtin_trap();"}, "the process that opens it (SIGILL)"),
        ({"more": "exit(0);"}, "the process that opens it ends without a word"),
        ({"more": 'puts("found 1 device"); fflush(0);'}, "libllama.so has no backend for this CPU"),
        (None, "it has no libllama; name the folder of another"),
    ],
)
def test_a_library_that_does_not_fit_is_refused(
    library: Mapping[str, Any] | None, why: str, target: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "lib"
    folder.mkdir()
    if library is not None:
        before = "__attribute__((constructor)) static void opened(void)"
        opened = {
            name: f"{before} {{ {does} }}" for name, does in library.items() if name == "more"
        }
        write_library(folder, **{**library, **opened})
    done = spectui("bench", "-m", target, "-md", target, **{LIBRARY_VARIABLE: str(folder)})
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith(f"error: {LIBRARY_VARIABLE}={folder} cannot be used: ")
    assert why in done.stderr


ENSURE_BACKEND = """
from concurrent.futures import ThreadPoolExecutor
from spectui.llama.library import library, native
from spectui.llama.native import ensure_backend
with ThreadPoolExecutor(2) as threads:
    for ended in [threads.submit(ensure_backend) for _ in range(2)]:
        ended.result()
print(native().ggml_backend_reg_count(), *library().reading.backends)
"""


@pytest.mark.parametrize("where", ["lib", "bin", "compiled-in"])
def test_backends_are_loaded_from_where_llama_cpp_has_them(where: str, tmp_path: Path) -> None:
    """Beside the library, beside the server, or where it was built to look: not from anywhere."""
    more = _WITH_BACKENDS.format(compiled_in=tmp_path / "compiled-in")
    write_library(tmp_path / "lib", more=more)
    write_server_of(tmp_path / "bin" / "libllama.so")
    current = tmp_path / "current"
    foreign = write_backend(current)
    write_backend(tmp_path / where)
    environment = {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    environment["PYTHONPATH"] = str(Path(__file__).parents[2])
    environment.pop(LIBRARY_VARIABLE, None)
    done = subprocess.run(
        [sys.executable, "-c", ENSURE_BACKEND],
        env=environment,
        cwd=current,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["1", str(tmp_path / where / "libggml-cpu.so")]
    assert (tmp_path / where / "opened").exists()
    assert not foreign.exists()


def test_parts_come_from_the_librarys_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever folder of another llama.cpp ``LD_LIBRARY_PATH`` names."""
    own, _other = (
        compiled(
            tmp_path / name / "libggml-base.so",
            f'const char * llama_version(void) {{ return "{name}"; }}',
        )
        for name in ("own", "other")
    )
    write_library(own.parent, own, more="void ggml_backend_cpu_reg(void) {}")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path / "other"))
    found = examine(Place(Origin.VARIABLE, own.parent))
    assert isinstance(found, Library)
    assert found.reading.version == "own"


def test_the_users_own_comes_before_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(LIBRARY_VARIABLE, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    server = write_server_of(write_library(tmp_path / "llama" / "bin"))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "llama-server").symlink_to(server)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    first, *others = places()
    assert first == Place(Origin.SERVER, server.parent, tmp_path / "bin" / "llama-server")
    assert Origin.SERVER not in {one.origin for one in others}
    # What others can write is not loaded, nor anything beside it.
    backend = server.with_name("libggml-cpu.so")
    backend.touch()
    for path in (server.parent, server.with_name("libllama.so"), backend):
        before = path.stat().st_mode
        path.chmod(0o777)
        assert Origin.SERVER not in {one.origin for one in places()}
        path.chmod(before)
    assert next(places()) == first
    monkeypatch.setenv(LIBRARY_VARIABLE, str(tmp_path))
    assert next(places()) == Place(Origin.VARIABLE, tmp_path)


def write_server_of(library: Path) -> Path:
    """A llama-server beside its library."""
    server = library.with_name("llama-server")
    server.parent.mkdir(exist_ok=True)
    server.write_text("#!/bin/sh\n")
    server.chmod(0o755)
    return server


def test_doctor_says_why_a_library_is_passed_over(target: Path, tmp_path: Path) -> None:
    own, theirs = (
        write_server_of(write_library(tmp_path / name, context=LARGER))
        for name in ("own", "theirs")
    )
    path = os.pathsep.join([str(own.parent), os.environ["PATH"]])
    # A library that a command names is not loaded.
    command = f"{LIBRARY_VARIABLE}={theirs.parent} {theirs} -m {target} -c 256"
    done = spectui("doctor", "--from", command, **{LIBRARY_VARIABLE: "", "PATH": path})
    told = " ".join(done.stdout.split())
    assert f"{own.parent} cannot be used: " in told
    assert "its context structure has 176 bytes" in told
    assert str(theirs.parent) not in told
