"""Runs ``spectui probe`` with parsed options."""

from dataclasses import asdict
from typing import Any

from rich.table import Table

from spectui.cli.drawing import drawn, wrapped
from spectui.cli.given import find_models, mind_sampling
from spectui.cli.output import check_writable, write_result
from spectui.cli.presets import with_preset_models
from spectui.cli.progress import open_progress
from spectui.cli.request import RunOptions
from spectui.cli.session import SUITE_PROMPTS, open_engine, read_prompts, tokenized
from spectui.cli.taken import is_taken, warn_of_unmeasured
from spectui.documents import Json, or_reason
from spectui.engine.commands import Generate, ProbeExperts
from spectui.engine.driver import Engine
from spectui.engine.events import ModelLoaded
from spectui.engine.placing import left_open
from spectui.errors import BadInputError, UsageError
from spectui.format import bytes_text, counted, percent_text
from spectui.interrupts import interrupts
from spectui.measure.header import header
from spectui.measure.workload import WorkItem, Workload
from spectui.monitor.machine import Machine, this_machine
from spectui.tune.experts import ExpertUse, Routing, expert_use


def probe_experts(shared: dict[str, Any]) -> None:
    """Load the target, watch its experts while it answers, and print the counts.

    Raises:
        BadInputError: the target is no mixture of experts, or a file is missing.
        UsageError: a draft was named.
    """
    given = RunOptions.of(shared)
    warn_of_unmeasured(shared)
    if given.model_draft and not is_taken("model-draft"):
        raise UsageError("probe experts runs the target alone; leave out -md")
    options = with_preset_models(given, most_drafts=0)
    check_writable(options.json_path, options.input_files())
    prompts = read_prompts(options, of_suite=SUITE_PROMPTS)
    progress = open_progress(quiet=options.quiet, verbose=options.verbose)
    try:
        models = find_models(options, progress, needs_draft=False)
        mind_sampling(models.target, progress)
        with open_engine(options, progress) as engine:
            placed = left_open(options.target_options(models.target), options.fit)
            target = engine.load_target(placed, options.context, max_draft=1)
            traffic = target.memory.traffic
            if traffic is None or not traffic.n_experts:
                raise BadInputError(
                    f"{models.target} ({target.info.arch}) has no experts to count; give a mixture "
                    "of experts"
                )
            workload = tokenized(engine, prompts, options, target, progress.say)
            texts = []
            for item in workload.items:
                progress.say(f"counting experts on {item.id}")
                texts.append(_routing(engine, workload, item))
            interrupts.hold()
    finally:
        progress.close()
    use = expert_use(texts, traffic)
    document = _experts_document(use, machine=this_machine(), target=target, workload=workload)
    write_result(document, _told(use, target), options.json_path)


def _routing(engine: Engine, workload: Workload, item: WorkItem) -> Routing:
    """Experts of an answer's tokens: those that rounds verify."""
    answer = engine.generate(
        Generate(prompt=item.tokens, n_predict=workload.n_predict, sampling=workload.sampling)
    )
    probed = engine.probe_experts(
        ProbeExperts(text=(*item.tokens, *answer.tokens), n_skipped=len(item.tokens))
    )
    return probed.experts


def _told(use: ExpertUse, target: ModelLoaded) -> str:
    table = Table(box=None, header_style="bold")
    for heading in ("batch", "experts", "of layers", "uniform", "from RAM"):
        table.add_column(heading, justify="right", no_wrap=True)
    for one in use.batches:
        table.add_row(
            str(one.n_tokens),
            f"{one.union:.1f}",
            f"{one.lowest:.1f} to {one.highest:.1f}",
            f"{one.uniform:.1f}",
            bytes_text(round(one.cpu_bytes)),
        )
    head = (
        f"{target.info.path.name}: {use.n_used} of {use.n_experts} experts per token in "
        f"{use.n_layers} layers, counted on {use.n_tokens} tokens of its own answers."
    )
    told = f"{wrapped(head)}\n\n{drawn(table)}\n\n{wrapped(_meaning(use))}"
    altered = target.info.alteration
    return told if altered is None else f"{told}\nNOTE: {altered}."


def _meaning(use: ExpertUse) -> str:
    return (
        "batch: tokens of one decode, a draft and the token before it. experts: that at least one "
        "of them is routed to, the mean over layers and batches. of layers: the same in the layer "
        "with fewest and in that with most. uniform: if tokens chose at random. from RAM: weights "
        f"that such a batch reads there, those outside the experts included. {_filled(use)}"
    )


def _filled(use: ExpertUse) -> str:
    lengths = [one.n_tokens for one in use.batches]
    last, reached = use.batches[-1], use.saturation
    if reached is None:
        return (
            f"A batch of {last.n_tokens} touches {percent_text(last.union / use.n_experts)} of all."
        )
    before = max((n for n in lengths if n < reached), default=0)
    shortest = counted(reached, "token")
    if reached > before + 1:
        # Those in between were not counted.
        shortest = f"{before + 1} to {shortest}"
    return f"The shortest batch that touches nine tenths of all experts has {shortest}."


def _experts_document(
    use: ExpertUse, *, machine: Machine, target: ModelLoaded, workload: Workload
) -> Json:
    """``spectui.experts/1``."""
    longest = use.batches[-1].n_tokens
    return {
        **header("experts", machine),
        "target": target.document(),
        "config": workload.document(),
        "n_experts": use.n_experts,
        "n_experts_used": use.n_used,
        "n_layers": use.n_layers,
        "n_tokens": use.n_tokens,
        **or_reason(
            "saturation", use.saturation, f"{longest} tokens touch less than nine tenths of them"
        ),
        "batches": [asdict(one) for one in use.batches],
    }
