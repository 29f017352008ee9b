"""Plans of memory: what llama.cpp would allocate is what it then does allocate."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from itertools import product
from pathlib import Path
from subprocess import PIPE

import psutil
import pytest

from spectui import children
from spectui.engine.planning import Planner
from spectui.errors import BadInputError, DoesNotFitError, UsageError
from spectui.llama.buffers import HOST, Buffer, BufferKind, DeviceMemory
from spectui.llama.plan import split_beside
from spectui.llama.planned import Plan, PlanRequest
from spectui.options.setup import ContextOptions, ModelOptions, TensorOverride
from spectui.speculative.models import Rollback
from tests.support.allocation import KINDS, LOG_STEP_BYTES, allocate, log_gaps_bytes, planned_bytes
from tests.support.architectures import WRITERS, write_pair
from tests.support.models import EMBEDDING, MOE, TARGET, Tiny, TinyPath
from tests.support.shapes import QWEN3_0_6B, QWEN3_30B_A3B, QWEN3_NEXT_80B_A3B, Shape, write_header

pytest_plugins = ["tests.support.fixtures"]

SMALL = ContextOptions(ctx_size=256, ubatch_size=64, threads=1)
CONTEXTS = {
    "small": SMALL,
    "usual": ContextOptions(threads=1),
    "odd": ContextOptions(ctx_size=1000, batch_size=200, threads=1),
}
ALIVE_S = 30.0
"""A process that was told to end has ended long before."""


@pytest.fixture(scope="module")
def planner() -> Iterator[Planner]:
    with Planner() as made:
        yield made


Model = Callable[[str], ModelOptions]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """A model by its kind, or by its architecture with MTP layers inside or in ``+`` a file."""
    folder = tmp_path_factory.mktemp("models")

    @cache
    def path_of(name: str) -> Path:
        path = folder / f"{name}.gguf"
        if name[:4] in {"own:", "lay:"}:
            target, layers = write_pair(name[4:], folder / name[4:])
            return target if name.startswith("own:") else layers
        write = KINDS.get(name) or partial(WRITERS[name], Tiny())
        write(path)
        return path

    return lambda name: ModelOptions(path=path_of(name))


def assert_as_allocated(planner: Planner, request: PlanRequest) -> Plan:
    plan = planner.plan(request)
    for ours, real in zip((plan.target, plan.draft), allocate(request), strict=True):
        assert (ours is None) == (real is None)
        if ours is not None and real is not None:
            assert planned_bytes(ours.buffers) == real.exact
            gaps = log_gaps_bytes(ours.buffers, real.logged)
            assert all(abs(gap) <= LOG_STEP_BYTES for gap in gaps.values()), gaps
            assert (ours.n_ctx, ours.rollback) == (real.n_ctx, real.rollback)
    return plan


MTP = (*WRITERS, *(f"own:{arch} lay:{arch}" for arch in (*WRITERS, "gemma4")))


@pytest.mark.parametrize(
    ("models", "context"),
    [
        *product((*KINDS, "mamba llama", "llama mamba", "llama lfm2", "lfm2 moe"), CONTEXTS),
        *product(MTP, ["odd"]),
        *(pytest.param(*one, marks=pytest.mark.ci) for one in product(MTP, ["small", "usual"])),
    ],
)
def test_a_plan_is_what_a_load_allocates(
    planner: Planner, model: Model, models: str, context: str
) -> None:
    target, *drafts = (model(name) for name in models.split())
    request = PlanRequest(target=target, context=CONTEXTS[context], max_draft=8)
    if models in WRITERS:
        target = replace(target, cache_type_k_mtp="q8_0")
        request = replace(request, target=target, mtp=True)
    for draft in drafts:
        own_types = replace(draft, cache_type_k="q8_0")
        is_file = "lay:" in models
        request = request.beside(own_types) if is_file else replace(request, draft=own_types)
    plan = assert_as_allocated(planner, request)
    assert plan.buffers == plan.target.buffers + (plan.draft.buffers if plan.draft else ())
    if models in WRITERS:
        without = planner.plan(replace(request, mtp=False))
        assert without.draft is None
        sizes = [sum(one.size_bytes for one in found.buffers) for found in (without, plan)]
        assert sizes[0] < sizes[1]
        assert without.target.info.mtp_layers == plan.target.info.mtp_layers > 0


def test_mapped_weights_are_told_apart_and_a_file_that_changed_is_read_again(
    planner: Planner, model: Model, tmp_path: Path
) -> None:
    for mmap, device in ((True, "CPU_Mapped"), (False, "CPU")):
        options = replace(model("llama"), mmap=mmap)
        plan = assert_as_allocated(planner, PlanRequest(target=options, context=SMALL))
        weights = [one for one in plan.buffers if one.kind is BufferKind.WEIGHTS]
        assert [(one.device, one.is_mapped) for one in weights] == [(device, mmap)]
    path = tmp_path / "model.gguf"
    for kind in ("llama", "mamba"):
        path.write_bytes(model(kind).path.read_bytes())
        request = PlanRequest(target=ModelOptions(path=path), context=SMALL)
        assert planner.plan(request).target.info.arch == kind


def test_snapshots_for_longer_drafts_of_mtp_layers_take_more(
    planner: Planner, model: Model
) -> None:
    request = PlanRequest(target=model("qwen35"), context=SMALL, mtp=True)
    plans = [planner.plan(replace(request, max_draft=n)) for n in (1, 3, 7)]
    assert {plan.target.rollback for plan in plans} == {Rollback.SNAPSHOT}
    sizes = [planned_bytes(plan.buffers)[HOST, "cache"] for plan in plans]
    assert sizes[1] > sizes[0]
    assert sizes[2] - sizes[1] == 2 * (sizes[1] - sizes[0])


# The shapes of real models


@pytest.fixture(scope="module")
def headers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, int, Shape]]:
    """Files, bytes of their weights and their shapes, with short vocabularies to save time."""
    folder = tmp_path_factory.mktemp("headers")
    found = {}
    for shape in (QWEN3_NEXT_80B_A3B, QWEN3_30B_A3B, QWEN3_0_6B):
        short = replace(shape, n_vocab=1024, n_merges=100)
        path = folder / f"{shape.arch}.gguf"
        found[shape.arch] = path, write_header(short, path), short
    return found


@pytest.mark.parametrize("arch", ["qwen3next", "qwen3moe", "qwen3"])
def test_a_header_tells_a_large_models_memory(
    planner: Planner, headers: dict[str, tuple[Path, int, Shape]], arch: str
) -> None:
    path, weights_bytes, shape = headers[arch]
    assert path.stat().st_blocks * 512 < 2e6
    n_ctx = 16_384
    request = PlanRequest(
        target=ModelOptions(path=path), context=ContextOptions(ctx_size=n_ctx, threads=1)
    )
    plan = planner.plan(request).target
    cache_bytes = shape.n_attention_layers * 2 * 2 * shape.n_heads_kv * shape.head_dim * n_ctx
    state_bytes = 0
    if shape.linear is not None:
        per_layer = 3 * shape.linear.conv_dim + shape.linear.inner * shape.linear.head_dim
        state_bytes = (shape.n_layers - shape.n_attention_layers) * per_layer * 4
    sizes = planned_bytes(plan.buffers)
    assert sizes[HOST, "cache"] == cache_bytes + state_bytes
    weights = sum(one.size_bytes for one in plan.buffers if one.kind is BufferKind.WEIGHTS)
    # Each tensor begins at a multiple of 32 bytes; a tied output is the embedding again.
    assert 0 <= weights - weights_bytes < 0.001 * weights_bytes
    assert (plan.info.n_experts, plan.info.n_layers) == (shape.n_experts, shape.n_layers)
    assert plan.rollback is (Rollback.CHECKPOINT if shape.linear else Rollback.TRUNCATE)


# What cannot be planned


def test_errors_come_from_the_child_and_it_goes_on(planner: Planner, tiny: TinyPath) -> None:
    good, other = (ModelOptions(path=tiny(recipe)) for recipe in (TARGET, Tiny(n_extra=200)))
    plan = planner.plan(PlanRequest(target=good, draft=other, context=SMALL))
    assert plan.draft is not None
    assert "differ in size" in str(plan.incompatibility)
    pid = planner.pid
    nowhere = (TensorOverride(pattern="exps", buffer="CUDA9"),)
    for target, kind, said in (
        (replace(good, path=Path("missing.gguf")), BadInputError, "no such file"),
        (replace(good, path=tiny(EMBEDDING)), BadInputError, "embedding model"),
        (replace(good, path=Path("x" * 5000)), BadInputError, r"read \(File name too long\)"),
        (replace(good, override_tensor=nowhere), UsageError, "no buffer type CUDA9"),
    ):
        with pytest.raises(kind, match=said):
            planner.plan(PlanRequest(target=target))
    # The target's fault is told first.
    ours, theirs = (ModelOptions(path=Path(f"{name}.gguf")) for name in ("ours", "theirs"))
    with pytest.raises(BadInputError, match="ours"):
        planner.plan(PlanRequest(target=ours, draft=theirs))
    planner.plan(PlanRequest(target=good, context=SMALL))
    assert planner.pid == pid


# The child


def test_a_child_that_was_killed_is_replaced(
    tiny: TinyPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = PlanRequest(target=ModelOptions(path=tiny(TARGET)), context=SMALL)
    with Planner() as planner:
        before = planner.plan(request)
        first = planner.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        with pytest.raises(DoesNotFitError, match=r"memory ran out while it was planned \(SIGKILL"):
            planner.plan(request)
        assert planner.plan(request) == before
        second = planner.pid
        assert second not in {None, first}
        assert second is not None
        os.kill(second, signal.SIGABRT)
        # Of no file.
        with pytest.raises(BadInputError, match=r"this machine: .* SIGABRT .* driver"):
            planner.gpus()
        # More than can be told is no end of memory.
        planner.plan(request)
        monkeypatch.setattr(children, "MOST_BYTES", 500)
        with pytest.raises(BadInputError, match=r"llama\.cpp.s description of it cannot") as told:
            planner.plan(replace(request, context=CONTEXTS["odd"]))
        assert str(request.target.path) in str(told.value)
        assert planner.pid is None
    with Planner(timeout_s=0.0) as planner:
        pid = planner.pid
        with pytest.raises(BadInputError, match="did not come to an end"):
            planner.plan(request)
    assert not any(psutil.pid_exists(one) for one in (first, second, pid or 0) if one)


def test_a_child_without_memory_says_so(
    tiny: TinyPath, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound = f"import resource; resource.setrlimit(resource.RLIMIT_DATA, ({48 << 20},) * 2)"
    (tmp_path / "sitecustomize.py").write_text(bound, encoding="ascii")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    request = PlanRequest(target=ModelOptions(path=tiny(TARGET)), context=SMALL)
    said = r"\.gguf: memory ran out while it was planned \(.*close other"
    with Planner() as planner, pytest.raises(DoesNotFitError, match=said):
        planner.plan(request)


ENDLESS = """
import sys
from pathlib import Path
from spectui.options.setup import ContextOptions, ModelOptions
from spectui.engine.planning import Planner
from spectui.llama.planned import PlanRequest
options = ModelOptions(path=Path(sys.argv[1]))
request = PlanRequest(target=options, draft=options)
with Planner() as planner:
    planner.plan(request)
    assert "llama_cpp" not in sys.modules
    print(planner.pid, flush=True)
    while True:
        planner.plan(request)
"""


@pytest.mark.ci
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["ctrl-c", "killed"])
def test_no_child_is_left_behind(tiny: TinyPath, number: signal.Signals) -> None:
    command = [sys.executable, "-c", ENDLESS, str(tiny(TARGET))]
    with subprocess.Popen(
        command, stdout=PIPE, stderr=PIPE, text=True, start_new_session=True
    ) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        os.killpg(parent.pid, number)
        try:
            assert parent.wait(ALIVE_S) == -number
        finally:
            parent.kill()
        child.wait(ALIVE_S)


def test_a_broken_draft_is_told_apart_from_its_target(tiny: TinyPath, tmp_path: Path) -> None:
    target = ModelOptions(path=tiny(TARGET))
    nonsense = tmp_path / "nonsense.gguf"
    nonsense.write_bytes(tiny(MOE).read_bytes().replace(b"expert_used_count", b"expert_used_coins"))
    request = PlanRequest(target=target, draft=ModelOptions(path=nonsense), context=SMALL)
    with Planner() as planner:
        planner.backend()
        with pytest.raises(BadInputError, match=r"nonsense\.gguf: .* SIGABRT .*llama-model\.cpp:"):
            planner.plan(request)
        assert planner.pid is None
        planner.plan(replace(request, draft=target))


def test_one_process_plans_whatever_is_asked(
    planner: Planner, headers: dict[str, tuple[Path, int, Shape]]
) -> None:
    """Counts of processes, unlike seconds, are the same on every machine."""
    target, draft = (ModelOptions(path=headers[arch][0]) for arch in ("qwen3moe", "qwen3"))
    request = PlanRequest(target=target, draft=draft)
    pair = planner.plan(request)
    assert pair.draft is not None
    assert (pair.draft.info.arch, pair.incompatibility) == ("qwen3", None)
    pid = planner.pid
    for ctx_size in (256, 1024):
        shorter = replace(request, context=ContextOptions(ctx_size=ctx_size))
        both, alone = planner.plan(shorter), planner.plan(replace(shorter, draft=None))
        assert both.target == alone.target
    assert planner.pid == pid


# Several GPUs


def test_a_draft_is_split_by_what_the_target_leaves(planner: Planner, tiny: TinyPath) -> None:
    plan = planner.plan(PlanRequest(target=ModelOptions(path=tiny(TARGET)), context=SMALL)).target
    weights = Buffer(device="CUDA0", kind=BufferKind.WEIGHTS, size_bytes=700)
    cache = Buffer(device="CUDA1", kind=BufferKind.KV, size_bytes=900)
    on_gpus = replace(plan, buffers=(weights, cache))
    for free, split in (
        ((1000, 1000), (75, 25)),
        ((1000, 800), (100, 0)),
        # Llama.cpp has to choose where nothing is left, where it is not told, and on one GPU.
        *((one, ()) for one in ((700, 900), (1000, None), (1000,))),
    ):
        gpus = tuple(
            DeviceMemory(name=f"CUDA{at}", description="x", free_bytes=n, total_bytes=n)
            for at, n in enumerate(free)
        )
        assert split_beside(on_gpus, gpus) == split
