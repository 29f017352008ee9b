"""The guard before loading: what cannot fit is refused before anything is allocated."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from spectui.closing import Closing
from spectui.engine import guard as guard_module
from spectui.engine import planning
from spectui.engine.commands import Generate, LoadTarget
from spectui.engine.demand import FreeMemory
from spectui.engine.driver import Engine
from spectui.engine.events import Event, LoadWarned
from spectui.engine.guard import Guard
from spectui.engine.planning import Planner
from spectui.engine.thread import EngineThread
from spectui.engine.worker import LocalWorker
from spectui.errors import DoesNotFitError, ReadsFromDiskError
from spectui.llama.buffers import Buffer, BufferKind, DeviceMemory
from spectui.llama.planned import Plan, PlanRequest
from spectui.options.setup import GREEDY, ContextOptions, FlashAttention, ModelOptions, Setup
from tests.support.allocation import KINDS
from tests.support.architectures import write_qwen35
from tests.support.engine import local_worker
from tests.support.kept_planner import end_planners, keeping_planners
from tests.support.models import CLOSE_DRAFT, ROUGH_DRAFT, TARGET, Tiny, TinyPath
from tests.support.plans import Script, room
from tests.support.shapes import QWEN3_0_6B, QWEN3_30B_A3B, QWEN3_NEXT_80B_A3B, write_header

pytest_plugins = ["tests.support.fixtures"]

SMALL = ContextOptions(ctx_size=256, ubatch_size=64, threads=1)
FROM_DISK = "read from disk again and again"
WRITERS: dict[str, Callable[[Path], object]] = {
    **KINDS,
    "mtp": partial(write_qwen35, Tiny()),
    "0.6b": partial(write_header, QWEN3_0_6B),
    "30b": partial(write_header, QWEN3_30B_A3B),
    "80b": partial(write_header, QWEN3_NEXT_80B_A3B),
}


@pytest.fixture(scope="module")
def planner() -> Iterator[Planner]:
    """Plans for every guard."""
    with keeping_planners():
        yield planning.Planner()
    end_planners()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], ModelOptions]:
    folder = tmp_path_factory.mktemp("models")

    def written(name: str) -> ModelOptions:
        path = folder / f"{name}.gguf"
        if not path.exists():
            WRITERS[name](path)
        return ModelOptions(path=path)

    return written


@pytest.fixture
def pair(tiny: TinyPath) -> PlanRequest:
    target, draft = (ModelOptions(path=tiny(one)) for one in (TARGET, CLOSE_DRAFT))
    return PlanRequest(target=target, draft=draft, context=SMALL, max_draft=4)


def with_ram(n_bytes: int) -> Guard:
    return Guard(lambda _gpus: room(CPU=n_bytes))


def sizes_of(buffers: tuple[Buffer, ...]) -> tuple[int, int]:
    """Bytes that are allocated, and that are mapped."""
    mapped = sum(one.size_bytes for one in buffers if one.is_mapped)
    return sum(one.size_bytes for one in buffers) - mapped, mapped


def draft_sizes(plan: Plan) -> tuple[int, int]:
    assert plan.draft is not None
    return sizes_of(plan.draft.buffers)


@pytest.mark.parametrize(
    ("target", "draft", "n_ctx"),
    [
        ("llama", None, 256),
        ("lfm2", "moe", 4096),
        ("mtp", "mtp", 4096),
        pytest.param("window", "llama", 4096, marks=pytest.mark.ci),
        pytest.param("mamba", "llama", 256, marks=pytest.mark.ci),
        pytest.param("30b", "0.6b", 4096, marks=pytest.mark.ci),
    ],
)
def test_the_plan_decides_to_the_byte(
    planner: Planner,
    model: Callable[[str], ModelOptions],
    target: str,
    draft: str | None,
    n_ctx: int,
) -> None:
    request = PlanRequest(
        target=model(target),
        draft=None if draft in {None, "mtp"} else model(str(draft)),
        mtp=draft == "mtp",
        context=ContextOptions(ctx_size=n_ctx, threads=1),
        max_draft=8,
    )
    allocated, mapped = sizes_of(planner.plan(request).buffers)
    assert mapped > 0
    with pytest.raises(DoesNotFitError, match=rf"{target}\.gguf.*RAM has no room") as refused:
        with_ram(allocated - 1).check(request, from_disk=True)
    assert not isinstance(refused.value, ReadsFromDiskError)
    # llama-server runs what leaves nothing over.
    assert with_ram(allocated + mapped).check(request) is None
    with pytest.raises(ReadsFromDiskError, match=FROM_DISK):
        with_ram(allocated + mapped - 1).check(request)
    assert FROM_DISK in str(with_ram(allocated).check(request, from_disk=True))


@pytest.mark.long
@pytest.mark.parametrize("flash", FlashAttention)
@pytest.mark.parametrize("kind", [name for name in WRITERS if name != "0.6b"])
def test_headers_never_tell_less_than_the_plan(
    planner: Planner, model: Callable[[str], ModelOptions], kind: str, flash: FlashAttention
) -> None:
    for n_ctx, n_ubatch in product((256, 4096, 20_000), (64, 512, 2048)):
        context = ContextOptions(ctx_size=n_ctx, ubatch_size=n_ubatch, flash_attn=flash, threads=1)
        request = PlanRequest(target=model(kind), mtp=kind == "mtp", context=context)
        planned = sum(sizes_of(planner.plan(request).buffers))
        assert planned <= guard_module._most_bytes(request), (n_ctx, n_ubatch)


def test_what_fits_easily_is_not_even_planned(
    pair: PlanRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    def planner(**_options: object) -> Planner:
        raise AssertionError("planned")

    monkeypatch.setattr(guard_module, "Planner", planner)
    assert with_ram(8 << 30).check(pair) is None
    assert with_ram(8 << 30).fit_together(pair, pair)
    with pytest.raises(AssertionError, match="planned"):
        with_ram(8 << 20).check(pair)


def test_plans_are_remembered_until_a_file_changes(
    planner: Planner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, asked = tmp_path / "target.gguf", list[PlanRequest]()
    request = PlanRequest(target=ModelOptions(path=path), context=SMALL)

    def plan(request: PlanRequest) -> Plan:
        asked.append(request)
        return planner.plan(request)

    monkeypatch.setattr(guard_module, "Planner", lambda **_options: Scripted(plan))
    KINDS["llama"](path)
    guard = with_ram(sum(sizes_of(planner.plan(request).buffers)))
    assert guard.check(request) is guard.check(request) is None
    assert len(asked) == 1
    KINDS["moe"](path)
    with pytest.raises(DoesNotFitError):
        guard.check(request)


@pytest.mark.parametrize("data", [None, b"GGUF", b"no model"])
def test_what_cannot_be_planned_is_not_refused(
    tmp_path: Path, tiny: TinyPath, data: bytes | None
) -> None:
    path = tmp_path / "odd.gguf"
    if data is not None:
        whole = tiny(TARGET).read_bytes().replace(b"llama", b"lamma")
        path.write_bytes(data if data == b"GGUF" else whole)
    request = PlanRequest(target=ModelOptions(path=path), context=SMALL)
    with with_ram(0) as guard:
        assert guard.check(request) is None
        assert guard.fit_together(request, request) is None
        assert guard.judge(request, room(CPU=0)) == (None, None)


def test_a_draft_is_refused_beside_a_loaded_target(planner: Planner, pair: PlanRequest) -> None:
    plan = planner.plan(pair)
    own, mapped = draft_sizes(plan)
    gone = plan.target.buffers
    # The target's caches are taken already; its mapped weights are in what counts as free.
    assert with_ram(own + sizes_of(plan.buffers)[1]).check(pair, gone=gone) is None
    with pytest.raises(ReadsFromDiskError):
        with_ram(own + mapped).check(pair, gone=gone)
    with pytest.raises(DoesNotFitError, match="choose a shorter -c"):
        with_ram(own - 1).check(pair, gone=gone)


# On a GPU


class Scripted(Closing):
    """A planner by arithmetic."""

    rpc = ()

    def __init__(self, plan: Callable[[PlanRequest], Plan], *gpus: str) -> None:
        self.plan = plan
        self._gpus = tuple(
            DeviceMemory(name=name, description="x", free_bytes=None, total_bytes=None)
            for name in gpus
        )

    def gpus(self) -> tuple[DeviceMemory, ...]:
        return self._gpus

    def close(self) -> None:
        """Nothing is open."""


def use(
    patch: pytest.MonkeyPatch, script: Callable[[PlanRequest], Plan], *gpus: str
) -> Callable[..., Guard]:
    """Let guards plan by arithmetic, on a machine with a GPU."""
    patch.setattr(guard_module, "Planner", lambda **_options: Scripted(script, *gpus))
    patch.setattr(guard_module, "has_gpu", lambda: True)
    return lambda **free: Guard(lambda _gpus: room(**free))


def test_a_gpu_is_filled_to_the_byte(tiny: TinyPath, monkeypatch: pytest.MonkeyPatch) -> None:
    guard = use(monkeypatch, Script())
    request = PlanRequest(target=ModelOptions(path=tiny(TARGET)))
    needed = 50 + 10 * 100 + 4096
    assert guard(CUDA0=needed, CPU=100).check(request) is None
    with pytest.raises(DoesNotFitError, match=r"CUDA0 has no room: .*spectui doctor shows what"):
        guard(CUDA0=needed - 1, CPU=100).check(request)


def test_among_several_gpus_plans_are_made_anew(
    pair: PlanRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = Script(draft_bytes=500)
    guard = use(monkeypatch, script, "CUDA0", "CUDA1")
    roomy = guard(CUDA0=8192, CUDA1=300, CPU=100)
    for n_asked in (1, 2):
        roomy.check(pair)
        assert len(script.asked) == n_asked


# The engine


class Machine:
    """An engine on a machine whose free memory tests change."""

    def __init__(self) -> None:
        self.n_bytes, self.is_taken = 1 << 40, False
        self.events: list[Event] = []
        self.thread = EngineThread(LocalWorker(Guard(self._free)))
        self.models = local_worker(self.thread).models

    def _free(self, _gpus: tuple[DeviceMemory, ...]) -> FreeMemory:
        return room(CPU=self.n_bytes - (sizes_of(self.models.buffers)[0] if self.is_taken else 0))

    def load(self, request: PlanRequest, *, from_disk: bool = False) -> Engine:
        self.events.clear()
        engine = Engine(self.events.append, shared=self.thread, from_disk=from_disk)
        rest: Any = {"max_draft": request.max_draft, "mtp": request.mtp, "draft": request.draft}
        engine.load_target(LoadTarget(options=request.target, context=request.context, **rest))
        return engine


@pytest.fixture
def machine(planner: Planner) -> Iterator[Machine]:
    assert planner.pid
    made = Machine()
    yield made
    made.thread.close()


def test_a_pair_is_refused_before_anything_of_it_is_loaded(
    machine: Machine, planner: Planner, pair: PlanRequest, model: Callable[[str], ModelOptions]
) -> None:
    alone = replace(pair, draft=None)
    own_layers = replace(alone, target=model("mtp"), mtp=True)
    for wanted, lacks in ((pair, alone), (own_layers, replace(own_layers, mtp=False))):
        machine.n_bytes = sizes_of(planner.plan(wanted).buffers)[0] - 1
        with pytest.raises(DoesNotFitError, match="RAM has no room"):
            machine.load(wanted, from_disk=True)
        assert (machine.events, machine.models.buffers) == ([], ())
        machine.load(lacks, from_disk=True)
        machine.load(replace(alone, target=pair.target), from_disk=True)
        local_worker(machine.thread).models.close()


def test_a_draft_that_comes_later_is_refused_and_the_target_stays(
    machine: Machine, pair: PlanRequest, tiny: TinyPath
) -> None:
    engine = machine.load(replace(pair, draft=None))
    machine.n_bytes = 1 << 10
    with pytest.raises(DoesNotFitError, match=r" with .*RAM has no room"):
        engine.load_draft(ModelOptions(path=tiny(CLOSE_DRAFT)))
    command = Generate(prompt=(88, 102), n_predict=4, sampling=GREEDY)
    assert len(engine.generate(command).tokens) == 4
    machine.n_bytes = 1 << 40
    engine.load_draft(ModelOptions(path=tiny(ROUGH_DRAFT)))


def test_a_model_that_makes_room_is_not_counted_and_who_wants_it_reads_from_disk(
    machine: Machine, planner: Planner, pair: PlanRequest
) -> None:
    target = replace(pair, draft=None)
    allocated, mapped = sizes_of(planner.plan(target).buffers)
    machine.n_bytes, machine.is_taken = allocated + mapped, True
    for _ in range(2):
        machine.load(target)
    assert machine.models.buffers
    machine.n_bytes, machine.is_taken = allocated, False
    with pytest.raises(ReadsFromDiskError, match="--yes loads it all the same"):
        machine.load(target)
    machine.load(target, from_disk=True)
    (warned,) = (event for event in machine.events if isinstance(event, LoadWarned))
    assert FROM_DISK in warned.warning


# Servers


def test_two_servers_share_what_they_map_and_slots_have_caches_of_their_own(
    planner: Planner, pair: PlanRequest
) -> None:
    off = replace(pair, draft=None)
    (off_own, off_mapped), (on_own, on_mapped) = (
        sizes_of(planner.plan(one).buffers) for one in (off, pair)
    )
    assert on_mapped > off_mapped > 0
    assert with_ram(off_own + on_own + on_mapped).fit_together(off, pair)
    assert not with_ram(off_own + on_own + on_mapped - 1).fit_together(off, pair)
    setup = Setup(target=pair.target, draft=pair.draft, context=SMALL, speculation=None, n_slots=4)
    request = PlanRequest.of(setup)
    assert request == replace(off, max_draft=1, n_slots=4)
    plans = [planner.plan(replace(request, n_slots=n)).buffers for n in (1, 4)]
    caches = [sum(one.size_bytes for one in p if one.kind is BufferKind.KV) for p in plans]
    assert caches[1] == 4 * caches[0]
    needed = sum(sizes_of(plans[1]))
    assert with_ram(needed).check(request) is None
    with pytest.raises(DoesNotFitError):
        with_ram(needed - 1).check(request)
