"""``--draft-dir``: every model of a folder is a candidate, or has a reason why not."""

import json
import os
import shutil
from pathlib import Path

import pytest

from spectui.doctor.drafts import FolderDrafts, look_into
from spectui.errors import BadInputError
from spectui.llama.architectures import inspect_pair
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


def looked(folder: Path, *, free_bytes: int = PLENTY) -> FolderDrafts:
    return look_into([folder], folder / "target.gguf", n_ctx=256, free_bytes=free_bytes)


def reasons(found: FolderDrafts) -> dict[str, str | None]:
    return {one.model.name: one.reason for one in found.options}


def test_a_folder_without_a_draft_says_why(folder: Path, tmp_path: Path) -> None:
    for name in ("linked", "empty"):
        (tmp_path / name).mkdir()
    (tmp_path / "linked" / "other-name.gguf").symlink_to(folder / "target.gguf")
    write_tokenizer(Tiny(), tmp_path / "empty" / "ggml-vocab-tiny.gguf")
    (tmp_path / "file").touch()
    for name, reason in (
        ("linked", "no GGUF model but the target"),
        ("empty", "no GGUF model"),
        ("file", "is not a folder"),
    ):
        with pytest.raises(BadInputError, match=reason):
            look_into([tmp_path / name], folder / "target.gguf", n_ctx=256, free_bytes=PLENTY)


def needed_and_cache_bytes(folder: Path) -> tuple[int, int]:
    """What the close draft takes, and the target's cache, which is as large as that draft's."""
    needed = {one.model.name: one.memory_bytes for one in looked(folder).options}["close"]
    assert needed is not None
    return needed, needed - (folder / "close.gguf").stat().st_size


def test_every_model_but_the_target_is_looked_at(folder: Path) -> None:
    found = looked(folder)
    told = reasons(found)
    assert set(told) == {"close", "rough", "misfit", "embedding"}
    assert {name for name, reason in told.items() if reason is None} == {"close", "rough"}
    assert "differ in size" in str(told["misfit"])
    assert "embedding model" in str(told["embedding"])
    # Those that can serve come first.
    assert [one.reason is None for one in found.options] == [True, True, False, False]
    assert any("text.gguf is no GGUF file" in reason for reason in found.reasons)


def test_what_does_not_fit_beside_the_target_is_refused_with_the_numbers(folder: Path) -> None:
    needed, cache = needed_and_cache_bytes(folder)
    assert cache > 0
    together = (folder / "target.gguf").stat().st_size + cache + needed
    assert reasons(looked(folder, free_bytes=together))["close"] is None
    tight = str(reasons(looked(folder, free_bytes=together - 1))["close"])
    assert tight.startswith("would not fit: needs ")
    assert tight.endswith(" are free")


def test_a_target_larger_than_memory_is_a_doubt_and_does_not_rule_out_its_drafts(
    folder: Path,
) -> None:
    needed, cache = needed_and_cache_bytes(folder)
    assert looked(folder).doubt is None
    found = looked(folder, free_bytes=(folder / "target.gguf").stat().st_size + cache - 1)
    assert reasons(found)["close"] is None
    assert str(found.doubt).startswith("the target takes ")
    assert "read from disk again and again" in str(found.doubt)
    assert reasons(looked(folder, free_bytes=cache + needed))["close"] is None
    tight = looked(folder, free_bytes=cache + needed - 1)
    assert "beside the target's cache" in str(reasons(tight)["close"])
    none = looked(folder, free_bytes=cache - 1)
    assert str(none.doubt).startswith("the target's cache takes ")
    assert None not in reasons(none).values()


def test_an_odd_file_does_not_cost_the_others(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def inspect(target: Path, draft: Path) -> ModelInspected:
        if draft.stem == "rough":
            raise OverflowError("too large")
        return inspect_pair(target, draft)

    monkeypatch.setattr("spectui.doctor.drafts.inspect_pair", inspect)
    found = reasons(looked(folder))
    assert found["close"] is None
    assert str(found["rough"]).startswith("cannot be examined (OverflowError: too large)")


def test_every_model_of_the_folder_is_listed_with_the_reason(
    spectui: Spectui, options: list[object], folder: Path
) -> None:
    write_tokenizer(Tiny(), folder / "ggml-vocab-tiny.gguf")
    few = ("--spec-type", "draft-simple", "--trials", 1)
    assert spectui("tune", *options, *few, "--json", "-") == 0, spectui.err
    found = {one["name"]: one for one in json.loads(spectui.out)["drafts"]}
    assert {name: one["compatible"] for name, one in found.items()} == {
        "close": True,
        "rough": True,
        "misfit": False,
        "embedding": False,
    }
    for said in ("candidate close: ", "left out misfit: ", "passed over: "):
        assert said in spectui.err


def test_a_target_without_room_is_said_before_the_run(
    spectui: Spectui, options: list[object], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size_bytes = (folder / "target.gguf").stat().st_size
    monkeypatch.setattr("spectui.doctor.drafts.free_bytes_of_all", lambda: size_bytes)
    out = folder.with_name("x.gz")
    assert spectui("trace", *options, "--no-costs", "--out", out) == 0, spectui.err
    assert "note: the target takes " in spectui.err
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
    assert "settings replayed on 6 prompts" in spectui.out


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
