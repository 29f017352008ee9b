"""What headers tell of models: numbers that are right or missing, whatever is in the file."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import pytest

from spectui.engine.planning import Planner
from spectui.llama.architectures import architecture, inspect_header
from spectui.llama.buffers import BufferKind
from spectui.llama.planned import PlanRequest
from spectui.models.facts import facts_of
from spectui.models.header import GgufFile, Scalar, TensorInfo
from spectui.options.setup import ContextOptions, ModelOptions
from tests.support import allocation as kinds
from tests.support.architectures import WRITERS
from tests.support.models import EMBEDDING, TARGET, Tiny, TinyPath, write_empty

pytest_plugins = ["tests.support.fixtures"]

PLAIN: Mapping[str, Scalar] = {
    "block_count": 2,
    "context_length": 4096,
    "embedding_length": 64,
    "attention.head_count": 4,
    "attention.head_count_kv": 2,
}
PLAIN_CACHE = 2 * 2 * (16 + 16) * 2
"""Bytes per token: layers, heads, key and value, f16."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file whose header is made up."""
    found = tmp_path / "m.gguf"
    found.write_bytes(bytes(1000))
    return found


def header(
    own: Mapping[str, Scalar],
    lists: Mapping[str, int] | None = None,
    tensors: tuple[TensorInfo, ...] = (),
    **general: Scalar,
) -> GgufFile:
    return GgufFile(
        metadata={
            "general.architecture": "llama",
            **{f"general.{key}": value for key, value in general.items()},
            **{f"llama.{key}": value for key, value in own.items()},
        },
        array_lengths={f"llama.{key}": n for key, n in (lists or {}).items()},
        tensors=tensors,
    )


def test_what_a_header_lacks_or_has_of_another_kind_is_no_error(path: Path) -> None:
    empty = facts_of(path, GgufFile(metadata={}, array_lengths={}, tensors=()))
    assert (empty.arch, empty.name, empty.file_bytes) == ("unknown", "m", 1000)
    assert (empty.n_params, empty.size_bytes) == (0, 0)
    assert (empty.n_layers, empty.n_vocab, empty.kv_bytes_per_token) == (0, 0, None)
    odd = facts_of(path, header({**PLAIN, "block_count": "two", "context_length": -1}, name=3))
    assert (odd.name, odd.n_layers, odd.n_ctx_train) == ("m", 0, 0)


def test_the_cache_is_layers_times_heads_times_their_lengths(path: Path) -> None:
    def cache(**own: int) -> int | None:
        return facts_of(path, header({**PLAIN, **own})).kv_bytes_per_token

    assert cache() == PLAIN_CACHE
    lengths = {"attention.key_length": 128, "attention.value_length": 64}
    assert cache(**lengths) == 2 * 2 * (128 + 64) * 2
    # The one layer that is left.
    assert cache(nextn_predict_layers=1) == PLAIN_CACHE // 2
    without = {key: value for key, value in PLAIN.items() if not key.endswith("_kv")}
    assert facts_of(path, header(without)).kv_bytes_per_token == 2 * PLAIN_CACHE


def test_the_cache_of_unequal_layers_is_not_told(path: Path) -> None:
    for key in (
        "ssm.state_size",
        "shortconv.l_cache",
        "wkv.head_size",
        "kda.head_dim",
        "full_attention_interval",
        "attention.sliding_window",
        "attention.kv_lora_rank",
        "attention.shared_kv_layers",
    ):
        assert facts_of(path, header({**PLAIN, key: 32})).kv_bytes_per_token is None
        assert facts_of(path, header({**PLAIN, key: 0})).kv_bytes_per_token == PLAIN_CACHE
    # A list with a value for each layer tells that they differ.
    for key in ("attention.head_count_kv", "attention.sliding_window_pattern"):
        own = {name: value for name, value in PLAIN.items() if name != key}
        assert facts_of(path, header(own, {key: 2})).kv_bytes_per_token is None
    # Such as the sections of a rotation, which has nothing to do with the cache.
    assert facts_of(path, header(PLAIN, {"rope.dimension_sections": 4})).kv_bytes_per_token
    for key in ("attention.head_count", "attention.head_count_kv"):
        assert facts_of(path, header({**PLAIN, key: 0})).kv_bytes_per_token is None


def test_a_token_reads_the_experts_that_it_is_routed_to(path: Path) -> None:
    tensors = (
        TensorInfo(name="token_embd.weight", size_bytes=5000),
        TensorInfo(name="output.weight", size_bytes=500),
        TensorInfo(name="blk.0.attn_q.weight", size_bytes=100),
        TensorInfo(name="blk.0.ffn_up_exps.weight", size_bytes=8000),
    )
    experts = {**PLAIN, "expert_count": 8, "expert_used_count": 2}
    assert facts_of(path, header(experts, tensors=tensors)).read_bytes_per_token == 2600
    # A dense one of the same tensors has none but those that are read.
    assert facts_of(path, header(PLAIN, tensors=tensors[:3])).read_bytes_per_token == 600
    assert facts_of(path, header(PLAIN)).read_bytes_per_token is None


KINDS: dict[str, Callable[[Path], None]] = {
    **kinds.KINDS,
    **{arch: partial(write, Tiny()) for arch, write in WRITERS.items()},
}
TOLD = {"llama", "moe", "glm4moe"}
"""Whose layers have equal caches."""


@pytest.fixture(scope="module")
def planner() -> Iterator[Planner]:
    with Planner() as made:
        yield made


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_told_of_a_cache_is_what_llama_cpp_allocates(
    planner: Planner, kind: str, tmp_path: Path
) -> None:
    path = tmp_path / f"{kind}.gguf"
    KINDS[kind](path)
    facts = inspect_header(path).facts
    assert facts is not None
    told = facts.kv_bytes_per_token
    assert (told is not None) == (kind in TOLD)
    if told is not None:
        context = ContextOptions(ctx_size=512, threads=1)
        plan = planner.plan(PlanRequest(target=ModelOptions(path=path), context=context)).target
        cache = [buffer.size_bytes for buffer in plan.buffers if buffer.kind is BufferKind.KV]
        assert sum(cache) == 512 * told


# What can continue a text


def test_llama_cpp_says_what_an_architecture_is() -> None:
    for arch, kind in (
        *((arch, None) for arch in ("llama", "qwen3moe", "mamba")),
        ("t5", "an encoder model"),
        ("t5encoder", "an encoder model"),
        ("dream", "a diffusion model"),
    ):
        found = architecture(arch)
        assert (found.is_known, found.kind) == (True, kind)
    for arch in ("", "unheard-of", "clip", "%s%n"):
        assert not architecture(arch).is_known


def test_headers_tell_what_cannot_continue_a_text(tiny: TinyPath, tmp_path: Path) -> None:
    assert inspect_header(tiny(TARGET)).reason is None
    embedding = inspect_header(tiny(EMBEDDING))
    assert embedding.facts is not None
    assert "is an embedding model (llama)" in str(embedding.reason)
    bare = inspect_header(tiny(Tiny(tokenizer="none")))
    assert "is a model without a tokenizer (llama)" in str(bare.reason)
    write_empty(tmp_path / "empty.gguf")
    empty = inspect_header(tmp_path / "empty.gguf")
    assert "cannot be loaded (this llama.cpp runs no architecture '')" in str(empty.reason)
    absent = inspect_header(tmp_path / "absent.gguf")
    assert (absent.facts, absent.target) == (None, tmp_path / "absent.gguf")
    assert "no such file" in str(absent.reason)
