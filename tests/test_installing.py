"""The wheel and the sdist, installed as users do, on every Python that can be had."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path

import pytest

from spectui import __version__
from tests.support.markdown import ROOT, Document, programs
from tools.build_llama_server import BuildError, cache_root, pinned_requirement
from tools.debian_python import interpreter

pytestmark = pytest.mark.ci

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
WITHOUT_LIBRARY = "SKBUILD_WHEEL_CMAKE"
LINT = "llama-server -m a.gguf"
_OWN = ("UV_TOOL", "PIPX_", "PIP_FIND_LINKS", "PYTHON", "VIRTUAL_ENV", "SPECTUI_", "COVERAGE_")


PROGRAMS = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
"""Where uv and pipx are found: beside this Python first."""


def python_of(version: str) -> Path:
    """An interpreter: this machine's, else uv's, else Debian's; without one the test is skipped."""
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    for path in filter(None, (shutil.which(f"python{version}"), sys.executable)):
        # A shim of pyenv's may stand for none.
        told = subprocess.run([path, "-c", code], check=False, capture_output=True, text=True)
        if told.stdout.strip() == version:
            return Path(path)
    if (uv := shutil.which("uv", path=PROGRAMS)) is not None:
        folder = str(cache_root(os.environ) / "uv-pythons")
        environment = {**os.environ, "UV_PYTHON_INSTALL_DIR": folder}
        bring = [uv, "python", "install", "--no-bin", version]
        if subprocess.run(bring, env=environment, check=False, capture_output=True).returncode == 0:
            find = [uv, "python", "find", "--managed-python", version]
            return Path(subprocess.check_output(find, env=environment, text=True).strip())
    try:
        return interpreter(version)
    except (BuildError, OSError) as error:
        pytest.skip(f"no Python {version} here, from uv or from Debian: {error}")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """Wheel and sdist."""
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return {"wheel": wheel, "sdist": sdist}


@pytest.fixture(scope="module")
def binding(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with llama-cpp-python without its library, which each install would build anew."""
    folder = tmp_path_factory.mktemp("binding")
    wheel = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-cache-dir", "--wheel-dir"]
    subprocess.run(
        [*wheel, str(folder), pinned_requirement()],
        env={**_users(), WITHOUT_LIBRARY: "false"},
        check=True,
        capture_output=True,
    )
    return folder


def _users() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(_OWN)}


@pytest.fixture(scope="module")
def caches() -> Iterator[Path]:
    """Caches of uv and pip that are kept, without spectui, of which each run has another one.

    They are apart from the user's own: neither program asks whether a wheel in them was built with
    other variables.
    """
    folder = cache_root(os.environ) / "without-library"
    yield folder
    if (uv := shutil.which("uv", path=PROGRAMS)) is not None:
        clean = [uv, "cache", "clean", "spectui", "--cache-dir", str(folder / "uv")]
        subprocess.run(clean, check=True, capture_output=True)


@pytest.fixture
def environment(tmp_path: Path, binding: Path, caches: Path) -> dict[str, str]:
    """A user's who wants no llama.cpp library."""
    return {
        **_users(),
        "PATH": PROGRAMS,
        WITHOUT_LIBRARY: "false",
        "UV_FIND_LINKS": str(binding),
        "PIP_FIND_LINKS": str(binding),
        "UV_CACHE_DIR": str(caches / "uv"),
        "UV_TOOL_DIR": str(tmp_path / "tools"),
        "UV_TOOL_BIN_DIR": str(tmp_path / "bin"),
        "PIP_CACHE_DIR": str(caches / "pip"),
        "PIPX_HOME": str(tmp_path / "tools"),
        "PIPX_BIN_DIR": str(tmp_path / "bin"),
        "PIPX_MAN_DIR": str(tmp_path / "man"),
        "SPECTUI_HOME": str(tmp_path / "home"),
    }


def program(name: str) -> str:
    found = shutil.which(name, path=PROGRAMS)
    if found is None:
        pytest.skip(f"no {name} here: run pip install {name}")
    return found


def said(environment: Mapping[str, str], *command: str | Path) -> str:
    """What a command prints; its error, if it fails."""
    run = subprocess.run(
        command, cwd=ROOT, env=environment, check=False, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def assert_works(environment: Mapping[str, str], *spectui: str | Path) -> None:
    assert said(environment, *spectui, "--version") == f"spectui, version {__version__}\n"
    assert "\n  tune " in said(environment, *spectui, "--help")
    assert said(environment, *spectui, "lint", LINT).startswith("No problems found.")
    machine = json.loads(said(environment, *spectui, "doctor", "--json", "-"))
    assert machine["schema"] == "spectui.doctor/1"


def pages(folder: Path) -> set[str]:
    return {path.name for path in folder.glob("spectui*.1")}


IN_CI = {(PYTHONS[0], "sdist"), (PYTHONS[-1], "wheel")}


@pytest.mark.parametrize(
    ("version", "artifact"),
    [
        pytest.param(*both, marks=[pytest.mark.long] * (both not in IN_CI))
        for both in product(PYTHONS, ("wheel", "sdist"))
    ],
)
def test_uv_tool_install(
    version: str, artifact: str, built: Mapping[str, Path], environment: dict[str, str]
) -> None:
    uv = program("uv")
    said(environment, uv, "tool", "install", "--python", python_of(version), built[artifact])
    tool = Path(environment["UV_TOOL_DIR"]) / "spectui"
    here = said(environment, tool / "bin" / "python", "-c", "import sys; print(sys.version)")
    assert here.startswith(version)
    assert_works(environment, Path(environment["UV_TOOL_BIN_DIR"]) / "spectui")
    assert pages(tool / "share" / "man" / "man1") == pages(ROOT / "man")


_DOCUMENTED = [
    line
    for page in ("README.md", "docs/quick-start.md")
    for line in Document(ROOT / page).lines
    if WITHOUT_LIBRARY in line and any(words[0] in {"uv", "pipx"} for words in programs(line))
]


@pytest.mark.parametrize("line", [*dict.fromkeys(_DOCUMENTED)])
def test_what_pages_say_installs(line: str, environment: dict[str, str]) -> None:
    for words in programs(line):
        program(words[0])
    said(environment, "bash", "-c", line)
    assert_works(environment, Path(environment["PIPX_BIN_DIR"]) / "spectui")
