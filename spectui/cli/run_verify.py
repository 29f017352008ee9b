"""Runs ``spectui verify`` with parsed options."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from spectui.cli.documents.verify import verify_document
from spectui.cli.drawing import drawn, wrapped
from spectui.cli.interrupts import interrupts
from spectui.cli.output import check_writable, write_result
from spectui.cli.progress import Progress, open_progress
from spectui.cli.request import SharedOptions
from spectui.cli.serving import Serving, Wanted
from spectui.cli.session import SUITE_PROMPTS, open_engine, read_prompts
from spectui.cli.taken import mind_unmeasured
from spectui.cli.verify_request import VerifyOptions, is_direct, of_options, of_study, split
from spectui.errors import CancelledError
from spectui.format import counted, percent_text
from spectui.llama.library import llama_cpp_commit, llama_cpp_version
from spectui.measure.comparison import Comparison, compare
from spectui.measure.measurer import Measurer
from spectui.measure.promise import Case, Promise, observed_of
from spectui.measure.workload import tokenize
from spectui.monitor.machine import this_machine
from spectui.options.setup import Schedule
from spectui.server.binary import examine
from spectui.speculative.mtp import effective_schedule
from spectui.verify import engine_side
from spectui.verify.comparison import Summary, gain, interval_text, verdict
from spectui.verify.engine_side import Results
from spectui.verify.result import Verified, notes, warnings
from spectui.verify.served import Delivered
from spectui.verify.subject import subject

_MIN_GAIN = 0.02
"""The default of ``tune``."""
_NONE = "–"


def verify(ctx: click.Context, parsed: dict[str, Any], study: str | None) -> None:
    """Obtain the promise, serve the prompts, compare, and print.

    Raises:
        CancelledError: it was interrupted; what was measured has been printed.
        ServerError: the binary is no llama-server, or failed; what was measured has been printed.
        UsageError: options that contradict each other.
    """
    options, shared, speculation = split(parsed)
    direct = is_direct(ctx, study)
    minded = mind_unmeasured(parsed)
    check_writable(shared.json_path, (*shared.input_files(), Path(options.server_bin)))
    binary = examine(options.server_bin)
    progress = open_progress(quiet=shared.quiet, verbose=shared.verbose)
    serving = Serving(
        binary=binary,
        shared=shared,
        progress=progress,
        repeats=options.repeats,
        counts=options.counts,
        keeps_both=options.keeps_both,
        timeout_s=options.timeout,
    )
    try:
        if direct:
            prompts = read_prompts(shared, of_suite=SUITE_PROMPTS)
            wanted = of_options(shared, speculation, prompts, progress)
            found = _verify_setting(serving, options, wanted)
        else:
            found = serving.verify(of_study(study, options, shared.prompts))
        interrupts.hold()
    finally:
        progress.close()
    _report(found, shared.json_path, minded)
    _raise_ended(found.delivered)


def _raise_ended(delivered: Delivered) -> None:
    ended = delivered.ended
    if isinstance(ended, KeyboardInterrupt | CancelledError):
        n_pairs = counted(len(delivered.pairs), "prompt")
        raise CancelledError(
            f"interrupted after {n_pairs} of llama-server's; what was measured is shown above, and "
            "the command run again measures all"
        )
    if ended is not None:
        raise ended


def _verify_setting(serving: Serving, options: VerifyOptions, wanted: Wanted) -> Verified:
    # What the binary has no words for is said before anything is measured.
    serving.arguments(wanted.case)
    if options.no_promise:
        return serving.verify(wanted)
    made = _measured(serving.shared, wanted, serving.progress, options.repeats)
    return serving.verify(
        replace(wanted, promise=made.promise), results=made.results, ended=made.ended
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    """The engine's own measurement, made before the server's."""

    promise: Promise
    results: Results
    """Results by the prompts' tokens, if measured on the server's schedule."""
    ended: BaseException | None


def _measured(shared: SharedOptions, wanted: Wanted, progress: Progress, repeats: int) -> _Made:
    """Measure in-process the speedup that a server should deliver."""
    case = wanted.case
    with open_engine(shared, progress) as engine:
        target = engine_side.load(engine, case)
        schedule = effective_schedule(shared.schedule_kind(), target.mtp_layers)
        workload = tokenize(
            engine,
            wanted.prompts,
            n_predict=case.n_predict,
            sampling=case.sampling,
            n_ctx=target.n_ctx,
        )
        progress.say("measuring in-process what llama-server is to deliver")
        result = compare(
            engine,
            workload,
            Measurer(engine, workload, schedule),
            case.speculation,
            repeats=repeats,
            on_pair=progress.on_pair,
        )
    return _made(case, result, schedule, shared.prompts)


def _made(case: Case, result: Comparison, schedule: Schedule, prompts: Path | None) -> _Made:
    promise = Promise(
        case=case,
        schedule=schedule,
        prompts=prompts,
        observed=observed_of(result.pairs),
        speedup=result.speedup,
        min_gain=_MIN_GAIN,
        llama_cpp=llama_cpp_version(),
        llama_cpp_commit=llama_cpp_commit(),
    )
    is_servers = schedule is Schedule.SERVER
    return _Made(
        promise=promise,
        results={p.item.tokens: p.speculative for p in result.pairs} if is_servers else {},
        ended=result.ended,
    )


def _report(found: Verified, json_path: str | None, minded: tuple[str, ...]) -> None:
    """Print promised against delivered.

    Args:
        found: both.
        json_path: value of ``--json``.
        minded: parts of the ``--from`` command that are not measured, as reported before.
    """
    document = verify_document(found, this_machine())
    document["notes"] = [*minded, *document["notes"]]
    write_result(document, text_of(found), json_path)


def text_of(found: Verified) -> str:
    """The sentence, the table and the notes."""
    lines = [wrapped(_sentence(found))]
    if found.differing is not None:
        lines.append(wrapped(found.differing.sentence))
    lines += [wrapped(subject(found.case, found.origin)), "", drawn(_table(found)), ""]
    lines += map(wrapped, _lines(found))
    lines += [wrapped(f"NOTE: {note}") for note in notes(found)]
    lines += [wrapped(f"WARNING: {warning}") for warning in warnings(found)]
    return "\n".join(lines).rstrip()


def _sentence(found: Verified) -> str:
    promised, delivered = found.promised, found.summary
    if delivered is None:
        return "delivered: nothing was measured before it ended"
    return verdict(None if promised is None else promised.speedup, delivered.speedup, found.ratio)


def _table(found: Verified) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("", no_wrap=True)
    for heading in ("promised", "delivered"):
        table.add_column(heading, justify="right", no_wrap=True, min_width=12)
    cells = zip(*(_cells(one) for one in (found.promised, found.summary)), strict=True)
    rows = (
        "off, tokens/s",
        "on, tokens/s",
        "speedup",
        "95 % interval",
        "accepted of drafted",
        "acceptance rate",
        "prompts",
    )
    for heading, (promised, delivered) in zip(rows, cells, strict=True):
        table.add_row(heading, promised, delivered)
    engine = _NONE if found.promise is None else found.builds.engine
    server = found.builds.server
    table.add_row("llama.cpp", engine, "unknown" if server is None else server.text)
    return table


def _cells(summary: Summary | None) -> tuple[str, ...]:
    if summary is None:
        return (_NONE,) * 7
    rate = summary.acceptance_rate
    return (
        f"{summary.baseline_tokens_per_s:.2f}",
        f"{summary.tokens_per_s:.2f}",
        gain(summary.speedup),
        interval_text(summary.speedup) or _NONE,
        f"{summary.n_accepted} of {summary.n_drafted}",
        percent_text(rate, 1),
        str(summary.speedup.n_prompts),
    )


def _lines(found: Verified) -> Iterator[str]:
    ratio, check = found.ratio, found.counts
    if ratio is not None:
        interval = "" if ratio.low is None else f" ({ratio.low:.3f} to {ratio.high:.3f})"
        yield (
            f"delivered over promised speedup: {ratio.estimate:.3f}{interval}, on the "
            f"{ratio.n_prompts} prompts that are the same"
        )
    if check is None:
        yield f"counts beside the engine's: not compared, {found.counts_reason}"
    else:
        equal = f"{check.n_equal} of {check.n_compared} equal"
        yield f"counts and output beside the engine's: {equal}"
