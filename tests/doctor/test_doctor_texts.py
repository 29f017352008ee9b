"""What ``spectui doctor`` says of an examination: one of a tiny pair, and what could have been."""

from dataclasses import replace

import pytest

from spectui.cli.page import page_text
from spectui.commands.finding import Severity
from spectui.doctor.examination import Examination, Surroundings, examine
from spectui.doctor.findings import findings, n_cpu_moe_text
from spectui.doctor.page import diagnosis, draft_lines
from spectui.doctor.speed import Bandwidth
from spectui.documents import Known
from spectui.engine.demand import Demand, FreeMemory
from spectui.engine.fitting import with_smallest_context
from spectui.engine.planning import Planner
from spectui.llama.buffers import HOST, Buffer, BufferKind, DeviceMemory
from spectui.llama.planned import Backend, Plan, PlanRequest
from spectui.monitor.machine import Machine
from spectui.options.setup import ContextOptions, ModelOptions, TensorOverride
from tests.support.models import CLOSE_DRAFT, TARGET, Tiny, TinyPath

pytest_plugins = ["tests.support.fixtures"]

GIGA = 1_000_000_000
VERSION = Known(value="0.5")
BACKEND = Backend(llama_cpp_python="0.3", llama_cpp=VERSION, backends=("cpu",), gpus=())
MACHINE = Machine(cpu="Processor", n_cores=2, memory_bytes=16 * GIGA, gpus=("Graphics",))
AROUND = Surroundings(
    machine=MACHINE,
    backend=BACKEND,
    free=FreeMemory(by_memory={HOST: 8 * GIGA}),
    bandwidth=Bandwidth(ram_bytes_per_s=1e10),
)


@pytest.fixture(scope="module")
def examination(tiny: TinyPath) -> Examination:
    request = PlanRequest(
        target=ModelOptions(path=tiny(TARGET)), context=ContextOptions(ctx_size=256)
    )
    drafts = {
        "close": ModelOptions(path=tiny(CLOSE_DRAFT)),
        "other": ModelOptions(path=tiny(Tiny(n_extra=200))),
    }
    asked: list[PlanRequest] = []
    with Planner() as planner:

        def plan(request: PlanRequest) -> Plan:
            asked.append(request)
            return Planner.plan(planner, request)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(planner, "plan", plan)
            found = examine(planner, AROUND, request, drafts, say=lambda _text: None)
    # Two drafts, the target alone, and the search for a context: each takes seconds.
    assert found.largest_context is not None
    assert len(asked) == len(set(asked)) <= 8
    return found


def demand(memory: str, *, left_bytes: int, mapped_bytes: int = 0) -> Demand:
    allocated_bytes = 5 * GIGA
    return Demand(
        memory=memory,
        allocated_bytes=allocated_bytes,
        mapped_bytes=mapped_bytes,
        free_bytes=allocated_bytes + mapped_bytes + left_bytes,
        margin_bytes=0 if memory == HOST else 2 * GIGA,
    )


@pytest.mark.parametrize(
    ("wanted", "severity", "text"),
    [
        (
            demand("CUDA0", left_bytes=-GIGA),
            Severity.ERROR,
            "CUDA0 has no room: 5 GB are needed, 4 GB are free; use -c 512",
        ),
        (
            demand(HOST, left_bytes=-GIGA, mapped_bytes=2 * GIGA),
            Severity.WARNING,
            "1 GB of the weights have no room in RAM: they are read from disk",
        ),
        (demand(HOST, left_bytes=-GIGA), Severity.ERROR, "RAM has no room"),
        (demand("CUDA0", left_bytes=2 * GIGA), None, "CUDA0"),
        (demand(HOST, left_bytes=0), None, "RAM"),
    ],
)
def test_what_a_memory_lacks_is_told(
    examination: Examination, wanted: Demand, severity: Severity | None, text: str
) -> None:
    found = findings(replace(examination, demands=(wanted,), largest_context=512))
    told = [one.severity for one in found if text in one.what]
    assert told == ([] if severity is None else [severity])
    # Where no context fits, a smaller one is no advice.
    if text.startswith("CUDA0 has"):
        alone = replace(examination, demands=(wanted,), largest_context=None)
        assert "without the draft the target fits" in findings(alone)[0].what
        assert "-ngl" in findings(replace(alone, fits_alone=False))[0].what


def text_of(examination: Examination | None, around: Surroundings = AROUND) -> str:
    return " ".join(page_text(diagnosis(around, examination, (), None)).split())


def test_what_bounds_the_context_is_told(examination: Examination) -> None:
    trained = examination.plan.target.info.n_ctx_train
    text = text_of(examination)
    assert f"is {trained} tokens, all that the target was trained for; you asked for 256." in text
    assert "from disk" not in text
    disk = replace(examination, from_disk=True, largest_context=trained // 2)
    assert (
        "The largest context with which no weights are read from disk is "
        f"{trained // 2} tokens; you asked"
    ) in text_of(disk)
    assert (
        f"The largest context that fits is {trained // 2} tokens (weights are read from disk with "
        "any context); you asked"
    ) in text_of(replace(disk, always_from_disk=True))


def test_where_no_context_leaves_the_margin_that_is_said(examination: Examination) -> None:
    tight, full = (demand("CUDA0", left_bytes=n * GIGA) for n in (1, -1))
    none = replace(examination, largest_context=None, demands=(tight,))
    assert "No context leaves a GPU the margin of --fit-target." in text_of(none)
    assert "No context fits." in text_of(replace(none, demands=(full,)))


@pytest.mark.parametrize("always", [False, True])
def test_weights_can_be_read_from_disk_with_any_context_or_with_long_ones(
    tiny: TinyPath, *, always: bool
) -> None:
    context = ContextOptions(ctx_size=512, ubatch_size=16)
    request = PlanRequest(target=ModelOptions(path=tiny(TARGET)), context=context)
    with Planner() as planner:
        smallest = planner.plan(with_smallest_context(request)).buffers
        free_bytes = sum(buffer.size_bytes for buffer in smallest) - always
        around = replace(AROUND, free=FreeMemory(by_memory={HOST: free_bytes}))
        found = examine(planner, around, request, {}, say=lambda _text: None)
    assert (found.from_disk, found.always_from_disk) == (True, always)


def test_repacked_weights_are_told_to_be_why_nothing_is_mapped(examination: Examination) -> None:
    repacked = Buffer(device="CPU_REPACK", kind=BufferKind.WEIGHTS, size_bytes=4 * GIGA)
    target = replace(examination.plan.target, buffers=(repacked,))
    short = (demand(HOST, left_bytes=-2 * GIGA, mapped_bytes=GIGA),)
    found = replace(examination, demands=short, plan=replace(examination.plan, target=target))
    assert findings(found)[0].what.startswith(
        "RAM has no room: 5 GB are needed (beside 1 GB of mapped weights), 4 GB are free; 4 GB of "
        "it are weights that llama.cpp repacks for this processor and so cannot map"
    )
    assert "repacks" not in findings(replace(examination, demands=short))[0].what


def test_every_assumption_of_a_bound_is_named(examination: Examination) -> None:
    [close, _other] = examination.drafts
    assert close.bound is not None
    hard = replace(close.bound, draft_step=0.4, break_even_alpha=0.73, speedup_if_perfect=2.81)
    dense, moe = (
        " ".join(draft_lines(replace(close, bound=hard), has_experts=has)) for has in (False, True)
    )
    assert "if α is above 0.73, and gives at most 2.81× (with every token right)." in dense
    assert (
        "if α is above 0.73 (with tokens routed to experts at random), and gives at most 2.81× "
        "(with every token right and a batch's tokens routed to the same experts)."
    ) in moe


def test_unused_gpus_are_the_builds_or_the_drivers_fault(examination: Examination) -> None:
    without = text_of(None)
    assert "built without CUDA" in without
    assert "--no-cache-dir --no-deps llama-cpp-python==0.3" in without
    with_cuda = text_of(None, replace(AROUND, backend=replace(BACKEND, backends=("cpu", "cuda"))))
    assert "built without CUDA" not in with_cuda
    assert "CUDA_VISIBLE_DEVICES" in with_cuda
    in_ram = DeviceMemory(
        name="Vulkan0", description="Graphics", free_bytes=1, total_bytes=2, in_ram=True
    )
    text = text_of(None, replace(AROUND, backend=replace(BACKEND, gpus=(in_ram,))))
    assert "Vulkan0: Graphics, 2 B, 1 B free, a part of the RAM" in text
    host = replace(demand(HOST, left_bytes=0), includes=("Vulkan0",))
    assert "RAM (with Vulkan0)" in text_of(replace(examination, demands=(host,)))


def test_what_else_is_so_is_told_where_it_is(examination: Examination) -> None:
    plan, bound = examination.plan, examination.bound
    assert bound is not None
    partly = replace(bound, left_out_bytes_per_token=3.0 * GIGA)
    full = replace(examination, demands=(demand(HOST, left_bytes=-GIGA),))
    for found, said in (
        (replace(examination, from_disk=True), "RAM does not hold all weights: the disk, which is"),
        (replace(examination, bound=partly), "3 GB of it in a memory of unknown speed"),
        (replace(examination, bound=None), "nothing bounds its tokens/s"),
        (full, "Without a draft the target fits."),
    ):
        assert said in text_of(found)
        assert said not in text_of(examination)
    assert "Without a draft" not in text_of(replace(full, fits_alone=False))
    # What an option stands in for.
    experts = TensorOverride(pattern="exps", buffer="CPU")
    target = replace(examination.request.target, override_tensor=(experts,))
    moved = replace(examination, smallest_n_cpu_moe=7)
    assert n_cpu_moe_text(moved) == "--n-cpu-moe 7"
    moved = replace(moved, request=replace(examination.request, target=target))
    assert n_cpu_moe_text(moved) == "--n-cpu-moe 7 instead of -ot exps=CPU"
    # What verifying costs is of interest where something drafts.
    traffic = replace(plan.target.traffic, n_experts=8, n_experts_used=1)
    routed = replace(
        examination,
        plan=replace(plan, target=replace(plan.target, traffic=traffic)),
        bound=replace(bound, verify=dict.fromkeys(bound.verify, 3.0)),
    )
    for is_drafting in (True, False):
        texts = [one.what for one in findings(routed, is_drafting=is_drafting)]
        said = "verifying four drafted tokens takes 3.0 times"
        assert any(said in one for one in texts) is is_drafting
