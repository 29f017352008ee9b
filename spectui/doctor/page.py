"""A diagnosis as a page: the machine, the models, their memory, and what was found."""

import shlex
from collections.abc import Iterable, Iterator, Sequence

from spectui.commands.finding import Finding, Severity
from spectui.doctor.document import LookedAt
from spectui.doctor.examination import Examination, ExaminedDraft, HeaderLook, Surroundings
from spectui.doctor.findings import n_cpu_moe_text
from spectui.doctor.libraries import FoundLibrary
from spectui.doctor.speed import DraftBound, SpeedBound
from spectui.engine.demand import Demand
from spectui.format import bytes_text, count_text, counted, percent_text
from spectui.llama.buffers import HOST, BufferKind
from spectui.llama.facts import LibraryFacts, unused_text
from spectui.llama.library import install_command
from spectui.llama.planned import CONTEXT_STEP, Backend, ModelPlan
from spectui.llama.search import find_server
from spectui.models.facts import ModelFacts
from spectui.models.pairs import PairReport, SpecialToken
from spectui.models.ranking import read_share
from spectui.page import Page, Paragraph, Part, Table, Words, section
from spectui.presets import Preset, preset_folders

_STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.NOTE: ""}
_GIGA = 1e9
_KINDS = {
    "weights": (BufferKind.WEIGHTS,),
    "cache": (BufferKind.KV,),
    "compute": (BufferKind.COMPUTE, BufferKind.OUTPUT),
}


def diagnosis(
    around: Surroundings,
    looked_at: LookedAt,
    found: Sequence[Finding],
    preset: Preset | None,
    libraries: Sequence[FoundLibrary] = (),
) -> Page:
    """All sections of a diagnosis.

    Args:
        around: the machine.
        looked_at: None if no target was given, or the preset's target is missing; what headers
            say where there is no llama.cpp library.
        found: what is to be said of the examination.
        preset: the named preset; None without one.
        libraries: those of this machine, where they were asked for.
    """
    page = section("Machine", [*_machine(around)])
    if libraries:
        lines = (one.line() for one in libraries)
        page += _section("Libraries of llama.cpp", lines)
    if preset is not None:
        page += _section(f"Preset {preset.name}", _preset_lines(preset))
    if looked_at is None:
        return page
    page += _by_headers(looked_at) if isinstance(looked_at, HeaderLook) else _examined(looked_at)
    page.append(Paragraph("Findings", style="bold"))
    if not found:
        return [*page, "nothing speaks against it"]
    page += [_broken(f"{one.severity}: {one.what}", _STYLES[one.severity]) for one in found]
    return page


def _broken(text: str, style: str = "") -> Paragraph:
    """A text with paths in it."""
    return Paragraph(text, style=style, breaks_words=True)


def _section(title: str, lines: Iterable[str]) -> list[Part]:
    return section(title, [*map(_broken, lines)])


def _by_headers(look: HeaderLook) -> list[Part]:
    page = _section("Target, by its header", [_facts(look.target)])
    for name, draft in look.drafts.items():
        lines = [] if draft.facts is None else [_facts(draft.facts)]
        share = read_share(look.target, draft.facts)
        if share is not None:
            read = percent_text(share)
            lines.append(f"a token of it reads {read} of the weights that the target's reads")
        # A file of MTP layers alone has no vocabulary to compare.
        if draft.reason is None and draft.facts is not None and draft.facts.draft_kind is None:
            lines.append("its vocabulary is as llama.cpp wants it beside the target's")
        page += _section(f"Draft {name}, by its header", lines)
    return page


def _facts(facts: ModelFacts) -> str:
    text = f"{_described(facts)}, vocabulary of {facts.n_vocab}"
    return f"{text}, {facts.n_experts} experts" if facts.n_experts else text


def _described(facts: ModelFacts) -> str:
    return (
        f"{facts.path.name}: {facts.arch}, {count_text(facts.n_params)} parameters, "
        f"{bytes_text(facts.size_bytes)}, {facts.n_layers} layers, trained for "
        f"{facts.n_ctx_train} tokens"
    )


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


def _preset_lines(preset: Preset) -> Iterator[str]:
    """Yield the preset's lines, before its models are examined."""
    if preset.description:
        yield preset.description
    yield from _what_is_missing(preset)
    for role, files in (("target", preset.target), *(("draft", one) for one in preset.draft)):
        if files is not None:
            size = "" if files.size_gb is None else f", {bytes_text(round(files.size_gb * _GIGA))}"
            is_here = files.find(preset.models_folder) is not None
            yield f"{role}: {files}{size}: {'here' if is_here else 'not here'}"
    for vram_gb, options in preset.placement.by_vram_gb().items():
        if options:
            given = " ".join(f"--{name} {value}" for name, value in options.items())
            yield f"with {vram_gb} GB of video memory: {given}"
    yield from (f"trap: {trap}" for trap in preset.traps)


def _what_is_missing(preset: Preset) -> Iterator[str]:
    named = (*((preset.target,) if preset.target else ()), *preset.draft)
    missing = [one for one in named if one.find(preset.models_folder) is None]
    if not missing:
        return
    what = "Some of its models"
    if missing == list(named):
        what = "Its models"
    elif missing == list(preset.draft):
        what = "Its drafts"
    # By its name only where that finds it.
    is_known = preset.path.parent in preset_folders()
    given = shlex.quote(preset.name if is_known else str(preset.path))
    yield f"{what} are not here; fetch them with spectui models fetch {given}."


def _target_lines(examination: Examination) -> Iterator[str]:
    """Yield facts about the target, and the speed that reading its weights allows."""
    yield _model(examination.plan.target)
    traffic, bound = examination.traffic, examination.bound
    if traffic.n_experts:
        yield f"{traffic.n_experts_used} of {traffic.n_experts} experts per token"
    yield (
        "Its weights lie in a memory of unknown speed, so that nothing bounds its tokens/s."
        if bound is None
        else _speed(bound)
    )
    if bound is not None and examination.from_disk:
        yield (
            "RAM does not hold all weights: the disk, which is slower than that, decides the speed."
        )


def _model(plan: ModelPlan) -> str:
    return f"{_described(plan.info)}; rollback by {plan.rollback}"


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
        if draft.request.mtp and not draft.is_mtp:
            layers = counted(plan.draft.info.mtp_layers, "MTP layer")
            yield f"a file of {layers} alone, which read the target's hidden states"
    if draft.report is not None:
        yield from _compared(draft.report)
    if draft.bound is not None and draft.bound.can_pay:
        yield _payment(draft.bound, has_experts=has_experts)


def _mtp(target: ModelPlan) -> str:
    n = target.info.mtp_layers
    layers = "layer for multi-token prediction"
    if n > 1:
        layers = f"{n} {layers.replace('layer', 'layers')}, each for one token of a draft"
    return f"the target's own {layers}; its weights are counted with the target"


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


def _compared(report: PairReport) -> Iterator[str]:
    overlap = report.overlap_percent
    same = "no tokens to compare"
    if overlap is not None:
        same = f"{overlap:.2f} % of the tokens are the same"
    sizes = f"{report.target.n_tokens} (target), {report.draft.n_tokens} (draft)"
    yield f"{same}; vocabularies {sizes}; chat templates {report.templates}"
    if report.differences:
        shown = ", ".join(f"{one.id} ({one.target!r}, {one.draft!r})" for one in report.differences)
        yield f"first differing tokens: {shown}"
    for name, ours, theirs in (
        ("BOS", report.target.bos, report.draft.bos),
        ("EOS", report.target.eos, report.draft.eos),
    ):
        if ours != theirs:
            yield f"{name}: {_special(ours)} (target), {_special(theirs)} (draft)"


def _special(token: SpecialToken) -> str:
    added = "added" if token.added else "not added"
    return f"{token.id} {token.text!r}, {added}" if token.id >= 0 else f"none, {added}"


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
    if examination.largest_context is None:
        margins = "leaves a GPU the margin of --fit-target" if examination.fits else "fits"
        yield f"No context {margins}."
    else:
        yield _largest_context(examination, examination.largest_context)
    if examination.smallest_n_cpu_moe is not None:
        yield f"As few experts in RAM as fit: {n_cpu_moe_text(examination)}."
    if examination.chosen is not None and examination.fits_alone and not examination.fits:
        yield "Without a draft the target fits."


def _largest_context(examination: Examination, largest: int) -> str:
    what = "The largest context that fits"
    if examination.from_disk and not examination.always_from_disk:
        what = "The largest context with which no weights are read from disk"
    bound = ""
    if largest == _trained_context(examination):
        bound = ", all that the target was trained for"
    if examination.always_from_disk:
        bound += " (weights are read from disk with any context)"
    asked = examination.request.context.ctx_size
    return f"{what} is {largest} tokens{bound}; you asked for {asked}."


def _trained_context(examination: Examination) -> int:
    return examination.plan.target.info.n_ctx_train // CONTEXT_STEP * CONTEXT_STEP
