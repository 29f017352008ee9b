"""Prints a diagnosis as a page and as a document: machine, models, their memory, findings."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from spectui.commands.finding import Finding, Severity
from spectui.doctor.examination import Examination, ExaminedDraft, Surroundings
from spectui.doctor.findings import n_cpu_moe_text
from spectui.doctor.speed import SpeedBound
from spectui.documents import Json, encoded, fields_of, head, or_reason
from spectui.engine.demand import Demand
from spectui.format import bytes_text, count_text, counted, percent_text
from spectui.llama.buffers import HOST, BufferKind
from spectui.llama.facts import LibraryFacts, engine_document, unused_text
from spectui.llama.planned import Backend, ModelPlan
from spectui.llama.search import Place
from spectui.options.drafters import MTP_KIND
from spectui.page import Page, Paragraph, Part, Table, Words, section

_STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.NOTE: ""}
_KINDS = {
    "weights": (BufferKind.WEIGHTS,),
    "cache": (BufferKind.KV,),
    "compute": (BufferKind.COMPUTE, BufferKind.OUTPUT),
}
_UNKNOWN_SPEED = "weights lie in a memory of unknown speed"
_UNUSABLE = "it could not be planned beside the target"


def diagnosis(
    around: Surroundings,
    examination: Examination | None,
    found: Sequence[Finding],
    refused: Mapping[Place, str] = MappingProxyType({}),
) -> Page:
    """All sections of a diagnosis.

    Args:
        around: the machine.
        examination: of the models; None without any.
        found: findings on the examination.
        refused: places of libraries before the one in use, with reasons why they cannot be used.
    """
    page = _section("Machine", _machine(around, refused))
    if examination is None:
        return page
    page += _examined(examination)
    told = [Paragraph(f"{one.severity}: {one.what}", style=_STYLES[one.severity]) for one in found]
    return [*page, *section("Findings", told or ["nothing speaks against it"])]


def _section(title: str, lines: Iterable[str]) -> list[Part]:
    return section(title, [*map(Paragraph, lines)])


def _examined(examination: Examination) -> list[Part]:
    page = _section("Target", _target_lines(examination))
    for draft in examination.drafts:
        page += _section(f"Draft {draft.name}", _draft_lines(draft, examination.bound))
    heading = "Memory, without a draft" if examination.drafts else "Memory"
    if examination.chosen is not None:
        heading = f"Memory, with {examination.chosen.name}"
    fitting = map(Paragraph, _what_fits(examination))
    return page + section(heading, [_memory_table(examination), *fitting])


def _machine(around: Surroundings, refused: Mapping[Place, str]) -> Iterator[str]:
    machine, backend = around.machine, around.backend
    speed = around.ram_bytes_per_s
    read = "too full to measure its speed"
    if speed is not None:
        read = f"read at {bytes_text(round(speed))}/s"
    memory = _free(machine.memory_bytes, around.free.by_memory.get(HOST))
    yield f"{machine.cpu}, {machine.n_cores} cores; RAM {memory}, {read}"
    for gpu in backend.gpus:
        part = ", a part of the RAM" if gpu.in_ram else ""
        yield f"{gpu.title}: {gpu.description}, {_free(gpu.total_bytes, gpu.free_bytes)}{part}"
    if not backend.gpus and backend.library.value is not None:
        seen = ""
        if machine.gpus:
            seen = (
                f"; the driver knows {', '.join(machine.gpus)}: the library may be built without "
                "its backend, or CUDA_VISIBLE_DEVICES may hide it"
            )
        yield f"no GPU that this llama.cpp can use{seen}"
    yield from _library_lines(backend)
    for place, why in refused.items():
        yield f"{place.folder} cannot be used: {why}"


def _library_lines(backend: Backend) -> Iterator[str]:
    library, binding = backend.library.value, f"llama-cpp-python {backend.llama_cpp_python}"
    if library is None:
        yield f"{binding}; {backend.library.reason}"
        return
    built = ", ".join(backend.backends)
    yield f"{binding}, llama.cpp {library.version_text}, built for {built}"
    whose = f", beside {library.server}" if library.server else f" ({library.origin})"
    yield f"its library: {library.file}{whose}"
    yield from _unused_lines(library)


def _unused_lines(facts: LibraryFacts) -> Iterator[str]:
    if facts.unused:
        yield unused_text(facts)


def _free(total_bytes: int | None, free_bytes: int | None) -> str:
    total = "of unknown size" if total_bytes is None else bytes_text(total_bytes)
    return total if free_bytes is None else f"{total}, {bytes_text(free_bytes)} free"


def _target_lines(examination: Examination) -> Iterator[str]:
    """Yield facts about the target, and the speed that reading its weights allows."""
    yield _model_line(examination.plan.target)
    traffic, bound = examination.plan.target.traffic, examination.bound
    if traffic.n_experts:
        yield f"{traffic.n_experts_used} of {traffic.n_experts} experts per token"
    if bound is not None:
        yield _speed(bound)


def _model_line(plan: ModelPlan) -> str:
    facts = plan.info
    return (
        f"{facts.path.name}: {facts.arch}, {count_text(facts.n_params)} parameters, "
        f"{bytes_text(facts.size_bytes)}, {facts.n_layers} layers, trained for "
        f"{facts.n_ctx_train:,} tokens; rollback by {plan.rollback}"
    )


def _speed(bound: SpeedBound) -> str:
    from_ram, from_gpu = round(bound.ram_bytes_per_token), round(bound.gpu_bytes_per_token)
    read = f"{bytes_text(from_ram)} of RAM"
    if from_gpu:
        read += f" and {bytes_text(from_gpu)} of video memory"
    text = (
        f"A token reads {read}: about {bound.tokens_per_s:.1f} tokens/s at most without a draft, "
        "by the bandwidth measured just now; other work on the machine lowers it."
    )
    if max(bound.verify.values()) == 1.0:
        return text
    ratios = ", ".join(f"V({n + 1}) {bound.verify[n]:.1f}" for n in (1, 4, 8, 16))
    return (
        f"{text} If tokens were routed to experts at random, batches would take {ratios} times as "
        "long; short drafts that are right count for more than long ones."
    )


def _draft_lines(draft: ExaminedDraft, target: SpeedBound | None) -> Iterator[str]:
    """Yield facts about a draft relative to its target."""
    plan, bound = draft.plan, draft.bound(target)
    if plan is not None and plan.draft is not None:
        yield _mtp(plan.target) if draft.is_mtp else _model_line(plan.draft)
    if bound is not None and bound.draft_step < 1:
        alpha, share = bound.break_even_alpha, percent_text(bound.draft_step)
        pays = "" if alpha is None else f"can pay if α is above {alpha:.2f}, and "
        yield (
            f"By bandwidth alone a step takes {share} of the time of a target step: it {pays}gives "
            f"at most {bound.speedup_if_perfect:.2f}×, with every token right."
        )


def _mtp(target: ModelPlan) -> str:
    layers = counted(target.info.mtp_layers, "layer")
    return f"the target's own {layers} for multi-token prediction, whose weights are counted there"


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
    return Table((Words(), *(demand.where for demand in every)), rows, column_styles=("", *styles))


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
    return wanted, _bytes_or_mark(demand.free_bytes), _bytes_or_mark(demand.left_bytes)


def _bytes_or_mark(n_bytes: int | None) -> str:
    if n_bytes is None:
        return "?"
    return f"-{bytes_text(-n_bytes)}" if n_bytes < 0 else bytes_text(n_bytes)


def _what_fits(examination: Examination) -> Iterator[str]:
    """Yield the configurations that would fit."""
    largest = examination.largest_context
    if largest is None:
        yield "No context fits, with the margin of --fit-target on each GPU."
    else:
        trained, asked = examination.plan.target.info.n_ctx_train, examination.request.context
        what = f"The largest context that fits is {largest:,} tokens"
        if largest == trained:
            what = f"All {trained:,} tokens that the target was trained for fit"
        yield f"{what}; -c is {asked.ctx_size:,}."
    if examination.smallest_n_cpu_moe is not None:
        yield f"As few experts in RAM as fit: {n_cpu_moe_text(examination)}."


def doctor_document(
    around: Surroundings, examination: Examination | None, found: Sequence[Finding]
) -> Json:
    """``spectui.doctor/1``; arguments are those of ``diagnosis``."""
    backend = around.backend
    device = ("name", "description", "in_ram", "free_bytes", "total_bytes")
    no_room = "there is no room for what measuring takes, up to half a gigabyte"
    no_driver = "no NVIDIA driver reports it for a GPU that llama.cpp uses"
    no_target = or_reason("target", None, "no target was given, or no library is here")
    return {
        **head("doctor"),
        "engine": engine_document(backend.library, backend.llama_cpp_python),
        "machine": around.machine.document(),
        "gpus": [fields_of(gpu, "the device does not tell", *device) for gpu in backend.gpus],
        "free_bytes": dict(around.free.by_memory),
        **fields_of(around, no_room, "ram_bytes_per_s"),
        **fields_of(around, no_driver, "gpu_bytes_per_s"),
        **(no_target if examination is None else _examined_document(examination)),
        "findings": [{"severity": str(one.severity), "text": one.what} for one in found],
    }


def _examined_document(examination: Examination) -> Json:
    plan, bound, chosen = examination.plan, examination.bound, examination.chosen
    unplaced = "without a GPU, without experts, with -ngl 0, or without room even so"
    draft = chosen and (MTP_KIND if chosen.is_mtp else str(chosen.options.path))
    return {
        "target": {
            **_model_document(plan.target),
            **or_reason("expected", bound and _bound_document(bound), _UNKNOWN_SPEED),
        },
        "drafts": [_draft_document(one, bound) for one in examination.drafts],
        **or_reason("draft", draft, "none can serve" if examination.drafts else "none was given"),
        "memory": list(map(_demand_document, examination.demands)),
        **fields_of(examination, "", "fits", "fits_alone"),
        **fields_of(examination, "no context fits", "largest_context"),
        **fields_of(examination, unplaced, "smallest_n_cpu_moe"),
    }


def _model_document(plan: ModelPlan) -> Json:
    return {
        **plan.info.document(rollback=str(plan.rollback), n_ctx=plan.n_ctx),
        **fields_of(plan.info, "", "n_layers", "n_experts", "n_ctx_train", "mtp_layers"),
    }


def _draft_document(one: ExaminedDraft, target: SpeedBound | None) -> Json:
    own = None if one.plan is None else one.plan.draft
    unbound = _UNKNOWN_SPEED if one.is_compatible else "it cannot serve the target"
    never = "not even α = 1 would be enough, if tokens were routed to experts at random"
    numbers, bound = ("draft_step", "break_even_alpha", "speedup_if_perfect"), one.bound(target)
    return {
        "name": one.name,
        "path": str(one.options.path),
        **or_reason("compatible", one.is_compatible, _UNUSABLE),
        **fields_of(one, _UNUSABLE, "fits"),
        **fields_of(one, "it can serve the target, and be loaded beside it", "reason"),
        **or_reason("model", own and _model_document(own), _UNUSABLE),
        **or_reason("bound", bound and fields_of(bound, never, *numbers), unbound),
    }


def _bound_document(bound: SpeedBound) -> Json:
    numbers = ("token_s", "tokens_per_s", "ram_bytes_per_token", "gpu_bytes_per_token")
    verify = [{"n_drafted": n, "ratio": ratio} for n, ratio in bound.verify.items()]
    return {**fields_of(bound, "", *numbers), "verify": verify}


def _demand_document(demand: Demand) -> Json:
    return {
        **encoded(demand),
        "title": demand.where,
        **fields_of(demand, "the device does not report it", "free_bytes", "left_bytes"),
        **fields_of(demand, "", "fits", "can_load"),
    }
