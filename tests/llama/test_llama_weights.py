"""What files and logs tell of a model's memory: GGUF headers, weight traffic, buffers."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectui.errors import BadInputError
from spectui.llama.buffers import HOST, Buffer, BufferKind, parse_buffers
from spectui.models.gguf import file_size, read_gguf, shards
from spectui.models.header import GgufFile, TensorInfo
from spectui.models.weights import WeightTraffic, mtp_traffic, shifted_traffic, weight_traffic
from spectui.options.setup import ModelOptions, TensorOverride
from tests.support.models import MOE, N_LAYERS, TARGET, TinyPath, vocabulary

pytest_plugins = ("tests.support.fixtures",)

NOWHERE = Path("model.gguf")


def gguf(sizes: dict[str, int], **metadata: int) -> GgufFile:
    return GgufFile(
        metadata={
            "general.architecture": "llama",
            "llama.block_count": 2,
            **{f"llama.{key}": value for key, value in metadata.items()},
        },
        array_lengths={},
        tensors=tuple(TensorInfo(name=name, size_bytes=size) for name, size in sizes.items()),
    )


DENSE = {
    "token_embd.weight": 1000,
    "output.weight": 100,
    "blk.0.attn_q.weight": 10,
    "blk.1.attn_q.weight": 1,
}
EXPERTS = {
    "output.weight": 5,
    "blk.0.attn_q.weight": 1,
    "blk.0.ffn_up_exps.weight": 100,
    "blk.0.ffn_up_shexp.weight": 20,
    "blk.1.ffn_down_exps.weight": 1000,
}


def cpu_and_gpu(sizes: dict[str, int], options: ModelOptions) -> tuple[int, int]:
    traffic = weight_traffic(gguf(sizes), options, gpu_devices=True)
    return traffic.cpu_bytes, traffic.gpu_dense_bytes + traffic.gpu_expert_bytes


def test_a_header_tells_scalars_list_lengths_and_tensors(tiny: TinyPath) -> None:
    found = read_gguf(tiny(MOE))
    assert found.metadata["general.architecture"] == "llama"
    assert found.metadata["llama.block_count"] == N_LAYERS
    assert found.metadata["llama.expert_count"] == 4
    assert found.metadata["llama.attention.layer_norm_rms_epsilon"] == pytest.approx(1e-5)
    assert found.array_lengths["tokenizer.ggml.tokens"] == len(vocabulary(MOE))
    sizes = {tensor.name: tensor.size_bytes for tensor in found.tensors}
    assert sizes["token_embd.weight"] == len(vocabulary(MOE)) * 64 * 4


def test_the_parts_of_a_model_are_told_by_their_names_alone(tiny: TinyPath, tmp_path: Path) -> None:
    whole = tiny(TARGET)
    names = ("m-00001-of-00002.gguf", "m-00002-of-00002.gguf")
    # Another model's part, and a file that no convention knows.
    for name in (*names, "m-00001-of-00003.gguf", "m-copy-of-00002.gguf", "m-00003-of-00002.gguf"):
        shutil.copy(whole, tmp_path / name)
    assert shards(tmp_path / names[1]) == tuple(tmp_path / name for name in names)
    assert file_size(tmp_path / names[0]) == 2 * whole.stat().st_size
    assert len(read_gguf(tmp_path / names[0]).tensors) == 2 * len(read_gguf(whole).tensors)
    with pytest.raises(BadInputError, match="one of 3 parts, of which 1 can be found"):
        shards(tmp_path / "m-00001-of-00003.gguf")
    for odd in (tmp_path / "m-00003-of-00002.gguf", tmp_path / "n-00001-of-00002.gguf"):
        assert shards(odd) == (odd,)
    assert file_size(whole) == whole.stat().st_size


TIED = {name: size for name, size in DENSE.items() if name != "output.weight"}


def test_without_a_gpu_everything_is_read_in_ram() -> None:
    for sizes, metadata, read in (
        ({}, {}, (0, 0)),
        (DENSE, {}, (111, 0)),
        # The embedding is looked up unless it is the output too.
        (TIED, {}, (1011, 0)),
        # MTP layers are not loaded and not read.
        (DENSE, {"nextn_predict_layers": 1}, (110, 0)),
        # Shared experts are dense.
        (EXPERTS, {}, (26, 1100)),
    ):
        file = gguf(sizes, **metadata)
        traffic = weight_traffic(file, ModelOptions(path=NOWHERE), gpu_devices=False)
        assert (traffic.cpu_dense_bytes, traffic.cpu_expert_bytes) == read
        assert (traffic.gpu_dense_bytes, traffic.gpu_expert_bytes) == (0, 0)


def test_a_layers_experts_more_or_fewer_in_ram() -> None:
    file = gguf(EXPERTS, expert_count=4, expert_used_count=1)

    def shifted(**placed: object) -> dict[int, int]:
        options = replace(ModelOptions(path=NOWHERE), **placed)  # type: ignore[arg-type]
        found = shifted_traffic(file, options, gpu_devices=True)
        return {n: one.cpu_expert_bytes for n, one in found.items()}

    assert shifted(n_cpu_moe=1) == {0: 0, 2: 1100}
    # There is no third layer, and none fewer than no layer.
    assert shifted(cpu_moe=True) == shifted(n_cpu_moe=2) == {1: 100}
    assert shifted() == {1: 100}
    assert shifted_traffic(file, ModelOptions(path=NOWHERE), gpu_devices=False) == {}
    assert shifted_traffic(gguf(DENSE), ModelOptions(path=NOWHERE), gpu_devices=True) == {}


def test_the_output_goes_to_the_gpu_first_then_the_last_layers() -> None:
    for n_gpu_layers, expected in ((0, (111, 0)), (1, (11, 100)), (2, (10, 101)), (3, (0, 111))):
        options = ModelOptions(path=NOWHERE, n_gpu_layers=n_gpu_layers)
        assert cpu_and_gpu(DENSE, options) == expected


@pytest.mark.parametrize(
    ("overrides", "more", "cpu_bytes"),
    [
        ({}, {}, 0),
        ({}, {"cpu_moe": True}, 1100),
        ({}, {"n_cpu_moe": 1}, 100),
        ({"exps": "CPU"}, {}, 1100),
        ({r"blk\.1\.": "CUDA0"}, {"cpu_moe": True}, 100),
        # Python cannot read it.
        ({"*": "CPU"}, {}, 0),
    ],
)
def test_overrides_place_experts_and_the_first_match_wins(
    overrides: dict[str, str], more: dict[str, Any], cpu_bytes: int
) -> None:
    given = tuple(TensorOverride(pattern=one, buffer=at) for one, at in overrides.items())
    options = ModelOptions(path=NOWHERE, override_tensor=given, **more)
    assert cpu_and_gpu(EXPERTS, options) == (cpu_bytes, sum(EXPERTS.values()) - cpu_bytes)


SEVERAL = {
    **DENSE,
    "blk.2.nextn.eh_proj.weight": 3000,
    "blk.2.ffn_up_exps.weight": 40_000,
    "blk.3.nextn.eh_proj.weight": 5000,
    "blk.3.nextn.embed_tokens.weight": 1,
}


def test_a_step_of_mtp_layers_reads_one_of_them_and_the_head() -> None:
    own_head = {"blk.3.nextn.shared_head_head.weight": 2000}
    for sizes, dense_bytes in ((SEVERAL, 4100), (SEVERAL | own_head, 5000)):
        file = gguf(sizes, block_count=4, nextn_predict_layers=2, expert_count=4)
        traffic = mtp_traffic(file, ModelOptions(path=NOWHERE), gpu_devices=False)
        assert (traffic.cpu_dense_bytes, traffic.cpu_expert_bytes) == (dense_bytes, 20_000)
        placed = ModelOptions(path=NOWHERE, cpu_moe=True)
        on_gpu = mtp_traffic(file, placed, gpu_devices=True)
        assert (on_gpu.gpu_dense_bytes, on_gpu.cpu_expert_bytes) == (dense_bytes, 20_000)


def moe(n_experts: int, n_used: int) -> WeightTraffic:
    return WeightTraffic(
        cpu_dense_bytes=10,
        cpu_expert_bytes=1000,
        gpu_dense_bytes=3,
        gpu_expert_bytes=0,
        n_experts=n_experts,
        n_experts_used=n_used,
    )


@given(n_experts=st.integers(1, 512), used=st.floats(0.001, 1), n_tokens=st.integers(1, 4096))
def test_a_decode_reads_at_least_one_tokens_experts_and_at_most_all(
    n_experts: int, used: float, n_tokens: int
) -> None:
    traffic = moe(n_experts, max(1, round(used * n_experts)))
    one, many = traffic.cpu_bytes_per_decode(1), traffic.cpu_bytes_per_decode(n_tokens)
    assert one - 1e-6 <= many <= traffic.cpu_bytes + 1e-6
    assert moe(8, 2).cpu_bytes_per_decode(1) == pytest.approx(10 + 250)
    assert moe(8, 2).cpu_bytes_per_decode(2) == pytest.approx(10 + 1000 * (1 - 0.75**2))
    assert moe(8, 2).gpu_bytes_per_decode(2) == 3


LOG = """\
load_tensors:   CPU_Mapped model buffer size = 35762.25 MiB
load_tensors:   CPU_Mapped model buffer size =  1024.00 MiB
load_tensors:        CUDA0 model buffer size = 14495.00 MiB
llama_context:  CUDA_Host  output buffer size =     1.16 MiB
llama_kv_cache:      CUDA0 KV buffer size =  1536.00 MiB
llama_kv_cache:      CUDA0 KV buffer size =   384.00 MiB
llama_kv_cache: size = 1920.00 MiB (  4096 cells,  30 layers,  1/1 seqs), K (f16):   45.00 MiB
impl:      CUDA0 MoE cache size =   512.00 MiB for 35762.25 MiB of host experts
llama_memory_recurrent:      CUDA0 RS buffer size =    62.81 MiB
sched_reserve:      CUDA0 compute buffer size =   900.00 MiB
sched_reserve:      CUDA0 compute buffer size =   858.01 MiB
something else with a model buffer size = 3 MiB
"""
MIB = 1 << 20


def test_buffers_of_one_kind_add_up_except_those_made_anew() -> None:
    sizes = {(b.device, b.kind): b.size_bytes for b in parse_buffers(LOG.splitlines())}
    assert sizes == {
        ("CPU_Mapped", BufferKind.WEIGHTS): 36786.25 * MIB,
        ("CUDA0", BufferKind.WEIGHTS): 14495 * MIB,
        ("CUDA_Host", BufferKind.OUTPUT): round(1.16 * MIB),
        ("CUDA0", BufferKind.KV): (1920 + 512) * MIB + round(62.81 * MIB),
        ("CUDA0", BufferKind.COMPUTE): round(858.01 * MIB),
    }


def test_a_devices_name_tells_where_it_is() -> None:
    for device, memory in (
        *((name, HOST) for name in ("CPU", "CPU_Mapped", "CPU_REPACK", "CUDA_Host")),
        ("CUDA1", "CUDA1"),
        ("Vulkan0", "Vulkan0"),
        ("MTL0_Mapped", "MTL0"),
        ("RPC0[192.168.1.2:50052]", "RPC0[192.168.1.2:50052]"),
    ):
        buffer = Buffer(device=device, kind=BufferKind.KV, size_bytes=1)
        assert (buffer.memory, buffer.is_mapped) == (memory, device == "CPU_Mapped")
