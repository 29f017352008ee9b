"""A diagnosis as a page: the machine, the models, their memory, and what was found."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from spectui.commands.finding import Finding, Severity
from spectui.doctor.examination import Examination, ExaminedDraft, Surroundings
from spectui.doctor.findings import n_cpu_moe_text
from spectui.doctor.speed import DraftBound, SpeedBound
from spectui.engine.demand import Demand
from spectui.format import bytes_text, count_text, counted, percent_text
from spectui.llama.buffers import HOST, BufferKind
from spectui.llama.facts import LibraryFacts, unused_text
from spectui.llama.library import Library, install_command
from spectui.llama.planned import CONTEXT_STEP, Backend, ModelPlan
from spectui.llama.search import Place, find_server
from spectui.page import Page, Paragraph, Part, Table, Words, section

_STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.NOTE: ""}
_KINDS = {
    "weights": (BufferKind.WEIGHTS,),
    "cache": (BufferKind.KV,),
    "compute": (BufferKind.COMPUTE, BufferKind.OUTPUT),
}


def diagnosis(
    around: Surroundings,
    examination: Examination | None,
    found: Sequence[Finding],
    libraries: Mapping[Place, Library | str] = MappingProxyType({}),
) -> Page:
    """All sections of a diagnosis.

    Args:
        around: the machine.
        examination: of the models; None without any.
        found: what is to be said of the examination.
        libraries: those of this machine, where they were asked for.
    """
    page = section("Machine", [*_machine(around)])
    if libraries:
        page += _section("Libraries of llama.cpp", _libraries(libraries))
    if examination is None:
        return page
    page += _examined(examination)
    page.append(Paragraph("Findings", style="bold"))
    if not found:
        return [*page, "nothing speaks against it"]
    page += [_broken(f"{one.severity}: {one.what}", _STYLES[one.severity]) for one in found]
    return page


def _libraries(found: Mapping[Place, Library | str]) -> Iterator[str]:
    """Yield each library, or why it cannot be used; the first that can is the one in use."""
    used = next((one for one in found.values() if isinstance(one, Library)), None)
    for place, one in found.items():
        if isinstance(one, str):
            yield f"{place.folder} cannot be used: {one}"
        else:
            beside = f", beside {one.server}" if one.server else ""
            yield f"{one}{', which is used' if one is used else ''}: {one.file}{beside}"


def _broken(text: str, style: str = "") -> Paragraph:
    """A text with paths in it."""
    return Paragraph(text, style=style, breaks_words=True)


def _section(title: str, lines: Iterable[str]) -> list[Part]:
    return section(title, [*map(_broken, lines)])


def _examined(examination: Examination) -> list[Part]:
    page = _section("Target", _target_lines(examination))
    has_experts = examination.traffic.n_experts > 0
    for draft in examination.drafts:
        page += _section(f"Draft {draft.name}", draft_lines(draft, has_experts=has_experts))
    heading = "Memory, without a draft" if examination.drafts else "Memory"
    if examination.chosen is not None:
        heading = f"Memory, with {examination.chosen.name}"
    fitting = map(_broken, _what_fits(examination))
    return page + section(heading, [_memory_table(examination), *fitting])


def _machine(around: Surroundings) -> Iterator[Part]:
    machine, backend = around.machine, around.backend
    speed = around.bandwidth.ram_bytes_per_s
    read = "too full to measure its speed" if speed is None else f"read at {_speed_text(speed)}"
    memory = _free(machine.memory_bytes, around.free.by_memory.get(HOST))
    yield _broken(f"{machine.cpu}, {machine.n_cores} cores; RAM {memory}, {read}")
    for gpu in backend.gpus:
        part = ", a part of the RAM" if gpu.in_ram else ""
        free = _free(gpu.total_bytes, gpu.free_bytes)
        yield _broken(f"{gpu.title}: {gpu.description}, {free}{part}")
    if not backend.gpus and backend.llama_cpp.value is not None:
        seen = f"; the driver knows {', '.join(machine.gpus)}" if machine.gpus else ""
        yield _broken(f"no GPU that this llama.cpp can use{seen}")
    if machine.gpus and not backend.gpus and backend.backends:
        yield from _unused_gpus(backend)
    yield from map(_broken, _library_lines(backend))


def _library_lines(backend: Backend) -> Iterator[str]:
    version = backend.llama_cpp.value
    if version is None:
        yield f"llama-cpp-python {backend.llama_cpp_python}; {backend.llama_cpp.reason}"
        server = find_server()
        if server is None:
            yield "no llama-server was found either, on the PATH, at work, or in the usual folders"
        else:
            yield f"{server} was found: bench, tune, sweep and verify measure through it"
    else:
        built = ", ".join(backend.backends)
        yield f"llama-cpp-python {backend.llama_cpp_python}, llama.cpp {version}, built for {built}"
        if backend.library is not None:
            yield f"its library: {backend.library.file}{_whose(backend.library)}"
            yield from _unused_lines(backend.library)


def _unused_lines(facts: LibraryFacts) -> Iterator[str]:
    if facts.unused:
        yield unused_text(facts)


def _whose(facts: LibraryFacts) -> str:
    return f", beside {facts.server}" if facts.server else f" ({facts.origin})"


def _unused_gpus(backend: Backend) -> Iterator[Part]:
    if "cuda" in backend.backends:
        yield _broken(
            "This llama.cpp was built with CUDA and finds no GPU: see whether CUDA_VISIBLE_DEVICES "
            "hides it, whether the driver is as new as the CUDA it was built with, and whether "
            "this user or container may open /dev/nvidia*"
        )
    else:
        yield _broken("This llama.cpp was built without CUDA; build it anew:")
        yield install_command("-DGGML_CUDA=on")


def _speed_text(bytes_per_s: float) -> str:
    return f"{bytes_text(round(bytes_per_s))}/s"


def _free(total_bytes: int | None, free_bytes: int | None) -> str:
    total = "of unknown size" if total_bytes is None else bytes_text(total_bytes)
    return total if free_bytes is None else f"{total}, {bytes_text(free_bytes)} free"


def _target_lines(examination: Examination) -> Iterator[str]:
    """Yield facts about the target, and the speed that reading its weights allows."""
    yield _model(examination.plan.target)
    traffic, bound = examination.traffic, examination.bound
    if traffic.n_experts:
        yield f"{traffic.n_experts_used} of {traffic.n_experts} experts per token"
    if bound is not None:
        yield _speed(bound)
    if bound is not None and examination.from_disk:
        yield (
            "RAM does not hold all weights: the disk, which is slower than that, decides the speed."
        )


def _model(plan: ModelPlan) -> str:
    facts = plan.info
    return (
        f"{facts.path.name}: {facts.arch}, {count_text(facts.n_params)} parameters, "
        f"{bytes_text(facts.size_bytes)}, {facts.n_layers} layers, trained for "
        f"{facts.n_ctx_train} tokens; rollback by {plan.rollback}"
    )


def _speed(bound: SpeedBound) -> str:
    from_ram, from_gpu = round(bound.ram_bytes_per_token), round(bound.gpu_bytes_per_token)
    read = f"{bytes_text(from_ram)} of RAM"
    if from_gpu:
        read += f" and {bytes_text(from_gpu)} of video memory"
    if bound.left_out_bytes_per_token:
        left_out = bytes_text(round(bound.left_out_bytes_per_token))
        read += f" ({left_out} of it in a memory of unknown speed, which is left out)"
    return (
        f"A token reads {read}: about {bound.tokens_per_s:.1f} tokens/s at most without a draft, "
        "by the bandwidth measured just now; other work on the machine lowers it. "
        f"{_batches(bound)}"
    )


def _batches(bound: SpeedBound) -> str:
    if max(bound.verify.values()) == 1.0:
        return "A batch of drafted tokens reads no more weights than one token."
    ratios = ", ".join(f"V({n + 1}) {bound.verify[n]:.1f}" for n in (1, 4, 8, 16))
    return f"Batches take, in tokens and if tokens were routed to experts at random: {ratios}."


def draft_lines(draft: ExaminedDraft, *, has_experts: bool) -> Iterator[str]:
    """Yield facts about a draft relative to its target, which may have experts."""
    plan = draft.plan
    if plan is not None and plan.draft is not None:
        yield _mtp(plan.target) if draft.is_mtp else _model(plan.draft)
    if draft.bound is not None and draft.bound.can_pay:
        yield _payment(draft.bound, has_experts=has_experts)


def _mtp(target: ModelPlan) -> str:
    layers = counted(target.info.mtp_layers, "layer")
    return f"the target's own {layers} for multi-token prediction, whose weights are counted there"


def _payment(bound: DraftBound, *, has_experts: bool) -> str:
    share = percent_text(bound.draft_step)
    cost = f"By bandwidth alone a step takes {share} of the time of a target step"
    alike = " and a batch's tokens routed to the same experts" if has_experts else ""
    most = f"at most {bound.speedup_if_perfect:.2f}× (with every token right{alike})"
    random = "with tokens routed to experts at random"
    if bound.break_even_alpha is None:
        return f"{cost}: it gives {most}, and nothing {random}."
    pays = f"it can pay if α is above {bound.break_even_alpha:.2f}"
    if has_experts:
        pays += f" ({random})"
    return f"{cost}: {pays}, and gives {most}."


def _memory_table(examination: Examination) -> Table:
    """A column per memory, and a row per part; without the parts where those have no room."""
    every, totals = examination.demands, list(map(_totals, examination.demands))
    styles, names = list(map(_style, every)), ("wanted", "free", "left")
    rows: list[list[str | Paragraph]] = [
        [f"{role} {part}", *(_bytes(plan, demand, kinds) for demand in every)]
        for role, plan in (("target", examination.plan.target), ("draft", examination.plan.draft))
        if plan is not None
        for part, kinds in _KINDS.items()
    ]
    rows += [
        [Paragraph(name, style="bold"), *(one[at] for one in totals)]
        for at, name in enumerate(names)
    ]
    by_memory = [(demand.where, *one) for demand, one in zip(every, totals, strict=True)]
    return Table(
        (Words(), *(demand.where for demand in every)),
        rows,
        column_styles=("", *styles),
        has_margin=True,
        narrow=Table((Words(), *names), by_memory, row_styles=styles, has_margin=True),
    )


def _style(demand: Demand) -> str:
    return "" if demand.fits else "yellow" if demand.can_load else "bold red"


def _bytes(plan: ModelPlan, demand: Demand, kinds: tuple[BufferKind, ...]) -> str:
    memories = {demand.memory, *demand.includes}
    return bytes_text(
        sum(
            buffer.size_bytes
            for buffer in plan.buffers
            if buffer.memory in memories and buffer.kind in kinds
        )
    )


def _totals(demand: Demand) -> tuple[str, str, str]:
    """Bytes that are wanted, that are free, and that are left of these."""
    wanted = bytes_text(demand.allocated_bytes + demand.mapped_bytes)
    return wanted, _known(demand.free_bytes), _known(demand.left_bytes)


def _known(n_bytes: int | None) -> str:
    if n_bytes is None:
        return "?"
    return f"-{bytes_text(-n_bytes)}" if n_bytes < 0 else bytes_text(n_bytes)


def _what_fits(examination: Examination) -> Iterator[str]:
    """Yield the configurations that would fit."""
    largest = examination.largest_context
    if largest is not None:
        n_trained = examination.plan.target.info.n_ctx_train // CONTEXT_STEP * CONTEXT_STEP
        bound = ", all that the target was trained for" if largest == n_trained else ""
        asked = examination.request.context.ctx_size
        yield f"The largest context that fits is {largest} tokens{bound}; you asked for {asked}."
    else:
        margins = "leaves a GPU the margin of --fit-target" if examination.fits else "fits"
        yield f"No context {margins}."
    if examination.smallest_n_cpu_moe is not None:
        yield f"As few experts in RAM as fit: {n_cpu_moe_text(examination)}."
    if examination.chosen is not None and examination.fits_alone and not examination.fits:
        yield "Without a draft the target fits."
