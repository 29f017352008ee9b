"""Headers that lie: one sentence, exit code 3, and this process lives on."""

import itertools
import os
import struct
from collections.abc import Iterator
from pathlib import Path

import gguf
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spectui.engine.planning import Planner
from spectui.errors import BadInputError
from spectui.llama.library import C
from spectui.llama.planned import PlanRequest
from spectui.models.gguf import read_gguf
from spectui.models.header import TENSOR_BLOCKS, read_header
from spectui.options.setup import ContextOptions, ModelOptions
from tests.support import ggml
from tests.support.allocation import KINDS
from tests.support.headers import Part, fields

pytest_plugins = ["tests.support.fixtures", "tests.support.cli_fixtures"]

CONTEXT = ContextOptions(ctx_size=256, ubatch_size=64, threads=1)
MEMORY_BYTES = 500e6
_NAME = struct.pack("<Q1s", 1, b"k")
_KINDS = ("moe", "lfm2", "mamba")
_numbers = itertools.count()

NUMBERS = st.one_of(
    st.sampled_from([0, 1, 2, 9, 255, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**60, 2**63, 2**64 - 1]),
    st.integers(-4, 20),
    st.integers(0, 2**64 - 1),
)


@pytest.fixture(scope="module")
def valid(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("valid")
    for kind in _KINDS:
        KINDS[kind](folder / kind)
    return {kind: (folder / kind).read_bytes() for kind in _KINDS}


@pytest.fixture(scope="module")
def planner() -> Iterator[Planner]:
    with Planner() as made:
        yield made


def start(n_tensors: int, n_values: int) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", 3, n_tensors, n_values)


def array(kind: int, n: int) -> bytes:
    return _NAME + struct.pack("<IIQ", 9, kind, n)


BROKEN = {
    "ends": (start(0, 1) + _NAME, "the file ends within it"),
    "values": (start(0, 2**60), "announces 1152921504606846976 entries"),
    "tensors": (start(2**60, 0), "announces 1152921504606846976 entries"),
    "text": (start(0, 1) + _NAME + struct.pack("<IQ", 8, 2**63), "the file ends within it"),
    "texts": (start(0, 1) + array(8, 2**60), "announces 1152921504606846976 entries"),
    "numbers": (start(0, 1) + array(12, 2**61), "the file ends within it"),
    "lists": (start(0, 1) + array(9, 1), "a list of lists"),
    "key": (start(0, 1) + struct.pack("<Q", 2**40), "a key of 1099511627776 bytes"),
    "no key": (start(0, 1) + struct.pack("<Q", 0), "a key of 0 bytes"),
    "type": (start(0, 1) + _NAME + struct.pack("<IQ", 13, 0), "a value of type 13"),
    "architecture": (
        start(0, 1) + struct.pack("<Q20sIQ5s", 20, b"general.architecture", 8, 5, b"a\nb\nc"),
        r"its architecture is called 'a\nb\nc'",
    ),
    "dimensions": (start(1, 0) + _NAME + struct.pack("<I", 5), "a tensor of 5 dimensions"),
}


@pytest.mark.parametrize(("data", "reason"), BROKEN.values(), ids=BROKEN)
def test_a_broken_header_is_refused_with_a_reason(tmp_path: Path, data: bytes, reason: str) -> None:
    path = tmp_path / "broken.gguf"
    path.write_bytes(data)
    with pytest.raises(BadInputError, match="has a broken header") as caught:
        read_header(path)
    assert reason in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_file_of_a_terabyte_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "huge.gguf"
    for data, reason in (
        (start(0, 2**60), "announces"),
        (start(0, 1), "a key of 0 bytes"),
        (start(0, 1) + array(8, 2**21 + 1), "announces"),
        (start(0, 1) + array(12, 2**36), "more than 128 MiB"),
        (start(0, 1) + _NAME + struct.pack("<IQ", 8, 2**39), "more than 128 MiB"),
    ):
        path.write_bytes(data)
        os.truncate(path, 2**40)
        with pytest.raises(BadInputError, match=reason):
            read_header(path)


def test_other_versions_are_left_to_llama_cpp(tmp_path: Path) -> None:
    path = tmp_path / "other.gguf"
    for version in (1, 4, 0x03000000):
        path.write_bytes(b"GGUF" + struct.pack("<IQQ", version, 2**60, 2**60))
        assert read_header(path).tensors == ()


@pytest.mark.parametrize("kind", _KINDS)
def test_valid_headers_pass(tmp_path: Path, valid: dict[str, bytes], kind: str) -> None:
    path = tmp_path / "valid.gguf"
    path.write_bytes(valid[kind])
    read_header(path)
    ends = {field.at for field in fields(valid[kind])}
    for end in itertools.islice(sorted(ends), 0, None, 40):
        path.write_bytes(valid[kind][:end])
        with pytest.raises(BadInputError, match="ends within it"):
            read_header(path)


def peak_bytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def broken_header(valid: dict[str, bytes], data: st.DataObject) -> bytes:
    """A valid header with up to three fields changed, perhaps cut off."""
    whole = valid[data.draw(st.sampled_from(_KINDS))]
    found = fields(whole)
    broken = whole
    part = data.draw(st.sampled_from([None, *Part]))
    candidates = [field for field in found if part in {None, field.part}]
    for field in data.draw(st.lists(st.sampled_from(candidates), max_size=3)):
        broken = field.put(broken, data.draw(NUMBERS))
    if data.draw(st.booleans()):
        broken = broken[: data.draw(st.integers(8, len(broken)))]
    return broken


@given(data=st.data())
@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_no_header_ends_this_process(
    tmp_path: Path, valid: dict[str, bytes], planner: Planner, data: st.DataObject
) -> None:
    """The plan is made, or refused in one sentence that names the file."""
    # A file of its own: the planner keeps headers that did not change.
    path = tmp_path / f"fuzzed-{next(_numbers)}.gguf"
    path.write_bytes(broken_header(valid, data))
    sentence = str(path)
    try:
        planner.plan(PlanRequest(target=ModelOptions(path=path), context=CONTEXT))
    except BadInputError as error:
        sentence = str(error)
    assert str(path) in sentence
    assert "\n" not in sentence
    assert planner.pid is None or peak_bytes(planner.pid) < MEMORY_BYTES
    path.unlink()


@given(data=st.data())
@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_what_is_read_is_what_ggml_reads(
    tmp_path: Path, valid: dict[str, bytes], data: st.DataObject
) -> None:
    path = tmp_path / f"fuzzed-{next(_numbers)}.gguf"
    path.write_bytes(broken_header(valid, data))
    try:
        read_header(path)
    except BadInputError:
        # It breaks a limit: ggml might take all memory for it.
        return
    told = ggml.read(path)
    # What ggml refuses is left to it.
    if told is not None:
        ours = read_gguf(path)
        tensors = {tensor.name: tensor.size_bytes for tensor in ours.tensors}
        # Of numbers some are none, and equal to none.
        assert repr((dict(ours.metadata), dict(ours.array_lengths), tensors)) == repr(told)
    path.unlink()


def test_blocks_of_tensors_are_those_of_ggml() -> None:
    kinds = range(C.GGML_TYPE_COUNT)
    assert {kind: TENSOR_BLOCKS.get(kind, (0, 0)) for kind in kinds} == {
        kind: ggml.tensor_block(kind) for kind in kinds
    }


@pytest.mark.parametrize("cut", [0, 1, 5_000])
def test_large_vocabularies_of_one_length_are_each_read(cut: int, tmp_path: Path) -> None:
    """Lists are compared with the last one of their length, which may be another."""

    def written(name: str, words: list[str]) -> Path:
        writer = gguf.GGUFWriter(tmp_path / name, "llama")
        writer.add_token_list(words)
        writer.add_context_length(len(name))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        writer.close()
        return tmp_path / name

    n = 20_000
    words = [f"w{at}" for at in range(n)]
    longer = [*words[:-1], "a longer last word"]
    for name, own in (("a", words), ("aa", words), ("bbb", longer), ("cccc", words[::-1])):
        found = read_header(written(name, own))
        assert found.array_lengths["tokenizer.ggml.tokens"] == n
        assert found.metadata["llama.context_length"] == len(name)
    if cut:
        path = written("short", longer)
        path.write_bytes(path.read_bytes()[:-cut])
        with pytest.raises(BadInputError, match="ends within it"):
            read_header(path)
