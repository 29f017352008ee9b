"""What ``spectui doctor`` says of an examination: one of a tiny pair, and what could have been."""

from dataclasses import replace
from pathlib import Path

import pytest

from spectui.cli.page import page_text
from spectui.commands.finding import Severity
from spectui.doctor.examination import Examination, Surroundings, examine
from spectui.doctor.findings import findings, n_cpu_moe_text
from spectui.doctor.page import diagnosis
from spectui.documents import Known
from spectui.engine.demand import Demand, FreeMemory
from spectui.engine.planning import Planner
from spectui.llama.buffers import HOST, DeviceMemory
from spectui.llama.facts import LibraryFacts
from spectui.llama.planned import Backend, Plan, PlanRequest
from spectui.llama.search import Origin, Place
from spectui.monitor.machine import Machine
from spectui.options.setup import ContextOptions, ModelOptions, TensorOverride
from tests.support.models import CLOSE_DRAFT, TARGET, Tiny, TinyPath

pytest_plugins = ["tests.support.fixtures"]

GIGA = 1_000_000_000
LIBRARY = LibraryFacts(
    name="llama.cpp 0.5 of /opt",
    file="/opt/libllama.so",
    origin=Origin.VARIABLE,
    server=None,
    version="0.5",
    commit=None,
    features=(),
    unused=(),
)
BACKEND = Backend(llama_cpp_python="0.3", backends=("cpu",), gpus=(), library=Known(value=LIBRARY))
MACHINE = Machine(cpu="Processor", n_cores=2, memory_bytes=16 * GIGA, gpus=("Graphics",))
AROUND = Surroundings(
    machine=MACHINE,
    backend=BACKEND,
    free=FreeMemory(by_memory={HOST: 8 * GIGA}),
    ram_bytes_per_s=1e10,
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
    return " ".join(page_text(diagnosis(around, examination, ())).split())


def test_what_bounds_the_context_is_told(examination: Examination) -> None:
    trained = examination.plan.target.info.n_ctx_train
    assert f"All {trained:,} tokens that the target was trained for fit; -c is 256." in text_of(
        examination
    )
    less = replace(examination, largest_context=trained - 1)
    assert f"that fits is {trained - 1:,} tokens; -c is 256." in text_of(less)


def test_where_no_context_fits_that_is_said(examination: Examination) -> None:
    none = replace(examination, largest_context=None)
    assert "No context fits, with the margin of --fit-target on each GPU." in text_of(none)


def test_a_drafts_bound_is_told(examination: Examination) -> None:
    bound = examination.bound
    assert bound is not None
    # A draft of the target's own size.
    told = "it can pay if α is above 0.11, and gives at most 6.54×, with every token right."
    assert told not in text_of(examination)
    assert any("cannot pay by bandwidth" in one.what for one in findings(examination))
    slow = replace(examination, bound=replace(bound, token_s=bound.token_s * 10))
    assert told in text_of(slow)


def test_gpus_that_cannot_be_used_are_told(examination: Examination) -> None:
    seen = "no GPU that this llama.cpp can use; the driver knows Graphics: the library may be built"
    assert seen in text_of(None)
    in_ram = DeviceMemory(
        name="Vulkan0", description="Graphics", free_bytes=1, total_bytes=2, in_ram=True
    )
    text = text_of(None, replace(AROUND, backend=replace(BACKEND, gpus=(in_ram,))))
    assert "Vulkan0: Graphics, 2 B, 1 B free, a part of the RAM" in text
    host = replace(demand(HOST, left_bytes=0), includes=("Vulkan0",))
    assert "RAM (with Vulkan0)" in text_of(replace(examination, demands=(host,)))


def test_an_option_names_those_that_it_stands_in_for(examination: Examination) -> None:
    experts = TensorOverride(pattern="exps", buffer="CPU")
    target = replace(examination.request.target, override_tensor=(experts,))
    moved = replace(examination, smallest_n_cpu_moe=7)
    assert n_cpu_moe_text(moved) == "--n-cpu-moe 7"
    moved = replace(moved, request=replace(examination.request, target=target))
    assert n_cpu_moe_text(moved) == "--n-cpu-moe 7 instead of -ot"


def test_what_verifying_costs_beside_experts_is_told(examination: Examination) -> None:
    bound = examination.bound
    assert bound is not None
    routed = replace(bound, verify=dict.fromkeys(bound.verify, 3.0))
    said = "batches would take V(2) 3.0, V(5) 3.0, V(9) 3.0, V(17) 3.0 times as long"
    assert said in text_of(replace(examination, bound=routed))
    assert "batches would take" not in text_of(examination)


def test_a_library_that_cannot_be_used_is_told_with_its_reason() -> None:
    place = Place(Origin.SERVER, Path("/opt/llama.cpp"))
    page = diagnosis(AROUND, None, (), {place: "it is of an unknown llama.cpp"})
    text = " ".join(page_text(page).split())
    assert "/opt/llama.cpp cannot be used: it is of an unknown llama.cpp" in text
