"""tools/build_llama_server.py with a pip and a cmake that only pretend."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parent.parent / "tools" / "build_llama_server.py"

FAKE_PIP = """
import os, sys, tarfile
from pathlib import Path

arguments = sys.argv[1:]
with open(os.environ["CALLS"], "a") as calls:
    print("pip", arguments[0], file=calls)
if arguments[0] == "download":
    folder = Path(arguments[arguments.index("--dest") + 1])
    name = arguments[-1].replace("-", "_").replace("==", "-")
    sources = folder / "made" / name / "vendor" / "llama.cpp"
    sources.mkdir(parents=True)
    (sources / "CMakeLists.txt").touch()

    with tarfile.open(folder / f"{name}.tar.gz", "w:gz") as sdist:
        sdist.add(folder / "made" / name, name)
else:
    folder = Path(arguments[arguments.index("--wheel-dir") + 1])
    folder.mkdir()
    (folder / "some.whl").touch()
"""

FAKE_CMAKE = """#!/bin/sh
echo "cmake $1" >> "$CALLS"
case "$1" in
-S) test -f "$2/CMakeLists.txt" && mkdir -p "$4/bin" ;;
--build)
    case "$CMAKE_MANNER" in
    fails) echo "error: out of registers"; exit 2 ;;
    waits) echo "compiling" > "$STARTED"; exec cat "$STARTED" ;;
    *) touch "$2/bin/llama-server" ;;
    esac ;;
esac
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    programs, modules = tmp_path / "bin", tmp_path / "modules"
    programs.mkdir()
    (programs / "cmake").write_text(FAKE_CMAKE)
    (programs / "cmake").chmod(0o755)
    (modules / "pip").mkdir(parents=True)
    (modules / "pip" / "__init__.py").touch()  # without it, the real pip would win
    (modules / "pip" / "__main__.py").write_text(FAKE_PIP)
    (tmp_path / "calls").touch()
    os.mkfifo(tmp_path / "started")
    return {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(modules),
        "PIP_NO_INDEX": "1",  # should the real pip run after all, it fails at once
        "SPECTUI_BUILD_CACHE": str(tmp_path / "cache"),
        "CALLS": str(tmp_path / "calls"),
        "STARTED": str(tmp_path / "started"),
    }


def run_tool(
    environment: dict[str, str], *arguments: str, **more: str
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(TOOL), *arguments]
    return subprocess.run(
        command, env=environment | more, check=False, capture_output=True, text=True
    )


def calls(environment: dict[str, str]) -> list[str]:
    return Path(environment["CALLS"]).read_text().splitlines()


def test_the_server_is_built_once(environment: dict[str, str]) -> None:
    first = run_tool(environment)
    assert (first.returncode, first.stderr.count("\n")) == (0, 1)
    assert Path(first.stdout.strip()).is_file()
    assert calls(environment) == ["pip download", "cmake -S", "cmake --build"]

    again = run_tool(environment)
    assert (again.returncode, again.stdout, again.stderr) == (0, first.stdout, "")
    assert len(calls(environment)) == 3


def test_a_failed_build_names_its_log(environment: dict[str, str], tmp_path: Path) -> None:
    failed = run_tool(environment, CMAKE_MANNER="fails")
    assert (failed.returncode, failed.stdout) == (1, "")
    (log,) = tmp_path.glob("cache/*/server.log")
    assert failed.stderr.splitlines()[-1].endswith(f"exit code 2; its output is in {log}")
    assert "out of registers" in log.read_text()
    assert not list(tmp_path.glob("cache/*/server*/"))


def test_an_interrupted_build_leaves_nothing_that_looks_finished(
    environment: dict[str, str],
) -> None:
    waiting = environment | {"CMAKE_MANNER": "waits"}
    with subprocess.Popen([sys.executable, str(TOOL)], env=waiting, start_new_session=True) as run:
        assert Path(environment["STARTED"]).read_text() == "compiling\n"
        os.killpg(run.pid, signal.SIGKILL)
    assert run_tool(environment, "--no-build").returncode == 1

    retried = run_tool(environment)
    assert Path(retried.stdout.strip()).is_file()
    assert not list(Path(environment["SPECTUI_BUILD_CACHE"]).glob("*/*.partial"))
