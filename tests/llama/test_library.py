"""What works without a llama.cpp library."""

import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from spectui.llama.search import LIBRARY_VARIABLE, PREBUILT
from tests.support.models import TARGET, Tiny, write_tiny
from tests.support.scripted_server import write_server

COMMAND = "llama-server -m target.gguf -fa on -c 256"
REFUSED, UNUSABLE = 2, 3

pytestmark = pytest.mark.slow


class Bare:
    """spectui where llama-cpp-python was installed without a library."""

    def __init__(self, folder: Path) -> None:
        binding = find_spec("llama_cpp")
        assert binding is not None
        assert binding.origin is not None
        without = shutil.ignore_patterns("lib", "__pycache__")
        shutil.copytree(
            Path(binding.origin).parent, folder / "binding" / "llama_cpp", ignore=without
        )
        write_tiny(TARGET, folder / "target.gguf")
        self.folder = folder
        found = os.environ.get("PYTHONPATH", str(Path(__file__).parents[2]))
        # In place of the package that may be installed.
        (folder / "binding" / f"{PREBUILT}.py").touch()
        self.environment = {
            **{name: value for name, value in os.environ.items() if name != LIBRARY_VARIABLE},
            "PYTHONPATH": os.pathsep.join([str(folder / "binding"), found]),
            **{f"XDG_{kind}_HOME": str(folder / kind.lower()) for kind in ("DATA", "CONFIG")},
            "HOME": str(folder),
        }

    def run(self, *arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "spectui", *map(str, arguments)],
            cwd=self.folder,
            env={**self.environment, **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )


@pytest.fixture
def bare(tmp_path: Path) -> Bare:
    return Bare(tmp_path)


def test_commands_that_load_no_model_need_no_library(bare: Bare) -> None:
    for arguments in (("export", "--from", COMMAND), ("presets", "list"), ("studies", "list")):
        done = bare.run(*arguments)
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr
    done = bare.run("lint", COMMAND)
    told = " ".join(done.stdout.split())
    assert done.returncode == 0, done.stderr
    assert "The models were not looked at: no llama.cpp library can be used here" in told
    done = bare.run("trace", "-m", "target.gguf")
    assert done.returncode == REFUSED
    assert done.stderr.startswith("error: no llama.cpp library can be used here")


def test_doctor_says_how_to_get_one(bare: Bare) -> None:
    told = " ".join(bare.run("doctor").stdout.split())
    assert "no llama.cpp library can be used here" in told
    assert "no GPU that this llama.cpp can use" not in told
    assert f"{sys.executable} -m pip install {PREBUILT}" in told


def test_doctor_examines_the_machine_alone(bare: Bare) -> None:
    done = bare.run("doctor", "-m", "target.gguf", "--json", "-")
    assert done.returncode == REFUSED
    assert done.stderr.startswith("error: no llama.cpp library can be used here")
    told = json.loads(done.stdout)
    assert (told["target"], told["machine"]["n_cores"] > 0) == (None, True)


def test_drafts_are_ranked_by_their_headers(bare: Bare) -> None:
    write_tiny(Tiny(n_layers=1), bare.folder / "draft.gguf")
    write_tiny(Tiny(n_layers=1, n_extra=200), bare.folder / "other.gguf")
    done = bare.run("models", "scan", ".", "-m", "target.gguf", "--json", "-")
    assert done.returncode == 0, done.stderr
    fits = {model["name"]: model["reason"] for model in json.loads(done.stdout)["models"]}
    assert fits.keys() == {"draft", "other"}
    assert fits["draft"] is None
    assert "the vocabularies differ in size" in fits["other"]
    (bare.folder / "broken.gguf").write_bytes(b"GGUF")
    done = bare.run("models", "scan", ".", "-m", "broken.gguf")
    assert done.returncode == UNUSABLE
    assert "broken header" in done.stderr


@pytest.mark.parametrize("server_bin", [(), ("--server-bin", "bin/llama-server")])
def test_a_llama_server_measures_in_its_place(bare: Bare, server_bin: tuple[str, ...]) -> None:
    (bare.folder / "bin").mkdir()
    write_server(bare.folder / "bin" / "llama-server")
    path = os.pathsep.join([str(bare.folder / "bin"), os.environ["PATH"]])
    pair = ("-m", "target.gguf", "-md", "target.gguf", "-c", 256, "-n", 24, "--temp", 0)
    options = ("--prompts", "prompts.jsonl", "--ignore-eos", *server_bin)
    (bare.folder / "prompts.jsonl").write_text(
        "".join(f'{{"prompt": "tell me of {n}"}}\n' for n in range(8))
    )
    done = bare.run("bench", *pair, *options, PATH=path if not server_bin else os.environ["PATH"])
    assert done.returncode == 0, done.stderr
    assert ("since no llama.cpp library can be used here" in done.stderr) is not bool(server_bin)
    assert "1.25×" in done.stdout
