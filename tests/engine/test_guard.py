"""The guard before loading: what cannot fit is refused before anything is allocated."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectui.closing import Closing
from spectui.engine import guard as guard_module
from spectui.engine.commands import Generate, LoadTarget
from spectui.engine.demand import MARGIN_BYTES, FreeMemory, demands, least_left
from spectui.engine.driver import Engine
from spectui.engine.events import LoadProgress, LoadWarned, ModelLoaded
from spectui.engine.fitting import with_n_cpu_moe
from spectui.engine.guard import Guard, request_of
from spectui.engine.host_memory import can_lock
from spectui.engine.planning import Planner
from spectui.engine.thread import EngineThread
from spectui.engine.worker import LocalWorker
from spectui.errors import DoesNotFitError, ReadsFromDiskError
from spectui.llama.buffers import BufferKind, DeviceMemory
from spectui.llama.planned import ModelPlan, Plan, PlanRequest
from spectui.options.setup import (
    GREEDY,
    ContextOptions,
    FlashAttention,
    ModelOptions,
    Setup,
)
from tests.support.allocation import KINDS
from tests.support.engine import local_worker
from tests.support.models import CLOSE_DRAFT, MOE, ROUGH_DRAFT, TARGET, Tiny, TinyPath
from tests.support.mtp import write_qwen35
from tests.support.plans import Script, buffer, room
from tests.support.shapes import QWEN3_0_6B, QWEN3_30B_A3B, QWEN3_NEXT_80B_A3B, write_header

pytest_plugins = ["tests.support.fixtures"]

SMALL = ContextOptions(ctx_size=256, ubatch_size=64, threads=1)


class Lasting(Closing):
    """A planner that many guards use."""

    rpc = ()

    def __init__(self, planner: Planner) -> None:
        self._planner = planner
        self.is_open = True

    def plan(self, request: PlanRequest) -> Plan:
        assert self.is_open
        return self._planner.plan(request)

    def gpus(self) -> tuple[DeviceMemory, ...]:
        return self._planner.gpus()

    def close(self) -> None:
        self.is_open = False


@pytest.fixture(scope="module")
def planner() -> Iterator[Planner]:
    with Planner(has_drafts=True) as made:
        yield made


@pytest.fixture
def lasting(planner: Planner, monkeypatch: pytest.MonkeyPatch) -> Planner:
    """Plans come from one process, for which nobody waits every time."""
    monkeypatch.setattr(guard_module, "Planner", lambda **_options: Lasting(planner))
    return planner


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    paths = {name: folder / f"{name}.gguf" for name in (*KINDS, "0.6b", "30b", "80b", "mtp")}
    for name, write in KINDS.items():
        write(paths[name])
    for name, shape in (
        ("0.6b", QWEN3_0_6B),
        ("30b", QWEN3_30B_A3B),
        ("80b", QWEN3_NEXT_80B_A3B),
    ):
        write_header(shape, paths[name])
    write_qwen35(Tiny(), paths["mtp"])
    return paths


def scripted(host_bytes: int, **rest: int) -> Guard:
    """A guard on a machine with so much free RAM."""
    return Guard(lambda _gpus: replace(room(CPU=host_bytes), slow_bytes=rest.get("slow_bytes", 0)))


def sizes_of(plan: Plan) -> tuple[int, int]:
    """Bytes that are allocated, and that are mapped."""
    mapped = sum(one.size_bytes for one in plan.buffers if one.is_mapped)
    return sum(one.size_bytes for one in plan.buffers) - mapped, mapped


PAIRS = [
    *product(("llama", "moe", "window", "lfm2", "mamba"), (None, "llama", "moe"), (256, 4096)),
    ("30b", "0.6b", 4096),
    ("30b", None, 262_144),
    ("80b", None, 4096),
    ("80b", "0.6b", 32_768),
    ("mtp", "mtp", 4096),
]
"""(target, draft, ``-c``); ``mtp`` drafts for itself."""
FEW_PAIRS = (("llama", None, 256), ("lfm2", "moe", 4096), ("mtp", "mtp", 4096))


def request_for(models: dict[str, Path], target: str, draft: str | None, n: int) -> PlanRequest:
    is_mtp = draft == "mtp"
    return PlanRequest(
        target=ModelOptions(path=models[target]),
        draft=None if draft is None or is_mtp else ModelOptions(path=models[draft]),
        mtp=is_mtp,
        context=ContextOptions(ctx_size=n, threads=1),
        max_draft=8,
    )


@pytest.mark.ci
@pytest.mark.slow
@pytest.mark.parametrize(("target", "draft", "n_ctx"), PAIRS)
def test_the_plan_decides_to_the_byte(
    lasting: Planner, models: dict[str, Path], target: str, draft: str | None, n_ctx: int
) -> None:
    request = request_for(models, target, draft, n_ctx)
    allocated, mapped = sizes_of(lasting.plan(request))
    with pytest.raises(DoesNotFitError, match="RAM has no room") as refused:
        scripted(allocated - 1).check(request, from_disk=True)
    assert not isinstance(refused.value, ReadsFromDiskError)
    assert models[target].name in str(refused.value)
    # llama-server runs what leaves nothing over.
    assert scripted(allocated + mapped).check(request) is None
    if mapped:
        with pytest.raises(ReadsFromDiskError, match="read from disk again and again"):
            scripted(allocated + mapped - 1).check(request)
        warning = scripted(allocated).check(request, from_disk=True)
        assert "read from disk again and again" in str(warning)
    # Swap keeps it alive, slowly.
    with pytest.raises(ReadsFromDiskError):
        scripted(allocated - 1, slow_bytes=1).check(request)
    assert scripted(allocated - 1, slow_bytes=1).check(request, from_disk=True) is not None


@pytest.mark.ci
@pytest.mark.parametrize("flash", FlashAttention)
@pytest.mark.parametrize("kind", [*KINDS, "mtp", "30b", "80b"])
def test_headers_never_tell_less_than_the_plan(
    planner: Planner, models: dict[str, Path], kind: str, flash: FlashAttention
) -> None:
    for n_ctx, n_ubatch in product((256, 4096, 20_000), (64, 512, 2048)):
        context = ContextOptions(ctx_size=n_ctx, ubatch_size=n_ubatch, flash_attn=flash, threads=1)
        request = PlanRequest(
            target=ModelOptions(path=models[kind]), mtp=kind == "mtp", context=context
        )
        planned = sum(sizes_of(planner.plan(request)))
        assert planned <= guard_module._most_bytes(request), (n_ctx, n_ubatch)


def test_what_fits_easily_is_not_even_planned(
    tiny: TinyPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    def planner(**_options: object) -> Planner:
        raise AssertionError("planned")

    monkeypatch.setattr(guard_module, "Planner", planner)
    pair = PlanRequest(
        target=ModelOptions(path=tiny(TARGET)),
        draft=ModelOptions(path=tiny(CLOSE_DRAFT)),
        context=SMALL,
    )
    assert scripted(8 << 30).check(pair) is None
    assert scripted(8 << 30).fit_together(pair, pair)
    with pytest.raises(AssertionError, match="planned"):
        scripted(8 << 20).check(pair)


def test_plans_are_remembered_until_a_file_changes(
    lasting: Planner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "target.gguf"
    KINDS["llama"](path)
    asked: list[PlanRequest] = []
    plan = Lasting.plan

    def counted(self: Lasting, request: PlanRequest) -> Plan:
        asked.append(request)
        return plan(self, request)

    monkeypatch.setattr(Lasting, "plan", counted)
    request = PlanRequest(target=ModelOptions(path=path), context=SMALL)
    allocated, mapped = sizes_of(lasting.plan(request))
    guard = scripted(allocated + mapped)
    assert guard.check(request) is guard.check(request) is None
    assert len(asked) == 1
    KINDS["moe"](path)
    with pytest.raises(DoesNotFitError):
        guard.check(request, from_disk=False)
    assert len(asked) > 1


@pytest.mark.parametrize("what", ["missing", "nonsense", "no model"])
def test_what_cannot_be_planned_is_not_refused(tmp_path: Path, tiny: TinyPath, what: str) -> None:
    path = tmp_path / "odd.gguf"
    if what != "missing":
        whole = tiny(TARGET).read_bytes()
        path.write_bytes(b"GGUF" if what == "nonsense" else whole.replace(b"llama", b"lamma"))
    request = PlanRequest(target=ModelOptions(path=path), context=SMALL)
    with scripted(0) as guard:
        assert guard.check(request) is None
        assert guard.fit_together(request, request) is None
        assert guard.judge(request, room(CPU=0)) == (None, None)


def test_a_draft_is_refused_beside_a_loaded_target(lasting: Planner, tiny: TinyPath) -> None:
    request = PlanRequest(
        target=ModelOptions(path=tiny(TARGET)),
        draft=ModelOptions(path=tiny(CLOSE_DRAFT)),
        context=SMALL,
    )
    plan = lasting.plan(request)
    assert plan.draft is not None
    own, mapped = sizes_of(Plan(target=plan.draft, draft=None, incompatibility=None))
    both_mapped = sizes_of(plan)[1]
    # The target's caches are taken already; its mapped weights are in what counts as free.
    assert scripted(own + both_mapped).check(request, has_target=True) is None
    with pytest.raises(ReadsFromDiskError):
        scripted(own + mapped).check(request, has_target=True)
    with pytest.raises(DoesNotFitError, match="the target without its draft"):
        scripted(own - 1).check(request, has_target=True)


def test_locked_weights_need_room_like_all_that_is_allocated(
    lasting: Planner, tiny: TinyPath
) -> None:
    target = ModelOptions(path=tiny(TARGET), mlock=True)
    draft = ModelOptions(path=tiny(CLOSE_DRAFT), mlock=True)
    request = PlanRequest(target=target, draft=draft, context=SMALL)
    plan = lasting.plan(request)
    assert plan.draft is not None
    allocated, mapped = sizes_of(plan)
    if not can_lock(allocated + mapped):
        pytest.skip("this process may not lock so much")
    assert scripted(allocated + mapped).check(request) is None
    with pytest.raises(DoesNotFitError, match="leave out --mlock, so that weights may be read"):
        scripted(allocated + mapped - 1).check(request, from_disk=True)
    # What a loaded target has locked is not free any more.
    own = sum(sizes_of(Plan(target=plan.draft, draft=None, incompatibility=None)))
    assert scripted(own).check(request, has_target=True) is None
    with pytest.raises(DoesNotFitError):
        scripted(own - 1).check(request, has_target=True)


# What would fit


FIELDS = {"-ngl": "n_gpu_layers", "-ctk": "cache_type_k", "-ctv": "cache_type_v"}
CONTEXT = {"-c": "ctx_size", "-fa": "flash_attn"}


def options_of(request: PlanRequest, remedy: str) -> PlanRequest:
    """The request with the options that are advised."""
    if remedy.startswith("the target"):
        return replace(request, draft=None)
    words = remedy.split()
    for flag, word in zip(words[::2], words[1::2], strict=True):
        value: Any = FlashAttention(word) if flag == "-fa" else word
        value = int(word) if word.isdecimal() else value
        if flag == "--n-cpu-moe":
            request = replace(request, target=with_n_cpu_moe(request.target, value))
        elif flag in CONTEXT:
            changed: Any = {CONTEXT[flag]: value}
            request = replace(request, context=replace(request.context, **changed))
        elif flag in FIELDS:
            changed = {FIELDS[flag]: value}
            request = replace(request, target=replace(request.target, **changed))
        else:
            assert request.draft is not None
            changed = {FIELDS[flag.removesuffix("d")]: value}
            request = replace(request, draft=replace(request.draft, **changed))
    return request


def advised(error: DoesNotFitError) -> list[str]:
    text = error.reason if isinstance(error, ReadsFromDiskError) else str(error)
    _before, found, after = text.rpartition("; use ")
    return after.split(", or ") if found else []


@pytest.mark.ci
@pytest.mark.slow
@pytest.mark.parametrize("n_bytes", [18 << 30, 24 << 30, 36 << 30])
@pytest.mark.parametrize("flash", [FlashAttention.AUTO, FlashAttention.OFF])
def test_what_is_advised_fits(
    lasting: Planner, models: dict[str, Path], n_bytes: int, flash: FlashAttention
) -> None:
    request = request_for(models, "30b", "0.6b", 131_072)
    request = replace(request, context=replace(request.context, flash_attn=flash))
    with pytest.raises(DoesNotFitError) as refused:
        scripted(n_bytes).check(request)
    remedies = advised(refused.value)
    assert remedies[0].startswith("-c ")
    for remedy in remedies:
        found = demands(lasting.plan(options_of(request, remedy)), room(CPU=n_bytes))
        assert least_left(found) >= 0, remedy
    n_ctx = int(remedies[0].split()[1])
    too_large = lasting.plan(options_of(request, f"-c {n_ctx + 256}"))
    is_trained_for_more = n_ctx < too_large.target.info.n_ctx_train
    assert not is_trained_for_more or least_left(demands(too_large, room(CPU=n_bytes))) < 0


class OnGpu(Script):
    """Plans whose target also takes ``-ngl`` and types of caches at their word."""

    def _target(self, request: PlanRequest) -> ModelPlan:
        target, n_all = request.target, self.n_layers + 1
        n = n_all if target.n_gpu_layers < 0 else min(target.n_gpu_layers, n_all)
        plan = Script._target(self, request)
        cache = request.context.ctx_size * self.cache_bytes
        cache = cache // 2 if target.cache_type_k == "q8_0" else cache
        weights = sum(one.size_bytes for one in plan.buffers if one.device == "CUDA0")
        weights -= request.context.ctx_size * self.cache_bytes
        on_gpu = (weights + cache) * n // n_all
        in_ram = [one for one in plan.buffers if one.device != "CUDA0"]
        rest = weights + cache - on_gpu
        return replace(
            plan,
            buffers=(
                buffer("CUDA0", BufferKind.WEIGHTS, on_gpu),
                buffer("CPU", BufferKind.WEIGHTS, rest),
                *in_ram,
            ),
        )


class ScriptedPlanner(Closing):
    """Plans by arithmetic."""

    rpc = ()

    def __init__(self, script: Callable[[PlanRequest], Plan]) -> None:
        self.plan = script

    def gpus(self) -> tuple[DeviceMemory, ...]:
        return ()

    def close(self) -> None:
        """Nothing is open."""


@given(
    gpu_bytes=st.integers(0, 6000),
    host_bytes=st.integers(0, 8000),
    n_experts=st.sampled_from([0, 4]),
    has_draft=st.booleans(),
)
def test_what_is_advised_on_a_gpu_fits(
    tiny: TinyPath, gpu_bytes: int, host_bytes: int, n_experts: int, *, has_draft: bool
) -> None:
    script = OnGpu(n_experts=n_experts, draft_bytes=500)
    free = room(CUDA0=MARGIN_BYTES + gpu_bytes, CPU=host_bytes)
    draft = ModelOptions(path=tiny(CLOSE_DRAFT)) if has_draft else None
    request = PlanRequest(target=ModelOptions(path=tiny(MOE)), draft=draft)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(guard_module, "Planner", lambda **_options: ScriptedPlanner(script))
        patch.setattr(guard_module, "has_gpu", lambda: True)
        patch.setattr(
            Script,
            "_draft",
            lambda self, _: self._plan(buffer("CUDA0", BufferKind.WEIGHTS, self.draft_bytes)),
        )
        try:
            warning = Guard(lambda _gpus: free).check(request)
        except DoesNotFitError as error:
            refused = error
        else:
            fits = all(one.fits for one in demands(script(request), free))
            assert fits
            assert (warning is None) == (least_left(demands(script(request), free)) >= 0)
            return
        assert not all(one.fits for one in demands(script(request), free))
        for remedy in advised(refused):
            found = demands(script(options_of(request, remedy)), free)
            assert least_left(found, from_disk=True) >= 0, remedy


# The engine


PROMPT = (88, 102, 126, 263)


class Machine:
    """Free memory that tests change while an engine runs."""

    def __init__(self) -> None:
        self.free = room(CPU=1 << 40)

    def __call__(self, _gpus: tuple[DeviceMemory, ...]) -> FreeMemory:
        return self.free


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.fixture
def thread(machine: Machine, lasting: Planner) -> Iterator[EngineThread]:
    assert lasting.pids
    made = EngineThread(LocalWorker(Guard(machine)))
    yield made
    made.close()


@pytest.mark.parametrize(
    "pair",
    [
        *FEW_PAIRS,
        *(pytest.param(one, marks=pytest.mark.ci) for one in PAIRS if one not in FEW_PAIRS),
    ],
    ids=str,
)
def test_nothing_is_opened_that_is_refused(
    thread: EngineThread,
    machine: Machine,
    models: dict[str, Path],
    monkeypatch: pytest.MonkeyPatch,
    pair: tuple[str, str | None, int],
) -> None:
    """Of pairs that have no room not a byte is allocated or read."""

    def opened(*_arguments: object, **_options: object) -> None:
        raise AssertionError("weights were opened")

    monkeypatch.setattr("spectui.engine.models.Model", opened)
    machine.free = room(CPU=1 << 16)
    events: list[object] = []
    engine = Engine(events.append, shared=thread, from_disk=True)
    wanted = request_for(models, *pair)
    with pytest.raises(DoesNotFitError, match="RAM has no room"):
        engine.load_target(
            wanted.target,
            wanted.context,
            max_draft=wanted.max_draft,
            mtp=wanted.mtp,
            draft=wanted.draft,
        )
    assert events == []
    assert local_worker(thread).models.buffers == ()


def test_a_pair_is_refused_before_its_target_is_loaded(
    thread: EngineThread, machine: Machine, lasting: Planner, tiny: TinyPath
) -> None:
    target, draft = (ModelOptions(path=tiny(one)) for one in (TARGET, CLOSE_DRAFT))
    alone = PlanRequest(target=target, context=SMALL, max_draft=4)
    pair = replace(alone, draft=draft)
    machine.free = room(CPU=sum(sizes_of(lasting.plan(alone))))
    assert sizes_of(lasting.plan(pair))[0] > sizes_of(lasting.plan(alone))[0]
    events: list[object] = []
    engine = Engine(events.append, shared=thread)
    with pytest.raises(DoesNotFitError):
        engine.load_target(target, SMALL, max_draft=4, draft=draft)
    assert not any(isinstance(event, LoadProgress) for event in events)
    engine.load_target(target, SMALL, max_draft=4)
    assert any(isinstance(event, LoadProgress) for event in events)


def test_a_draft_that_comes_later_is_refused_and_the_target_stays(
    thread: EngineThread, machine: Machine, tiny: TinyPath
) -> None:
    engine = Engine(shared=thread)
    engine.load_target(ModelOptions(path=tiny(TARGET)), SMALL, max_draft=4)
    machine.free = room(CPU=1 << 10)
    with pytest.raises(DoesNotFitError, match=r" with .*RAM has no room"):
        engine.load_draft(ModelOptions(path=tiny(CLOSE_DRAFT)))
    command = Generate(prompt=PROMPT, n_predict=4, sampling=GREEDY)
    assert len(engine.generate(command).tokens) == 4
    machine.free = room(CPU=1 << 40)
    engine.load_draft(ModelOptions(path=tiny(ROUGH_DRAFT)))


def test_a_model_that_makes_room_is_not_counted(
    thread: EngineThread, lasting: Planner, tiny: TinyPath
) -> None:
    """The reading comes once the pair before is gone."""
    target = ModelOptions(path=tiny(TARGET))
    needed = sum(sizes_of(lasting.plan(PlanRequest(target=target, context=SMALL, max_draft=4))))
    models = local_worker(thread).models

    def free(_gpus: tuple[DeviceMemory, ...]) -> FreeMemory:
        taken = sum(one.size_bytes for one in models.buffers if not one.is_mapped)
        return room(CPU=needed - taken)

    local_worker(thread).guard._free = free
    engine = Engine(shared=thread)
    for _ in range(2):
        engine.load_target(target, SMALL, max_draft=4)
    assert models.buffers


def test_who_wants_it_reads_from_disk_and_is_warned(
    thread: EngineThread, machine: Machine, lasting: Planner, tiny: TinyPath
) -> None:
    target = ModelOptions(path=tiny(TARGET))
    command = LoadTarget(options=target, context=SMALL, max_draft=4)
    request = PlanRequest(target=target, context=SMALL, max_draft=4)
    machine.free = room(CPU=sizes_of(lasting.plan(request))[0])
    events: list[object] = []
    engine = Engine(events.append, shared=thread)
    with pytest.raises(ReadsFromDiskError, match="--yes loads it all the same"):
        engine.load_target(target, SMALL, max_draft=command.max_draft)
    willing = Engine(events.append, shared=thread, from_disk=True)
    assert isinstance(willing.load_target(target, SMALL, max_draft=4), ModelLoaded)
    (warned,) = [event for event in events if isinstance(event, LoadWarned)]
    assert "read from disk again and again" in warned.warning


TWO_GPUS = tuple(
    DeviceMemory(name=name, description="x", free_bytes=None, total_bytes=None)
    for name in ("CUDA0", "CUDA1")
)


def test_among_several_gpus_plans_are_made_anew_and_drafts_find_their_place(
    tiny: TinyPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = Script(draft_bytes=500)
    monkeypatch.setattr(ScriptedPlanner, "gpus", lambda _self: TWO_GPUS)
    monkeypatch.setattr(guard_module, "Planner", lambda **_options: ScriptedPlanner(script))
    monkeypatch.setattr(guard_module, "has_gpu", lambda: True)
    good = ModelOptions(path=tiny(CLOSE_DRAFT))
    monkeypatch.setattr(
        Script,
        "_draft",
        lambda self, _: self._plan(buffer("CUDA0", BufferKind.WEIGHTS, self.draft_bytes)),
    )
    request = PlanRequest(target=ModelOptions(path=tiny(TARGET)), draft=good)
    guard = Guard(lambda _gpus: room(CUDA0=200, CUDA1=300, CPU=100))
    for _ in range(2):
        # It is planned on the first GPU, and llama.cpp will take what there is.
        assert guard.check(request, has_target=True) is not None
    assert len(script.asked) == 2
    with pytest.raises(DoesNotFitError, match="CUDA0 and CUDA1 has no room"):
        Guard(lambda _gpus: room(CUDA0=200, CUDA1=299, CPU=100)).check(request, has_target=True)


# Servers


def test_two_servers_share_what_they_map(lasting: Planner, tiny: TinyPath) -> None:
    target, draft = (ModelOptions(path=tiny(one)) for one in (TARGET, CLOSE_DRAFT))
    off = PlanRequest(target=target, context=SMALL)
    on = replace(off, draft=draft)
    (off_own, off_mapped), (on_own, on_mapped) = (sizes_of(lasting.plan(one)) for one in (off, on))
    assert on_mapped > off_mapped > 0

    def fits(n_bytes: int) -> bool | None:
        return scripted(n_bytes).fit_together(off, on)

    assert fits(off_own + on_own + on_mapped)
    assert not fits(off_own + on_own + on_mapped - 1)


def test_slots_have_caches_of_their_own(lasting: Planner, tiny: TinyPath) -> None:
    one_slot = PlanRequest(target=ModelOptions(path=tiny(TARGET)), context=SMALL)
    request = replace(one_slot, n_slots=4)
    plan = lasting.plan(request)
    caches = [
        sum(one.size_bytes for one in found.buffers if one.kind is BufferKind.KV)
        for found in (lasting.plan(one_slot), plan)
    ]
    assert caches[1] == 4 * caches[0]
    needed = sum(sizes_of(plan))
    assert scripted(needed).check(request) is None
    with pytest.raises(DoesNotFitError):
        scripted(needed - 1).check(request)


def test_a_setups_request_has_its_slots(tiny: TinyPath) -> None:
    target, draft = (ModelOptions(path=tiny(one)) for one in (TARGET, CLOSE_DRAFT))
    setup = Setup(target=target, draft=draft, context=SMALL, speculation=None, n_slots=3)
    assert request_of(setup) == PlanRequest(target=target, context=SMALL, max_draft=1, n_slots=3)


def test_a_gpu_that_is_nearly_full_is_told(tiny: TinyPath, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard_module, "Planner", lambda **_options: ScriptedPlanner(Script()))
    monkeypatch.setattr(guard_module, "has_gpu", lambda: True)
    request = PlanRequest(target=ModelOptions(path=tiny(TARGET)))
    needed = 50 + 10 * 100 + 4096
    guard = Guard(lambda _gpus: room(CUDA0=needed, CPU=100))
    assert str(guard.check(request)).startswith("0 B stay free on CUDA0")
    guard = Guard(lambda _gpus: room(CUDA0=needed - 1, CPU=100))
    with pytest.raises(DoesNotFitError, match="CUDA0 has no room"):
        guard.check(request)
    guard = Guard(lambda _gpus: room(CUDA0=needed + MARGIN_BYTES, CPU=100))
    assert guard.check(request) is None
