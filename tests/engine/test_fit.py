"""Layers and experts that ``--fit`` chooses, on plans by arithmetic and beside the real server."""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectui.engine.demand import devices_of
from spectui.engine.fit import Fitted, fit
from spectui.llama.buffers import HOST, BufferKind, DeviceMemory
from spectui.llama.planned import ModelPlan, PlanRequest
from spectui.options.setup import (
    ContextOptions,
    Devices,
    Fit,
    ModelOptions,
    SplitMode,
    TensorOverride,
)
from tests.support.fit import (
    engine_chooses,
    server_chooses,
    small_devices,
)
from tests.support.models import CLOSE_DRAFT, Tiny, TinyPath
from tests.support.plans import Script, buffer
from tests.support.rpc import RpcBuild

pytest_plugins = ["tests.support.fixtures"]

PARTS = ("ffn_up", "ffn_gate", "ffn_down")
NO_MARGIN = Fit(targets_mib=(0,))
TARGET = ModelOptions(path=Path("target.gguf"), fit=NO_MARGIN)
DRAFT = ModelOptions(path=Path("draft.gguf"))


@dataclass(kw_only=True)
class Arithmetic(Script):
    """Plans of a target whose layers are alike, on GPUs that are empty; a draft is on the first."""

    n_gpus: int = 1
    n_experts: int = 0
    attention_bytes: int = 7
    part_bytes: int = 20
    """Of each of three parts of a layer; those of all its experts together."""
    misplanned_bytes: int = 0
    output_bytes: int = 13
    cache_bytes: int = 0
    """Per layer and token."""
    n_ctx_train: int = 8192

    def _target(self, request: PlanRequest) -> ModelPlan:
        sizes = self._tensors(request.target, request.context.ctx_size)
        plan = self._plan(*(buffer(one, BufferKind.WEIGHTS, n) for one, n in sizes.items()))
        misplanned = (buffer("CUDA0", BufferKind.COMPUTE, self.misplanned_bytes),)
        return replace(plan, misplanned=misplanned)

    def _tensors(self, target: ModelOptions, ctx_size: int) -> Counter[str]:
        sizes: Counter[str] = Counter()
        suffix = "_exps" if self.n_experts else ""
        for layer, device in enumerate(self._layers(target)):
            if layer == self.n_layers:
                sizes[device] += self.output_bytes
                continue
            sizes[device] += self.attention_bytes + self.cache_bytes * ctx_size
            for part in PARTS:
                name = f"blk.{layer}.{part}{suffix}.weight"
                sizes[_elsewhere(name, target.override_tensor) or device] += self.part_bytes
        return sizes

    def _layers(self, target: ModelOptions) -> Iterator[str]:
        """Device of each layer, as ``load_tensors`` has it."""
        n = self.n_layers + 1
        n_on_gpus = n if target.n_gpu_layers < 0 else target.n_gpu_layers
        shares = target.devices.split or (1.0,) * max(self.n_gpus, 1)
        ends = [end / sum(shares) for end in accumulate(shares)]
        for layer in range(n):
            number = layer - (n - n_on_gpus)
            yield HOST if number < 0 else f"CUDA{bisect_right(ends, number / n_on_gpus)}"


def _elsewhere(name: str, overrides: tuple[TensorOverride, ...]) -> str | None:
    return next((one.buffer for one in overrides if re.search(one.pattern, name)), None)


def gpus(*free: int) -> tuple[DeviceMemory, ...]:
    return tuple(
        DeviceMemory(name=f"CUDA{n}", description="a GPU", free_bytes=size, total_bytes=size)
        for n, size in enumerate(free)
    )


def used(plan: Arithmetic, fitted: Fitted, request: PlanRequest) -> list[int]:
    planned = plan(replace(request, target=fitted.target))
    return [
        sum(one.size_bytes for one in planned.buffers if one.memory == f"CUDA{n}")
        for n in range(plan.n_gpus)
    ]


REQUEST = PlanRequest(target=TARGET)
dense = st.builds(
    Arithmetic,
    n_gpus=st.integers(1, 3),
    n_layers=st.integers(1, 40),
    n_experts=st.just(0),
    attention_bytes=st.integers(1, 30),
    part_bytes=st.integers(1, 30),
    output_bytes=st.integers(1, 200),
    draft_bytes=st.integers(0, 100),
)
sparse = dense.map(lambda plan: replace(plan, n_experts=8))
sizes = st.lists(st.integers(0, 2500), min_size=3, max_size=3)


@given(st.one_of(dense, sparse), sizes, st.sampled_from([None, DRAFT]))
def test_no_device_is_filled_beyond_its_target(
    plan: Arithmetic, free: list[int], draft: ModelOptions | None
) -> None:
    request = replace(REQUEST, draft=draft)
    fitted = fit(plan, request, gpus(*free[: plan.n_gpus]))
    taken = used(plan, fitted, request)
    alone = 0 if draft is None else plan.draft_bytes
    bounds = [max(room, alone if n == 0 else 0) for n, room in enumerate(free)]
    assert all(one <= bound for one, bound in zip(taken, bounds, strict=False))


@given(dense, st.integers(0, 5000))
def test_of_dense_layers_a_device_gets_as_many_as_fit(plan: Arithmetic, free: int) -> None:
    plan = replace(plan, n_gpus=1)
    fitted = fit(plan, REQUEST, gpus(free))
    fits = [n for n in range(plan.n_layers + 2) if _taken(plan, n) <= free]
    expected = max(fits, default=0)
    assert fitted.target.n_gpu_layers in {expected, -1}
    assert (fitted.target.n_gpu_layers == -1) == (expected == plan.n_layers + 1)


@given(sparse, st.integers(0, 5000))
def test_where_all_layers_fit_no_further_experts_would(plan: Arithmetic, free: int) -> None:
    plan = replace(plan, n_gpus=1)
    fitted = fit(plan, REQUEST, gpus(free))
    placed = fitted.target.override_tensor
    if fitted.target.n_gpu_layers == plan.n_layers + 1:
        more = replace(fitted, target=replace(fitted.target, override_tensor=placed[1:]))
        assert used(plan, more, REQUEST) > [free]


def _taken(plan: Arithmetic, n_layers: int) -> int:
    return sum(
        one.size_bytes
        for one in plan(
            replace(REQUEST, target=replace(TARGET, n_gpu_layers=n_layers))
        ).target.buffers
        if one.memory != HOST
    )


def test_what_fits_stays_as_it_is() -> None:
    plan = Arithmetic()
    fitted = fit(plan, REQUEST, gpus(10_000))
    assert (fitted.target, fitted.sentence) == (TARGET, None)


def test_what_llama_cpp_plans_amiss_counts_as_in_the_server() -> None:
    room = sum(one.size_bytes for one in Arithmetic()(REQUEST).target.buffers)
    for n_bytes, n_layers in ((0, -1), (-5, -1), (1, 10)):
        plan = Arithmetic(misplanned_bytes=n_bytes)
        assert fit(plan, REQUEST, gpus(room)).target.n_gpu_layers == n_layers


def test_margins_are_by_device_and_one_is_for_all() -> None:
    mib = 1 << 20
    assert [Fit().margin_bytes(n) for n in range(2)] == [1024 * mib, 1024 * mib]
    assert [Fit(targets_mib=(7,)).margin_bytes(n) for n in range(2)] == [7 * mib, 7 * mib]
    several = Fit(targets_mib=(7, 9))
    assert [several.margin_bytes(n) for n in range(3)] == [7 * mib, 9 * mib, 1024 * mib]


def test_the_choice_is_said_in_one_sentence() -> None:
    plan = Arithmetic(n_gpus=2, n_experts=4)
    fitted = fit(plan, REQUEST, gpus(150, 150))
    assert fitted.sentence == (
        "fitted to 150 B on CUDA0 and 150 B on CUDA1: 11 of 11 layers (2, 9), experts of 7 in RAM"
    )
    assert fitted.beside(DRAFT).devices.split == (2.0, 9.0)


def test_rows_are_never_fitted() -> None:
    rows = replace(TARGET, devices=Devices(split_mode=SplitMode.ROW))
    plan = Arithmetic(n_gpus=2)
    fitted = fit(plan, PlanRequest(target=rows), gpus(150, 150))
    assert fitted.target == rows
    assert fitted.sentence == ("--fit chooses nothing, as in llama-server: -sm row is given")


def test_an_open_context_is_shortened_before_layers_are_moved() -> None:
    plan = Arithmetic(cache_bytes=1)
    short = fit(plan, REQUEST, gpus(60_000), open_context=True)
    # 10 layers take 670 bytes, the output 13, and every token 10: 5,931 fit, in steps of 256.
    assert (short.ctx_size, short.target) == (5888, TARGET)
    shortest = fit(plan, REQUEST, gpus(30_000), open_context=True)
    assert (shortest.ctx_size, shortest.target.n_gpu_layers) == (4096, 8)
    whole = replace(TARGET, fit=replace(NO_MARGIN, min_ctx=1 << 32))
    long = fit(plan, PlanRequest(target=whole), gpus(60_000), open_context=True)
    assert (long.ctx_size, long.target.n_gpu_layers) == (8192, 8)


def test_without_a_device_the_hosts_memory_bounds_an_open_context() -> None:
    plan = Arithmetic(cache_bytes=1, n_gpus=0)
    none = PlanRequest(target=replace(TARGET, n_gpu_layers=-1, devices=Devices(names=())))
    alone = lambda request: plan(  # noqa: E731 - one word for a plan without a GPU
        replace(request, target=replace(request.target, n_gpu_layers=0))
    )
    found = fit(alone, none, gpus(100), open_context=True, host_bytes=60_000)
    assert (found.ctx_size, found.target) == (5888, none.target)
    found = fit(alone, none, gpus(100), open_context=True, host_bytes=600)
    assert found.failure == "the model does not fit in RAM"


def test_devices_are_those_that_are_named_in_their_order() -> None:
    rpc = DeviceMemory(
        name="RPC0[host:1]", description="", free_bytes=1, total_bytes=1, device="RPC1"
    )
    present = (rpc, *gpus(1, 2))
    first, second = present[1:]
    assert devices_of(Devices(), present) == present
    assert devices_of(Devices(names=("CUDA1", "RPC1", "CUDA7")), present) == (second, rpc)
    assert devices_of(Devices(names=()), present) == ()
    assert devices_of(Devices(split_mode=SplitMode.NONE, main=1), present) == (first,)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A tiny model on devices that are too small for it."""

    n_experts: int = 0
    device_bytes: tuple[int, ...]
    has_draft: bool = False
    ctx_size: int | None = 4096
    """None for an open one."""
    n_slots: int = 1


@pytest.mark.server
@pytest.mark.models
@pytest.mark.parametrize(
    "case",
    [
        Case(device_bytes=(8_000_000,)),
        Case(n_experts=8, device_bytes=(13_000_000,), has_draft=True),
        Case(n_experts=8, device_bytes=(8_000_000, 9_000_000)),
        Case(n_experts=8, device_bytes=(13_000_000,), ctx_size=None),
        Case(device_bytes=(12_000_000,), has_draft=True, ctx_size=12288, n_slots=3),
        Case(device_bytes=(30_000_000,), ctx_size=None, n_slots=3),
    ],
    ids=[
        "dense",
        "experts beside a draft",
        "two devices",
        "an open context",
        "slots beside a draft",
        "slots with open contexts",
    ],
)
def test_the_choice_is_the_real_servers(
    tiny: TinyPath, tmp_path: Path, rpc: RpcBuild, case: Case
) -> None:
    path, draft_path = tiny(Tiny(n_layers=12, n_experts=case.n_experts)), tiny(CLOSE_DRAFT)
    arguments = ["-m", str(path), "-t", "1", "-fitt", "0"]
    arguments += [] if case.ctx_size is None else ["-c", str(case.ctx_size)]
    arguments += ["-md", str(draft_path), "--spec-draft-n-max", "8"] if case.has_draft else []
    with small_devices(rpc, case.device_bytes) as endpoints:
        devices = Devices(rpc=endpoints)
        draft = ModelOptions(path=draft_path, devices=devices)
        request = PlanRequest(
            target=ModelOptions(path=path, devices=devices, fit=NO_MARGIN),
            draft=draft if case.has_draft else None,
            context=ContextOptions(ctx_size=(case.ctx_size or 4096) // case.n_slots, threads=1),
            max_draft=8 if case.has_draft else 0,
            n_slots=case.n_slots,
        )
        fitted, ours = engine_chooses(request, open_context=case.ctx_size is None)
        binary = rpc.llama_server(tmp_path)
        theirs = server_chooses(binary, arguments, endpoints, n_slots=case.n_slots)
    assert ours == theirs
    assert fitted.target != request.target or ours.shortened_to
