"""Models are found wherever they lie, each once; drafts are ranked the same however they came."""

import os
import random
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectui.gguf_names import is_part_of_model
from spectui.llama.architectures import inspect_header
from spectui.models import header
from spectui.models.facts import ModelFacts
from spectui.models.files import MAX_DEPTH, FoundModel, Scan, usual_folders
from spectui.models.ranking import GOOD_SHARE, DraftOption, ModelInspected, assess, rank, read_share
from spectui.paths import demo_folder
from spectui.tui.picker.lists import label_of
from tests.support.models import TARGET, write_file, write_tiny

NOBODY = 65_534
GB = 10**9
N_CTX = 4096


def put(path: Path, size: int = 16) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"GGUF".ljust(size, b"\0"))
    return path


def scan(*folders: Path) -> tuple[list[FoundModel], list[str]]:
    search = Scan(folders)
    return list(search), search.reasons


def names(*folders: Path) -> list[str]:
    return [model.name for model in scan(*folders)[0]]


class TestFinding:
    def test_a_real_model_is_found_with_its_size(self, tmp_path: Path) -> None:
        path = tmp_path / "Tiny-1M-F32.gguf"
        write_tiny(TARGET, path)
        (model,), reasons = scan(tmp_path)
        assert model == FoundModel(path=path, name="Tiny-1M-F32", size_bytes=path.stat().st_size)
        assert reasons == []

    @pytest.mark.parametrize(
        ("files", "found"),
        [
            # Folder by folder, in the order of names.
            (("b/2.gguf", "b/1.gguf", "a/c/4.gguf", "a/3.gguf", "0.gguf"), "03412"),
            (("a.gguf", "a.GGUF"), "aa"),
            ((f"{'x/' * MAX_DEPTH}i.gguf", f"{'x/' * MAX_DEPTH}x/o.gguf"), "i"),
            ((".cache/a.gguf",), ""),
        ],
    )
    def test_which_models_are_found_in_which_order(
        self, tmp_path: Path, files: tuple[str, ...], found: str
    ) -> None:
        for name in files:
            put(tmp_path / name)
        assert names(tmp_path) == list(found)
        assert names(tmp_path / ".cache") == (["a"] if files[0].startswith(".") else [])

    @pytest.mark.parametrize("is_cancelled", [False, True])
    def test_a_search_tells_what_it_finds_at_once_and_ends_at_the_next_folder(
        self, tmp_path: Path, *, is_cancelled: bool
    ) -> None:
        put(tmp_path / "a" / "first.gguf")
        (tmp_path / "b").mkdir()
        cancelled = threading.Event()
        found = iter(Scan((tmp_path,), cancelled=cancelled.is_set))
        assert next(found).name == "first"
        put(tmp_path / "b" / "written meanwhile.gguf")
        if is_cancelled:
            cancelled.set()
        assert [one.name for one in found] == ["written meanwhile"] * (not is_cancelled)

    @pytest.mark.parametrize(
        ("names", "are_models"),
        [
            (("mmproj-F16", "Qwen2-VL-mmproj-f16", "imatrix", "Qwen3.imatrix"), False),
            (("ggml-vocab-bert", "a-LoRA"), False),
            (("Llama-lora-merged-7B", "Q4-imatrix", "vocabulist", "a"), True),
        ],
    )
    def test_companions_of_models_are_none(
        self, tmp_path: Path, names: tuple[str, ...], *, are_models: bool
    ) -> None:
        for name in names:
            assert is_part_of_model(f"{name}.gguf") is are_models
            put(tmp_path / f"{name}.gguf")
        found, reasons = scan(tmp_path)
        assert sorted(model.name for model in found) == sorted(names) * are_models
        assert reasons == []


def test_shards_are_one_model_with_the_sum_of_their_sizes(tmp_path: Path) -> None:
    for index, size in ((1, 100), (2, 50), (3, 17)):
        put(tmp_path / f"Big-{index:05}-of-00003.gguf", size)
    put(tmp_path / "Big.gguf")
    first = tmp_path / "Big-00001-of-00003.gguf"
    whole, single = scan(tmp_path)[0][::-1]
    assert whole == FoundModel(path=first, name="Big", size_bytes=167, n_shards=3)
    assert single.n_shards == 1
    # Missing ones are named, even the first; one beyond the last is a model of its own.
    first.rename(tmp_path / "Odd-00004-of-00003.gguf")
    (tmp_path / "Big-00003-of-00003.gguf").unlink()
    _single, model, odd = scan(tmp_path)[0]
    assert (model.path, model.missing) == (first, (first.name, "Big-00003-of-00003.gguf"))
    assert odd.name == "Odd-00004-of-00003"


class TestLinks:
    def test_what_is_reached_several_ways_is_one(self, tmp_path: Path) -> None:
        put(tmp_path / "a" / "1.gguf")
        (tmp_path / "a" / "up").symlink_to(tmp_path)
        (tmp_path / "a" / "self").symlink_to("self")
        assert names(tmp_path) == names(tmp_path / "a", tmp_path) == ["1"]

    def test_snapshots_of_a_hub_share_blobs_and_are_named_by_the_snapshot(
        self, tmp_path: Path
    ) -> None:
        repository = tmp_path / "models--me--mine"
        shared, old, new = (put(repository / "blobs" / digit) for digit in "abc")
        for revision, second in (("1" * 40, old), ("2" * 40, new), ("3" * 40, new)):
            folder = repository / "snapshots" / revision
            folder.mkdir(parents=True)
            (folder / "M-00001-of-00002.gguf").symlink_to(shared)
            (folder / "M-00002-of-00002.gguf").symlink_to(second)
        found, reasons = scan(tmp_path)
        assert [model.path.parent.name[0] for model in found] == ["1", "2"]
        assert all(model.missing == () for model in found)
        assert reasons == []


@pytest.fixture
def forbidden_to() -> Iterator[Callable[[Path], None]]:
    """Take a path away from this process, which may be root's."""
    uid = os.geteuid()

    def forbid(path: Path) -> None:
        path.chmod(0)
        if uid == 0:
            try:
                os.seteuid(NOBODY)
            except OSError:
                pytest.skip("this root may not become anyone else")

    yield forbid
    if uid == 0:
        os.seteuid(0)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Make a folder that everyone may enter, unlike ``tmp_path``."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder
        for path in folder.iterdir():
            path.chmod(0o755)


class TestWhatCannotBeRead:
    @pytest.mark.parametrize("name", ["secret", "secret.gguf"])
    def test_what_is_forbidden_is_skipped_with_a_reason(
        self, open_folder: Path, forbidden_to: Callable[[Path], None], name: str
    ) -> None:
        put(open_folder / "secret" / "a.gguf")
        put(open_folder / "secret.gguf")
        forbidden_to(open_folder / name)
        found, reasons = scan(open_folder)
        assert [model.name for model in found] == ["secret" if name == "secret" else "a"]
        assert reasons == [f"{open_folder / name} cannot be read (Permission denied)"]

    def test_what_is_no_model_is_skipped_with_a_reason(self, tmp_path: Path) -> None:
        file, gone, link = tmp_path / "a.gguf", tmp_path / "gone", tmp_path / "gone.gguf"
        file.write_text("version https://git-lfs.github.com/spec/v1\n")
        link.symlink_to("nowhere")
        os.mkfifo(tmp_path / "pipe.gguf")
        put(tmp_path / "folder.gguf" / "inside.gguf")
        assert scan(file) == ([], [f"{file} cannot be read (Not a directory)"])
        assert scan(gone) == ([], [f"{gone} cannot be read (No such file or directory)"])
        search = Scan((tmp_path,))
        assert [model.name for model in search] == ["inside"]
        assert search.reasons == [
            f"{file} is no GGUF file; download it again",
            f"{link} cannot be read (No such file or directory)",
        ]

    def test_a_name_that_is_no_utf_8_survives(self, tmp_path: Path) -> None:
        path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9-\xff.gguf"))
        put(path)
        (model,), _ = scan(tmp_path)
        assert model.path == path
        assert model.path.read_bytes().startswith(b"GGUF")

    def test_what_holds_no_models_is_not_looked_into(self, tmp_path: Path) -> None:
        for folder in ("proc", "sys", "node_modules"):
            put(tmp_path / folder / "a.gguf")
        assert scan(tmp_path) == ([], [])


class TestDamagedFiles:
    @pytest.mark.parametrize("chunk_bytes", [64, 1 << 22], ids=["in pieces", "at once"])
    @pytest.mark.parametrize("size_bytes", [8, 200, 1000])
    def test_a_file_that_ends_within_its_header_is_told(
        self, size_bytes: int, chunk_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(header, "_CHUNK_BYTES", chunk_bytes)
        path = tmp_path / "Tiny-1M-F32.gguf"
        write_tiny(TARGET, path)
        assert inspect_header(path).reason is None
        os.truncate(path, size_bytes)
        assert f"{path} has a broken header" in str(inspect_header(path).reason)

    def test_every_kind_of_value_is_understood(self, tmp_path: Path) -> None:
        path = tmp_path / "kinds.gguf"
        writer = gguf.GGUFWriter(path, "llama")
        writer.add_array("strings", ["a", "bc", ""])
        writer.add_array("numbers", [1, 2, 3])
        writer.add_bool("yes", val=True)
        writer.add_float64("exact", 1.5)
        writer.add_uint8("small", 3)
        writer.add_tensor("first", np.zeros(100, dtype=np.float32))
        writer.add_tensor("last", np.zeros(1, dtype=np.float32))
        write_file(writer)
        found = header.read_header(path)
        assert found.array_lengths == {"strings": 3, "numbers": 3}
        assert (found.metadata["yes"], found.metadata["exact"], found.metadata["small"]) == (
            *(True, 1.5),
            3,
        )
        assert [tensor.size_bytes for tensor in found.tensors] == [400, 4]

    @given(st.lists(st.tuples(st.integers(4, 2000), st.integers(0, 255)), min_size=1, max_size=8))
    def test_no_damage_ends_a_search(self, damages: list[tuple[int, int]]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "m.gguf"
            write_tiny(TARGET, path)
            data = bytearray(path.read_bytes())
            for at, byte in damages:
                data[at] = byte
            path.write_bytes(data)
            assert len(scan(Path(folder))[0]) == 1


def test_usual_folders_are_those_that_exist_each_once_and_the_working_folder_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LLAMA_CACHE", "HF_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SPECTUI_HOME", str(tmp_path / "spectui"))
    usual = (".cache/llama.cpp", ".cache/huggingface/hub", ".lmstudio/models")
    for folder in ("work", "models", "hf/hub", *usual):
        (tmp_path / folder).mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "work")
    (tmp_path / "work" / "models").symlink_to(tmp_path / "models")
    assert {tmp_path / folder for folder in usual} <= set(usual_folders())
    for folder in usual:
        (tmp_path / folder).rmdir()
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("LLAMA_CACHE", str(tmp_path / "not there"))
    found = [folder for folder in usual_folders() if folder != Path("/models")]
    assert found == [tmp_path / "hf" / "hub", tmp_path / "models", tmp_path / "work"]


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("Qwen3-30B-A3B-Instruct-2507-UD-Q4_K_XL", "30B-A3B Q4_K_XL"),
        ("mixtral-8x7b-v0.1.iq3_xxs", "8x7B IQ3_XXS"),
        ("SmolLM2-135M.Q4_1", "135M Q4_1"),
        ("gpt-oss-20b-MXFP4", "20B MXFP4"),
        ("spectui-demo-dense-seed0-v1", ""),
    ],
)
def test_a_name_tells_parameters_and_quantisation(name: str, label: str) -> None:
    assert label_of(name) == label


def model(size_bytes: int, name: str = "m", missing: tuple[str, ...] = ()) -> FoundModel:
    return FoundModel(
        path=Path(f"/{name}.gguf"),
        name=name,
        size_bytes=size_bytes,
        n_shards=1 + len(missing),
        missing=missing,
    )


def facts(size_bytes: int, **more: int | None) -> ModelFacts:
    numbers: dict[str, Any] = {"kv_bytes_per_token": 100, "read_bytes_per_token": size_bytes}
    return ModelFacts(
        path=Path("/m.gguf"),
        arch="llama",
        name="m",
        n_params=0,
        size_bytes=size_bytes,
        file_bytes=size_bytes,
        n_layers=2,
        n_ctx_train=4096,
        n_vocab=32_000,
        n_experts=0,
        **(numbers | more),
    )


def inspected(found: FoundModel, reason: str | None = None, **more: int | None) -> ModelInspected:
    own = facts(found.size_bytes, **more)
    return ModelInspected(target=Path("/target.gguf"), path=found.path, facts=own, reason=reason)


BIG = model(1_000_000, "target")


def test_memory_is_weights_and_cache_and_unknown_before_the_inspection() -> None:
    draft = model(50_000)
    for seen, memory_bytes, reason in (
        (None, None, None),
        (inspected(draft), 50_000 + 4096 * 100, None),
        (inspected(draft, kv_bytes_per_token=None), None, None),
        (inspected(draft, "the tokenizers differ"), 50_000 + 4096 * 100, "the tokenizers differ"),
    ):
        option = assess(BIG.size_bytes, draft, seen, N_CTX)
        assert (option.memory_bytes, option.reason) == (memory_bytes, reason)
        assert option.is_checked is (seen is not None)


@pytest.mark.parametrize(
    ("draft", "reason"),
    [
        (model(2_000_000), "is larger than the target"),
        (model(1_000_000), "is as large as the target"),
        (
            model(10, missing=("m-00002-of-00002.gguf",)),
            "is incomplete: of its 2 files 1 cannot be found",
        ),
        (
            model(10, missing=("x", "y", "z")),
            "is incomplete: of its 4 files 3 cannot be found",
        ),
    ],
)
def test_what_its_files_tell_needs_no_inspection(draft: FoundModel, reason: str) -> None:
    assert assess(BIG.size_bytes, draft, None, N_CTX).reason == reason


def test_what_would_be_slow_comes_behind_what_fits() -> None:
    drafts = [model(50_000, "slow"), model(60_000, "fits"), model(70_000, "unfit")]
    seen = [
        replace(inspected(drafts[0]), slowness="RAM"),
        inspected(drafts[1]),
        inspected(drafts[2], "RAM has no room"),
    ]
    options = [assess(BIG.size_bytes, *one, N_CTX) for one in zip(drafts, seen, strict=True)]
    assert options[0].reason is None
    assert [one.model.name for one in rank(BIG, options)] == ["fits", "slow", "unfit"]


def test_a_demo_draft_is_offered_to_demo_targets_alone() -> None:
    demo = replace(model(50_000, "spectui-demo-draft"), path=demo_folder() / "draft.gguf")
    drafts = (demo, model(50_000, "own"))
    options = [assess(BIG.size_bytes, one, None, N_CTX) for one in drafts]
    assert [one.model.name for one in rank(BIG, options)] == ["own"]
    target = replace(model(900_000, "spectui-demo"), path=demo_folder() / "target.gguf")
    assert len(rank(target, options)) == len(options)


SIZES = st.integers(min_value=1, max_value=2_000_000)
DRAFTS = st.builds(
    lambda index, size, state: (index, size, state),
    st.integers(0, 10_000),
    SIZES,
    st.sampled_from(["fits", "unfit", "unseen"]),
)


def option_of(draft: tuple[int, int, str]) -> DraftOption:
    index, size, state = draft
    found = model(size, f"m{index}")
    seen = {"fits": inspected(found), "unfit": inspected(found, "no"), "unseen": None}[state]
    return assess(BIG.size_bytes, found, seen, N_CTX)


OPTIONS = st.lists(DRAFTS.map(option_of), unique_by=lambda option: option.model.path, max_size=12)


class TestRanking:
    @given(OPTIONS, st.randoms(use_true_random=False))
    def test_every_option_is_there_once_and_those_that_fit_come_first(
        self, options: list[DraftOption], shuffler: random.Random
    ) -> None:
        ranked = rank(BIG, options)
        assert sorted(map(repr, ranked)) == sorted(map(repr, options))
        shuffled = list(options)
        shuffler.shuffle(shuffled)
        assert rank(BIG, shuffled) == ranked
        classes = [(option.reason is not None, not option.is_checked) for option in ranked]
        assert classes == sorted(classes)

    @given(OPTIONS)
    def test_a_good_size_comes_before_every_other_and_the_smaller_of_two_good_ones_first(
        self, options: list[DraftOption]
    ) -> None:
        fitting = [option for option in rank(BIG, options) if option.is_checked]
        fitting = [option for option in fitting if option.reason is None]
        low, high = (share * BIG.size_bytes for share in GOOD_SHARE)
        good = [low <= option.model.size_bytes <= high for option in fitting]
        assert good == sorted(good, reverse=True)
        sizes = [
            option.model.size_bytes
            for option, is_good in zip(fitting, good, strict=True)
            if is_good
        ]
        assert sizes == sorted(sizes)

    def test_a_target_may_be_given_by_its_facts(self) -> None:
        options = [option_of((1, 500_000, "fits")), option_of((2, 50_000, "fits"))]
        # Without weights nothing is read, and the file counts.
        bare = facts(BIG.size_bytes, read_bytes_per_token=None)
        for target in (facts(BIG.size_bytes), bare):
            assert rank(target, options) == (options[1], options[0])
        assert read_share(bare, facts(10)) is read_share(facts(10), bare) is None

    def test_of_experts_what_a_token_reads_counts_and_not_the_file(self) -> None:
        target = facts(142 * GB, read_bytes_per_token=13 * GB)
        drafts = [model(640 * GB // 1000, "small"), model(15_700 * GB // 1000, "large")]
        options = [assess(142 * GB, draft, inspected(draft), N_CTX) for draft in drafts]
        assert read_share(target, facts(640 * GB // 1000)) == pytest.approx(0.64 / 13)
        assert [option.model.name for option in rank(target, options)] == ["small", "large"]
        # As long as the target was not read, its file stands for what a token reads.
        by_file = rank(model(142 * GB), options)
        assert [option.model.name for option in by_file] == ["large", "small"]
        # A draft of experts is as small as what its tokens read.
        dense, experts = model(30 * GB, "dense"), model(30 * GB, "experts")
        routed = inspected(experts, read_bytes_per_token=3 * GB)
        options = [
            assess(100 * GB, *one, N_CTX) for one in ((dense, inspected(dense)), (experts, routed))
        ]
        assert rank(facts(100 * GB), options) == (options[1], options[0])
