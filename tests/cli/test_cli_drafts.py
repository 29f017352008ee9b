"""Several drafts of one target: which fit beside it, and those that cannot draft."""

import json
import os
import shutil
from pathlib import Path

import pytest

from spectui.trace.file import read_trace
from tests.support.cli import Spectui
from tests.support.models import CLOSE_DRAFT, MOE, ROUGH_DRAFT, Tiny, TinyPath

pytest_plugins = ["tests.support.fixtures", "tests.support.cli_fixtures"]
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("home")]


@pytest.fixture
def folder(tiny: TinyPath, tmp_path: Path) -> Path:
    """Two drafts that fit, one that does not, and the target."""
    models = {
        "close": CLOSE_DRAFT,
        "rough": ROUGH_DRAFT,
        "misfit": Tiny(n_extra=200),
        "target": MOE,
    }
    path = tmp_path / "drafts"
    path.mkdir()
    for name, recipe in models.items():
        shutil.copy(tiny(recipe), path / f"{name}.gguf")
    return path


@pytest.fixture
def options(folder: Path, prompts: Path) -> list[object]:
    target = folder / "target.gguf"
    return ["-m", target, "-c", 256, "-t", 1, "-n", 8, "--prompts", prompts]


def test_every_draft_is_listed_with_the_reason(
    spectui: Spectui, options: list[object], folder: Path
) -> None:
    drafts = [word for name in ("close", "misfit") for word in ("-md", folder / f"{name}.gguf")]
    few = ("--spec-type", "draft-simple", "--trials", 1)
    assert spectui("tune", *options, *drafts, *few, "--json", "-") == 0, spectui.err
    found = {one["name"]: one["compatible"] for one in json.loads(spectui.out)["drafts"]}
    assert found == {"close": True, "misfit": False}
    assert "left out misfit: " in spectui.err


def test_a_name_that_is_no_text_makes_a_trace_that_can_be_read(
    spectui: Spectui, options: list[object], folder: Path, tmp_path: Path
) -> None:
    odd = (folder / "close.gguf").rename(folder / os.fsdecode(b"cl\xffse.gguf"))
    path, drafts = tmp_path / "x.trace.json.gz", ["-md", odd, "-md", folder / "rough.gguf"]
    assert spectui("trace", *options, *drafts, "--no-costs", "--out", path) == 0, spectui.err
    assert set(read_trace(path).drafts) == {"cl\N{REPLACEMENT CHARACTER}se", "rough"}
    assert spectui("replay", path) == 0, spectui.err


def test_drafts_that_do_not_fit_end_the_run(
    spectui: Spectui, options: list[object], folder: Path
) -> None:
    assert spectui("trace", *options, "-md", folder / "misfit.gguf", "--quiet") == 3
    assert spectui.err.count("\n") == 1
    assert "misfit" in spectui.err
