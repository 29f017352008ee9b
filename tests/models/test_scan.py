"""``spectui models scan``: what lies on a disk, and which of it may draft for a target."""

import json
import shlex
import shutil
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from spectui.llama.library import C
from spectui.models.gguf import read_gguf
from tests.support.architectures import write_lfm2
from tests.support.cli import Spectui
from tests.support.models import (
    CLOSE_DRAFT,
    EMBEDDING,
    MOE,
    ROUGH_DRAFT,
    TARGET,
    Tiny,
    TinyPath,
    write_empty,
)

pytest_plugins = ["tests.support.fixtures", "tests.support.cli_fixtures"]

LONG = "Some-Very-Long-Family-Name-Instruct-2507-0.6B-Q8_0"
BIG = Tiny(n_experts=8)


@pytest.fixture
def folder(tiny: TinyPath, tmp_path: Path) -> Path:
    """Two drafts, four models that cannot serve, and a file that is none; with the target."""
    models = {
        "target-1B-Q4_K_M": MOE,
        LONG: CLOSE_DRAFT,
        "below/rough": ROUGH_DRAFT,
        "misfit": Tiny(n_extra=200),
        "embedding": EMBEDDING,
        "larger": BIG,
    }
    path = tmp_path / "models"
    (path / "below").mkdir(parents=True)
    for name, recipe in models.items():
        shutil.copy(tiny(recipe), path / f"{name}.gguf")
    whole = (path / "misfit.gguf").read_bytes()
    (path / "cut.gguf").write_bytes(whole[: len(whole) // 2])
    shutil.copy(tiny(TARGET), path / "split-00002-of-00003.gguf")
    (path / "text.gguf").write_text("no model at all")
    return path


def document(spectui: Spectui, *arguments: object) -> dict[str, Any]:
    assert spectui("models", "scan", *arguments, "--json", "-", "--quiet") == 0, spectui.err
    assert spectui.err == ""
    found: dict[str, Any] = json.loads(spectui.out)
    assert found["schema"] == "spectui.models/1"
    return found


def by_name(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {model["name"]: model for model in found["models"]}


def read_bytes(path: Path) -> int:
    """Weights that a token reads; half of the experts, of those that have any."""
    tensors = {tensor.name: tensor.size_bytes for tensor in read_gguf(path).tensors}
    experts = sum(size for name, size in tensors.items() if "_exps" in name)
    return sum(tensors.values()) - tensors["token_embd.weight"] - experts // 2


def test_damaged_files_are_rows_with_a_reason(
    spectui: Spectui, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_arguments: object) -> None:
        pytest.fail("a model was opened")

    # No vocabulary is loaded for a list.
    monkeypatch.setattr(C, "llama_model_load_from_file", refuse)
    write_empty(folder / "empty.gguf")
    write_lfm2(Tiny(), folder / "hybrid.gguf")
    found = document(spectui, folder)
    models = by_name(found)
    unusable = {name for name, model in models.items() if model["reason"]}
    assert unusable == {"cut", "split", "embedding", "empty"}
    assert len(models) == 10
    assert "is smaller than its weights; download it again" in models["cut"]["reason"]
    assert "of its 3 files 2 cannot be found" in models["split"]["reason"]
    assert "cannot be loaded" in models["empty"]["reason"]
    assert models["split"]["facts_reason"] == f"it was not read: {models['split']['reason']}"
    assert models["embedding"]["facts"] is not None
    assert found["passed_over"] == [f"{folder}/text.gguf is no GGUF file; download it again"]
    hybrid = models["hybrid"]
    assert hybrid["facts"]["kv_bytes_per_token"] is hybrid["memory_bytes"] is None
    reason = "its layers differ, or it has no attention"
    assert hybrid["facts"]["kv_bytes_per_token_reason"] == reason


def test_drafts_are_ranked_for_a_target(spectui: Spectui, folder: Path) -> None:
    target = folder / "target-1B-Q4_K_M.gguf"
    found = document(spectui, folder, "-m", target, "-c", 256)
    models = by_name(found)
    assert "target-1B-Q4_K_M" not in models
    # Equally large, so by their paths; what does not fit comes last.
    fits = [model["name"] for model in found["models"] if model["reason"] is None]
    assert fits == [model["name"] for model in found["models"][:2]] == [LONG, "rough"]
    assert "differ in size" in models["misfit"]["reason"]
    assert "embedding model" in models["embedding"]["reason"]
    assert models["larger"]["reason"] == "is larger than the target"
    # Of its four experts the target reads two per token.
    share = read_bytes(folder / "below" / "rough.gguf") / read_bytes(target)
    assert models["rough"]["read_share_of_target"] == share
    assert share > models["rough"]["size_bytes"] / target.stat().st_size
    assert models["larger"]["read_share_of_target"] is None
    reason = "it was not read: is larger than the target"
    assert models["larger"]["read_share_of_target_reason"] == reason
    assert models["rough"]["memory_bytes"] == models["rough"]["size_bytes"] + 256 * 256
    assert found["target"]["path"] == str(target)
    first = found["models"][0]["path"]
    assert shlex.split(found["command"]) == [
        *("spectui", "tune", "-m", str(target), "-md", first, "-c", "256")
    ]


def test_links_count_once_and_copies_have_distinct_names(
    spectui: Spectui, tiny: TinyPath, tmp_path: Path
) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        shutil.copy(tiny(TARGET), tmp_path / name / "same.gguf")
    (tmp_path / "b" / "link.gguf").symlink_to(tmp_path / "a" / "same.gguf")
    found = document(spectui, tmp_path / "a", tmp_path / "b", tmp_path)
    paths = [str(tmp_path / name / "same.gguf") for name in ("a", "b")]
    assert [model["path"] for model in found["models"]] == paths
    assert spectui("models", "scan", tmp_path) == 0
    assert "same.gguf" in spectui.out


def test_nothing_but_the_command_is_wider_than_the_terminal(
    spectui: Spectui, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = ["-m", folder / "target-1B-Q4_K_M.gguf"]
    for width, ranked in product((80, 120), ([], target)):
        monkeypatch.setenv("COLUMNS", str(width))
        assert spectui("models", "scan", folder, *ranked) == 0
        lines = spectui.out.splitlines()
        # A command is never broken.
        told = [
            line
            for line in lines
            if not line.strip().startswith("spectui tune ") and " " in line.strip()
        ]
        assert [one for one in told if cell_len(one) > width] == []
        assert width == 80 or any(line.startswith(f"{LONG} ") for line in lines)
        assert "arch" in spectui.out
        assert any(line.startswith("  spectui tune -m ") for line in lines) == bool(ranked)


def test_no_model_is_no_failure(spectui: Spectui, tiny: TinyPath, tmp_path: Path) -> None:
    assert spectui("models", "scan", tmp_path) == 0
    assert spectui.out.startswith("No GGUF model was found in ")
    assert document(spectui, tmp_path)["models"] == []
    (tmp_path / "link.gguf").symlink_to(tiny(MOE))
    assert spectui("models", "scan", tmp_path, "-m", tiny(MOE)) == 0
    told = " ".join(spectui.out.split())
    assert told.startswith("No GGUF model but the target was found in ")
    found = document(spectui, tmp_path, "-m", tiny(MOE))
    assert found["command_reason"] == "no model fits the target"


def test_what_is_not_there_or_cannot_be_used_exits_with_3(
    spectui: Spectui, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    for arguments, reason in (
        (["absent"], "absent: no such folder; give a folder of GGUF models"),
        (["text.gguf"], "text.gguf is no folder; give"),
        ([".", "-m", "absent.gguf"], "absent.gguf: no such file"),
        ([".", "-m", "text.gguf"], "text.gguf is not a GGUF file"),
        ([".", "-m", "embedding.gguf"], "embedding.gguf is an embedding model"),
        ([".", "-m", "cut.gguf"], "cut.gguf is smaller than its weights"),
    ):
        assert spectui("models", "scan", *arguments, "--quiet") == 3
        assert spectui.err.startswith(f"error: {reason}")
        assert spectui.err.count("\n") == 1
        assert spectui.out == ""


def test_a_model_is_not_replaced_by_the_result(spectui: Spectui, folder: Path) -> None:
    target = folder / "target-1B-Q4_K_M.gguf"
    for name in ("misfit.gguf", "below/rough.gguf", target.name):
        before = (folder / name).read_bytes()
        assert spectui("models", "scan", folder, "-m", target, "--json", folder / name) == 3
        assert spectui.err.endswith("give --json another file\n")
        assert spectui.out == ""
        assert (folder / name).read_bytes() == before


def test_without_a_folder_the_usual_ones_and_the_users_own_are_searched(
    spectui: Spectui, home: Path, tiny: TinyPath, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("HOME", "XDG_CACHE_HOME", "LLAMA_CACHE", "HF_HUB_CACHE"):
        monkeypatch.setenv(variable, str(tmp_path / "nowhere"))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    (tmp_path / "own").mkdir()
    shutil.copy(tiny(TARGET), tmp_path / "own" / "mine.gguf")
    (home / "config").mkdir(parents=True)
    unknown = "~nobody-of-that-name/models"
    own = home / "config" / "config.toml"
    own.write_text(f'model_folders = ["{tmp_path}/own", "{unknown}"]')
    (home / "cache").mkdir()
    shutil.copy(tiny(MOE), home / "cache" / "built.gguf")
    found = document(spectui)
    assert list(by_name(found)) == ["mine", "built"]
    assert found["passed_over"] == [f"{unknown} cannot be read (No such file or directory)"]


def test_what_was_passed_over_does_not_fill_the_screen(spectui: Spectui, tmp_path: Path) -> None:
    for n_files in (10, 13):
        for index in range(n_files):
            (tmp_path / f"{index:02}.gguf").write_text("no model")
        assert spectui("models", "scan", tmp_path) == 0
        assert "09.gguf is no GGUF file" in " ".join(spectui.out.split())
        assert "10.gguf" not in spectui.out
        assert ("and 3 more; --json names all" in spectui.out) is (n_files == 13)
    assert len(document(spectui, tmp_path)["passed_over"]) == 13
