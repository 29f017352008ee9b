"""``--draft-dir``: every model of a folder is a candidate, or has a reason why not."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import psutil
import pytest

from spectui.cli.drafts import FolderDrafts, free_bytes_of_all, look_into
from spectui.engine.commands import ComparePair
from spectui.engine.driver import Engine
from spectui.errors import BadInputError
from spectui.llama.devices import gpu_memories
from spectui.models.ranking import ModelInspected
from spectui.trace.file import read_trace
from tests.support.cli import Spectui
from tests.support.models import (
    CLOSE_DRAFT,
    EMBEDDING,
    MOE,
    ROUGH_DRAFT,
    Tiny,
    TinyPath,
    write_tokenizer,
)

pytest_plugins = ["tests.support.fixtures", "tests.support.cli_fixtures"]
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("home")]

FEW = ("--spec-type", "draft-simple", "--trials", 1)

PLENTY = 10**9


@pytest.fixture
def folder(tiny: TinyPath, tmp_path: Path) -> Path:
    """Two drafts that fit, three models that do not, and a file that is none; with the target."""
    models = {
        "close": CLOSE_DRAFT,
        "rough": ROUGH_DRAFT,
        "misfit": Tiny(n_extra=200),
        "embedding": EMBEDDING,
        "target": MOE,
    }
    path = tmp_path / "drafts"
    (path / "below").mkdir(parents=True)
    for name, recipe in models.items():
        place = path / "below" if name == "rough" else path
        shutil.copy(tiny(recipe), place / f"{name}.gguf")
    (path / "text.gguf").write_text("no model at all")
    return path


@pytest.fixture
def options(folder: Path, prompts: Path) -> list[object]:
    target = folder / "target.gguf"
    return ["-m", target, "-c", 256, "-t", 1, "-n", 8, "--prompts", prompts, "--draft-dir", folder]


def reasons(found: FolderDrafts) -> dict[str, str | None]:
    return {one.model.name: one.reason for one in found.options}


def test_every_model_but_the_target_is_looked_at(folder: Path) -> None:
    found = look_into([folder], folder / "target.gguf", n_ctx=256, free_bytes=PLENTY)
    told = reasons(found)
    assert set(told) == {"close", "rough", "misfit", "embedding"}
    assert {name for name, reason in told.items() if reason is None} == {"close", "rough"}
    assert "differ in size" in str(told["misfit"])
    assert "embedding model" in str(told["embedding"])
    # Those that can serve come first.
    assert [one.reason is None for one in found.options] == [True, True, False, False]
    assert any("text.gguf is no GGUF file" in reason for reason in found.reasons)


def test_a_link_to_the_target_is_the_target(folder: Path, tmp_path: Path) -> None:
    links = tmp_path / "links"
    links.mkdir()
    (links / "other-name.gguf").symlink_to(folder / "target.gguf")
    with pytest.raises(BadInputError, match="no GGUF model but the target"):
        look_into([links], folder / "target.gguf", n_ctx=256, free_bytes=PLENTY)


def test_what_does_not_fit_beside_the_target_is_refused_with_the_numbers(folder: Path) -> None:
    target = folder / "target.gguf"
    roomy = look_into([folder], target, n_ctx=256, free_bytes=PLENTY)
    needed = {one.model.name: one.memory_bytes for one in roomy.options}["close"]
    assert needed is not None
    assert needed > (folder / "close.gguf").stat().st_size
    # One byte less than target and draft take together.
    own = target.stat().st_size + 256 * _cache_bytes_per_token(needed, folder)
    enough = look_into([folder], target, n_ctx=256, free_bytes=own + needed)
    assert reasons(enough)["close"] is None
    tight = look_into([folder], target, n_ctx=256, free_bytes=own + needed - 1)
    assert str(reasons(tight)["close"]).startswith("would not fit: needs ")
    assert str(reasons(tight)["close"]).endswith(" are free")


def test_a_target_larger_than_memory_is_a_doubt_and_does_not_rule_out_its_drafts(
    folder: Path,
) -> None:
    target = folder / "target.gguf"
    roomy = look_into([folder], target, n_ctx=256, free_bytes=PLENTY)
    assert roomy.doubt is None
    needed = {one.model.name: one.memory_bytes for one in roomy.options}["close"]
    assert needed is not None
    cache = 256 * _cache_bytes_per_token(needed, folder)
    # One byte less than the target takes alone.
    found = look_into([folder], target, n_ctx=256, free_bytes=target.stat().st_size + cache - 1)
    assert reasons(found)["close"] is None
    assert str(found.doubt).startswith("the target takes ")
    assert "read from disk again and again" in str(found.doubt)
    enough = look_into([folder], target, n_ctx=256, free_bytes=cache + needed)
    assert reasons(enough)["close"] is None
    tight = look_into([folder], target, n_ctx=256, free_bytes=cache + needed - 1)
    assert "beside the target's cache" in str(reasons(tight)["close"])
    none = look_into([folder], target, n_ctx=256, free_bytes=cache - 1)
    assert str(none.doubt).startswith("the target's cache takes ")
    assert None not in reasons(none).values()


def test_an_odd_file_does_not_cost_the_others(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Engine.compare

    def compare(engine: Engine, command: ComparePair) -> ModelInspected:
        if command.draft.stem == "rough":
            raise OverflowError("too large")
        return whole(engine, command)

    monkeypatch.setattr(Engine, "compare", compare)
    found = look_into([folder], folder / "target.gguf", n_ctx=256, free_bytes=PLENTY)
    assert reasons(found)["close"] is None
    assert str(reasons(found)["rough"]).startswith("cannot be examined (OverflowError: too large)")


def _cache_bytes_per_token(needed_bytes: int, folder: Path) -> int:
    """Target and draft differ in their experts alone: their caches are alike."""
    return (needed_bytes - (folder / "close.gguf").stat().st_size) // 256


def test_what_is_free_is_at_most_what_there_is() -> None:
    gpus = sum(gpu.total_bytes or 0 for gpu in gpu_memories() if not gpu.in_ram)
    assert 0 < free_bytes_of_all() <= psutil.virtual_memory().total + gpus


def drafts(spectui: Spectui) -> dict[str, dict[str, Any]]:
    return {draft["name"]: draft for draft in json.loads(spectui.out)["drafts"]}


@pytest.fixture
def companions(folder: Path) -> None:
    """A vocabulary alone, a link to it, and a folder that is called as a model is."""
    write_tokenizer(Tiny(), folder / "ggml-vocab-tiny.gguf")
    (folder / "below" / "ggml-vocab-link.gguf").symlink_to(folder / "ggml-vocab-tiny.gguf")
    (folder / "model.gguf").mkdir()


@pytest.mark.usefixtures("companions")
def test_every_model_of_the_folder_is_listed_with_the_reason(
    spectui: Spectui, options: list[object]
) -> None:
    assert spectui("tune", *options, *FEW, "--json", "-") == 0, spectui.err
    found = drafts(spectui)
    assert {name for name, draft in found.items() if draft["compatible"]} == {"close", "rough"}
    assert "differ in size" in found["misfit"]["reason"]
    assert "candidate close: " in spectui.err
    assert "left out misfit: " in spectui.err
    assert "passed over: " in spectui.err
    assert set(found) == {
        *("close", "rough", "misfit", "embedding"),
        *("ggml-vocab-tiny", "model"),
    }
    vocabulary, model = found["ggml-vocab-tiny"], found["model"]
    assert not vocabulary["compatible"]
    assert vocabulary["reason"].startswith("is a bare vocabulary by its name")
    assert vocabulary["memory_bytes"] > 0
    assert (model["compatible"], model["memory_bytes"]) == (False, None)
    assert model["reason"] == "is a folder; models in it count by themselves"
    assert "left out ggml-vocab-tiny: is a bare vocabulary by its name" in spectui.err
    assert "left out model: is a folder" in spectui.err


@pytest.mark.usefixtures("companions")
def test_the_doctor_does_not_stumble_over_them(spectui: Spectui, folder: Path) -> None:
    options = ["-m", folder / "target.gguf", "-c", 256, "-t", 1, "--draft-dir", folder]
    assert spectui("doctor", *options, "--quiet") == 0, spectui.err
    assert "ggml-vocab-tiny" in spectui.out


def test_a_folder_of_vocabularies_has_no_draft(
    spectui: Spectui, options: list[object], tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    write_tokenizer(Tiny(), tmp_path / "empty" / "ggml-vocab-tiny.gguf")
    assert spectui("trace", *options[:-1], tmp_path / "empty") == 3
    assert "ggml-vocab-tiny.gguf is a bare vocabulary by its name" in spectui.err
    assert spectui.err.count("\n") == 1


def test_a_target_without_room_is_said_before_the_run(
    spectui: Spectui,
    options: list[object],
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    size_bytes = (folder / "target.gguf").stat().st_size
    monkeypatch.setattr("spectui.cli.drafts.free_bytes_of_all", lambda: size_bytes)
    assert spectui("trace", *options, "--no-costs", "--out", tmp_path / "x.gz") == 0, spectui.err
    assert "mind that the target takes " in spectui.err
    assert "candidate close: " in spectui.err


def test_a_name_that_is_no_text_makes_a_trace_that_can_be_read(
    spectui: Spectui, options: list[object], folder: Path, tmp_path: Path
) -> None:
    (folder / "close.gguf").rename(folder / os.fsdecode(b"cl\xffse.gguf"))
    path = tmp_path / "x.trace.json.gz"
    assert spectui("trace", *options, "--no-costs", "--out", path) == 0, spectui.err
    assert set(read_trace(path).drafts) == {"cl\N{REPLACEMENT CHARACTER}se", "rough"}
    assert spectui("replay", path) == 0, spectui.err


def test_a_folder_in_which_nothing_fits_says_why_and_leaves_ngrams(
    spectui: Spectui, options: list[object], folder: Path, tmp_path: Path
) -> None:
    (folder / "close.gguf").unlink()
    (folder / "below" / "rough.gguf").unlink()
    path = tmp_path / "x.trace.json.gz"
    assert spectui("trace", *options, "--out", path) == 0
    assert "left out misfit: " in spectui.err
    assert read_trace(path).drafts == {}
    assert spectui("replay", path) == 0
    assert "ngram-simple, n 2" in spectui.out
    assert spectui("replay", path, "--draft-max", 3) == 2
    assert "--draft-max is for draft models, and the trace has none" in spectui.err


def test_drafts_that_were_named_and_do_not_fit_end_the_run(
    spectui: Spectui, options: list[object], folder: Path
) -> None:
    named = ["-md", folder / "misfit.gguf"]
    (folder / "close.gguf").unlink()
    (folder / "below" / "rough.gguf").unlink()
    assert spectui("trace", *options, *named, "--quiet") == 3
    assert spectui.err.startswith("error: none of the 2 drafts can serve (")
    assert spectui.err.count("\n") == 1
    assert "misfit: " in spectui.err


@pytest.mark.parametrize(
    ("name", "reason"),
    [("absent", "no such folder"), ("empty", "no GGUF model"), ("file", "is not a folder")],
)
def test_a_folder_without_models_exits_with_3(
    spectui: Spectui, options: list[object], tmp_path: Path, name: str, reason: str
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    arguments = [*options[:-1], tmp_path / name]
    assert spectui("tune", *arguments) == 3
    assert spectui.err.startswith("error: ")
    assert spectui.err.count("\n") == 1
    assert reason in spectui.err
