"""Runs ``spectui doctor`` with parsed options; its document."""

from collections.abc import Sequence
from dataclasses import asdict, replace

from spectui.cli.doctor import Doctor
from spectui.cli.doctor_view import diagnosis
from spectui.cli.drawing import drawn
from spectui.cli.named_models import find_models, of_named_kinds
from spectui.cli.next_step import next_lines, shell_line, tune_words
from spectui.cli.output import check_writable, write_result
from spectui.cli.presets import with_preset_models
from spectui.cli.request import RunOptions
from spectui.cli.taken import warn_of_unmeasured
from spectui.commands.finding import Finding, Severity
from spectui.doctor.examination import (
    Examination,
    ExaminedDraft,
    HeaderLook,
    Surroundings,
    examine,
    look_at_headers,
    surroundings,
)
from spectui.doctor.findings import finding, findings
from spectui.doctor.libraries import FoundLibrary, look_at_libraries
from spectui.doctor.speed import DraftBound, SpeedBound
from spectui.documents import Json, fields_of, heading, or_reason
from spectui.engine.demand import Demand
from spectui.engine.fit import fitted
from spectui.engine.planning import Planner
from spectui.errors import (
    BadInputError,
    DoesNotFitError,
    MissingLibraryError,
    SpectuiError,
    UsageError,
)
from spectui.format import percent_text
from spectui.llama.buffers import DeviceMemory
from spectui.llama.planned import ModelPlan, PlanRequest
from spectui.models.facts import ModelFacts
from spectui.models.pairs import Outline, PairReport
from spectui.models.ranking import read_share
from spectui.monitor.machine import this_machine
from spectui.options.drafters import MTP_KIND
from spectui.presets import Preset, find_preset

LookedAt = Examination | HeaderLook | None


def doctor(planner: Planner, request: Doctor) -> None:
    """Examine the machine and the models, and print the diagnosis.

    Args:
        planner: still starting, perhaps.
        request: what to examine.

    Raises:
        BadInputError: a file is unusable, or none of the drafts can serve; what was found has been
            printed.
        DoesNotFitError: there is no room; what was found has been printed.
        UsageError: options that contradict each other.
    """
    given = RunOptions.of(request.given)
    warn_of_unmeasured(request.given, done="examined")
    has_target = given.demo or given.model is not None or given.preset is not None
    if not has_target and (given.model_draft or given.draft_dirs):
        raise UsageError("-md and --draft-dir need a target: give it with -m, or --demo")
    given.check_drafts()
    check_writable(given.json_path, given.input_files())
    options = _with_models(given)
    preset = None if given.preset is None else find_preset(given.preset)
    with options.shown() as shown:
        around = surroundings(planner, this_machine())
        looked_at, notes = _look(planner, shown, request.draft_max, around)
        libraries: tuple[FoundLibrary, ...] = ()
        if request.libraries:
            libraries = look_at_libraries(_priced(looked_at, options), shown.progress.say)
    found = (*(findings(looked_at) if isinstance(looked_at, Examination) else ()), *notes)
    document = _document(around, looked_at, found, preset)
    if request.libraries:
        document["libraries"] = [one.document() for one in libraries]
    text = drawn(*diagnosis(around, looked_at, found, preset, libraries))
    error = _verdict(looked_at, found)
    if error is None:
        text = "\n".join((text.rstrip("\n"), "", *_next(options, looked_at)))
    write_result(document, text, given.json_path)
    if error is not None:
        raise error


def _look(
    planner: Planner,
    options: RunOptions,
    draft_max: int,
    around: Surroundings,
) -> tuple[LookedAt, tuple[Finding, ...]]:
    """Examine the models, by their headers where there is no library; nothing without a target."""
    if not options.demo and options.model is None:
        return None, ()
    try:
        return _examine(planner, options, draft_max, around)
    except MissingLibraryError as missing:
        return _by_headers(options, missing)


def _priced(looked_at: LookedAt, options: RunOptions) -> PlanRequest | None:
    if not isinstance(looked_at, Examination):
        return None
    return PlanRequest(target=looked_at.request.target, context=options.context)


def _next(options: RunOptions, looked_at: LookedAt) -> list[str]:
    """Lines on what to run after a diagnosis that found no error."""
    if looked_at is None and options.preset is not None:
        return next_lines("fetch its models", ["spectui", "models", "fetch", options.preset])
    if looked_at is None:
        return next_lines("find the models of this machine", ["spectui", "models", "scan"])
    if not _has_draft(looked_at):
        given = ["-m", str(options.model)]
        here = next_lines("find drafts for it", ["spectui", "models", "scan", *given])
        return [*here, f"  {shell_line(['spectui', 'models', 'find', *given])}"]
    largest = looked_at.largest_context if isinstance(looked_at, Examination) else None
    is_less = largest is not None and largest < options.context.ctx_size
    fitting = {"ctx_size": largest} if is_less else {}
    return next_lines("measure whether a draft pays", tune_words(options.given.words, **fitting))


def _with_models(given: RunOptions) -> RunOptions:
    """Return the options with those of the preset's models that are present."""
    try:
        return with_preset_models(given)
    except BadInputError:
        if given.preset is None or given.model is not None:
            raise
    try:
        return with_preset_models(given, most_drafts=0)
    except BadInputError:
        # The target is missing, too, which is no error of who asks what to fetch.
        return given


def _examine(
    planner: Planner,
    options: RunOptions,
    draft_max: int,
    around: Surroundings,
) -> tuple[Examination, tuple[Finding, ...]]:
    """Examine; return what --fit has chosen as well."""
    # Their headers are read where they can do no harm.
    models = find_models(options, needs_draft=False, reads_headers=False)
    models = of_named_kinds(models, options)
    request = PlanRequest(
        target=options.target_options(models.target),
        context=options.context,
        max_draft=draft_max,
    )
    drafts = {name: options.draft_options(path) for name, path in models.drafts.items()}
    # What a folder's first look leaves out is judged here as anything else, by the whole plan.
    drafts |= {one.name: one.options for one in models.refused}
    chosen = fitted(planner, replace(request, draft=next(iter(drafts.values()), None)), options.fit)
    if chosen is not None:
        request = replace(request, target=chosen.target)
        drafts = {name: chosen.beside(draft) for name, draft in drafts.items()}
    text = None if chosen is None else chosen.sentence
    notes = () if text is None else (finding(Severity.NOTE, text),)
    devices, gpus = request.target.devices, around.backend.gpus
    around = replace(around, free=around.free.with_margins(options.margins, devices, gpus))
    found = examine(planner, around, request, drafts, say=options.progress.say, mtp=_mtp(options))
    return found, notes


def _by_headers(
    options: RunOptions, missing: MissingLibraryError
) -> tuple[HeaderLook, tuple[Finding, ...]]:
    """Look at the headers alone; return why no more was done as well."""
    models = find_models(options, needs_draft=False)
    look = look_at_headers(models.target, models.drafts)
    findings_ = [
        finding(Severity.ERROR, f"{name} cannot be the draft: {one.reason}", "-md")
        for name, one in look.drafts.items()
        if one.reason is not None
    ]
    shares = {
        name: read_share(look.target, one.facts)
        for name, one in look.drafts.items()
        if one.reason is None
    }
    findings_ += [
        finding(
            Severity.WARNING,
            f"a token of {name} reads {percent_text(share)} of the weights that one of the "
            "target reads, and a draft has to be far smaller; if -m and -md changed places, give "
            "them the other way round",
            "-md",
        )
        for name, share in shares.items()
        if share is not None and share > 1
    ]
    text = f"memory, speed and the rules of BOS and EOS were not examined: {missing}"
    return look, (*findings_, finding(Severity.WARNING, text))


def _mtp(options: RunOptions) -> bool | None:
    if options.names_mtp and not options.model_draft:
        return True
    return None if options.takes_mtp else False


def _verdict(examination: LookedAt, found: Sequence[Finding]) -> SpectuiError | None:
    """The error that determines the exit code; None for success."""
    if examination is None:
        return None
    if isinstance(examination, HeaderLook):
        is_unusable = bool(examination.drafts) and not _has_draft(examination)
        return BadInputError(found[0].what) if is_unusable else None
    errors = [one for one in found if one.severity is Severity.ERROR]
    if any(not demand.can_load for demand in examination.demands):
        return DoesNotFitError(errors[0].what)
    wanted = [one for one in examination.drafts if one.is_wanted]
    if wanted and not any(one.is_compatible for one in wanted):
        return BadInputError(errors[0].what)
    return None


def _has_draft(looked_at: Examination | HeaderLook) -> bool:
    """Whether one of the drafts can serve, as far as is known."""
    if isinstance(looked_at, Examination):
        return any(one.is_compatible is not False for one in looked_at.drafts)
    return any(one.reason is None for one in looked_at.drafts.values())


_COUNTS = (
    *("arch", "name", "n_params", "size_bytes", "n_layers", "n_ctx_train", "n_vocab", "n_experts"),
    *("mtp_layers", "has_chat_template"),
)
_BYTES = ("kv_bytes_per_token", "read_bytes_per_token")
_UNKNOWN_SPEED = "weights lie in a memory of unknown speed"


def _document(
    around: Surroundings,
    examination: LookedAt,
    found: Sequence[Finding],
    preset: Preset | None,
) -> Json:
    """``spectui.doctor/1``."""
    facts = around.backend.library
    return {
        **heading(
            "doctor",
            around.machine.document(),
            llama_cpp_python=around.backend.llama_cpp_python,
            llama_cpp=around.backend.llama_cpp,
            library=None if facts is None else facts.document(),
        ),
        "gpus": [_gpu(gpu) for gpu in around.backend.gpus],
        "links": {endpoint: asdict(link) for endpoint, link in around.links.items()},
        "free_bytes": dict(around.free.by_memory),
        **or_reason(
            "ram_bytes_per_s",
            around.bandwidth.ram_bytes_per_s,
            "there is no room for what measuring takes, up to half a gigabyte",
        ),
        **or_reason(
            "gpu_bytes_per_s",
            around.bandwidth.gpu_bytes_per_s,
            "no NVIDIA driver tells it of a GPU that llama.cpp uses",
        ),
        **_looked_at(examination, preset),
        "findings": [{"severity": str(one.severity), "text": one.what} for one in found],
    }


def _gpu(gpu: DeviceMemory) -> Json:
    return {
        "name": gpu.name,
        "description": gpu.description,
        "in_ram": gpu.in_ram,
        **fields_of(gpu, "the device does not tell", "free_bytes", "total_bytes"),
    }


def _looked_at(examination: LookedAt, preset: Preset | None) -> Json:
    match examination:
        case None:
            return _nothing(preset)
        case HeaderLook():
            return _read(examination)
        case Examination():
            return _examined(examination, preset)


def _read(look: HeaderLook) -> Json:
    """Facts from the headers; the examination of a target has more."""
    return {
        "target": _facts(look.target),
        "drafts": [
            {
                "name": name,
                "path": str(one.path),
                **or_reason("reason", one.reason, "its header does not speak against it"),
                **or_reason("model", one.facts and _facts(one.facts), "it is unusable"),
                **or_reason(
                    "read_share_of_target",
                    read_share(look.target, one.facts),
                    "a file has no weights",
                ),
            }
            for name, one in look.drafts.items()
        ],
    }


def _facts(facts: ModelFacts) -> Json:
    return {
        **{name: getattr(facts, name) for name in _COUNTS},
        "path": str(facts.path),
        **fields_of(facts, "no single number holds, or the file has no weights", *_BYTES),
    }


def _nothing(preset: Preset | None) -> Json:
    reason = "no target was given"
    if preset is not None and preset.target is not None:
        reason = f"models of {preset.name} are missing"
    return or_reason("target", None, reason)


def _examined(examination: Examination, preset: Preset | None) -> Json:
    chosen = examination.chosen
    no_draft = "no draft was given"
    if preset is not None and preset.draft:
        no_draft = f"drafts of {preset.name} are missing"
    if examination.drafts:
        no_draft = "none can serve"
    return {
        "target": {
            **_model(examination.plan.target),
            **or_reason("expected", _bound(examination.bound), _UNKNOWN_SPEED),
        },
        "drafts": [_draft(one) for one in examination.drafts],
        **or_reason("draft", None if chosen is None else _drafts(chosen), no_draft),
        "fits": examination.fits,
        "fits_alone": examination.fits_alone,
        "from_disk": examination.from_disk,
        "always_from_disk": examination.always_from_disk,
        "memory": [_demand(demand) for demand in examination.demands],
        "buffers": [
            {"model": role, **asdict(buffer)}
            for role, plan in (
                ("target", examination.plan.target),
                ("draft", examination.plan.draft),
            )
            if plan is not None
            for buffer in plan.buffers
        ],
        **or_reason("largest_context", examination.largest_context, "no context fits"),
        **or_reason(
            "smallest_n_cpu_moe",
            examination.smallest_n_cpu_moe,
            "without a GPU, without experts, with -ngl 0, or without room even so",
        ),
    }


def _drafts(chosen: ExaminedDraft) -> str:
    return MTP_KIND if chosen.is_mtp else str(chosen.options.path)


def _model(plan: ModelPlan) -> Json:
    return {
        **plan.info.document(rollback=str(plan.rollback), n_ctx=plan.n_ctx),
        "n_layers": plan.info.n_layers,
        "n_experts": plan.info.n_experts,
        "n_ctx_train": plan.info.n_ctx_train,
        "mtp_layers": plan.info.mtp_layers,
    }


def _draft(one: ExaminedDraft) -> Json:
    own = None if one.plan is None else one.plan.draft
    unusable = "it could not be planned beside the target"
    is_compatible = one.is_compatible
    return {
        "name": one.name,
        "path": str(one.options.path),
        **or_reason("compatible", is_compatible, unusable),
        **or_reason("fits", one.fits, unusable),
        **or_reason("reason", one.reason, "it can serve the target, and be loaded beside it"),
        **or_reason("model", None if own is None else _model(own), unusable),
        **or_reason(
            "comparison",
            None if one.report is None else _compared(one.report),
            _uncompared(one),
        ),
        **or_reason(
            "bound",
            None if one.bound is None else _draft_bound(one.bound),
            _UNKNOWN_SPEED if is_compatible else "it cannot serve the target",
        ),
    }


def _uncompared(one: ExaminedDraft) -> str:
    if one.is_mtp:
        return "they are the target's own layers"
    return "it is unusable" if one.plan is None else "it has MTP layers alone"


def _draft_bound(bound: DraftBound) -> Json:
    alpha = or_reason(
        "break_even_alpha",
        bound.break_even_alpha,
        "if tokens were routed to experts at random, not even α = 1 would be enough"
        if bound.can_pay
        else "not even α = 1 would be enough",
    )
    return {
        "draft_step": bound.draft_step,
        **alpha,
        "speedup_if_perfect": bound.speedup_if_perfect,
    }


def _compared(report: PairReport) -> Json:
    return {
        **asdict(report),
        "target": _tokenizer(report.target),
        "draft": _tokenizer(report.draft),
        **fields_of(report, "llama.cpp accepts the pair", "reason"),
        **fields_of(report, "one of them has no tokens", "overlap_percent"),
    }


def _tokenizer(model: Outline) -> Json:
    found = {**asdict(model), **or_reason("pre", model.pre, "its file does not say")}
    del found["texts"], found["chat_template"]
    return found


def _bound(bound: SpeedBound | None) -> Json | None:
    if bound is None:
        return None
    verify = [{"n_drafted": n, "ratio": ratio} for n, ratio in bound.verify.items()]
    return {**asdict(bound), "tokens_per_s": bound.tokens_per_s, "verify": verify}


def _demand(demand: Demand) -> Json:
    return {
        **asdict(demand),
        "title": demand.where,
        **fields_of(demand, "nobody tells what is free", "free_bytes", "left_bytes"),
        **or_reason("limit", demand.limit, "no cgroup's limit bounds it"),
        "fits": demand.fits,
        "can_load": demand.can_load,
    }
