"""Runs ``spectui trace`` with parsed options."""

import os
from collections.abc import Sequence
from pathlib import Path

from spectui.cli.output import check_writable, complain, write_result
from spectui.cli.page import sentence
from spectui.cli.request import RunOptions
from spectui.cli.session import (
    find_candidates,
    load_models,
    open_engine,
    place_target,
    read_chats,
    read_prompts,
    tokenized,
    with_candidates,
)
from spectui.cli.taken import warn_of_unmeasured
from spectui.cli.trace import Trace
from spectui.engine.commands import LoadTarget
from spectui.errors import CancelledError, UsageError
from spectui.format import counted
from spectui.interrupts import interrupts
from spectui.paths import data_dir, ensure_dir
from spectui.trace.file import SUFFIX, write_trace
from spectui.trace.record import Trace as Recorded
from spectui.trace.record import bare
from spectui.tune.loading import Loader
from spectui.tune.tracing import Tracer, Tracing, trace_of


def trace(request: Trace) -> None:
    """Load the models, record, and write the trace.

    Raises:
        CancelledError: it was interrupted; what was complete has been written.
    """
    options = with_candidates(RunOptions.of(request.given))
    warn_of_unmeasured(request.given)
    _check_files(options, request.out)
    _check_depth(request.depth, options)
    with options.shown() as shown:
        tracing, recorded, notes = _recorded(request, shown)
    _write(recorded, tracing, notes, request)


def _check_files(options: RunOptions, out: Path | None) -> None:
    """Refuse files that cannot be written, before anything is loaded."""
    check_writable(options.json_path, options.input_files())
    if out is None:
        ensure_dir(_folder())
    else:
        json_file = None if options.json_path is None else Path(options.json_path)
        taken = (*options.input_files(), json_file)
        check_writable(str(out), taken, option="--out", must_be_file=True)


def _recorded(request: Trace, options: RunOptions) -> tuple[Tracing, Recorded, tuple[str, ...]]:
    """Record; return the tracing, the trace to store, and notes on what was recorded."""
    read, chats, depth = read_prompts(options), read_chats(options), request.depth
    models = find_candidates(options)
    options, placement = place_target(options, models, max_draft=depth)
    with open_engine(options) as engine:
        command = LoadTarget(
            options=placement,
            context=options.context,
            max_draft=depth,
            mtp_file=bool(models.mtp_files),
        )
        target, found = load_models(engine, options, models, command)
        candidates = tuple(c for c in found if c.error is None)
        workload = tokenized(engine, read.prompts, options, target, chats)
        tracing = Tracer(
            workload,
            Loader(engine, candidates),
            depth=depth,
            n_ctx=target.n_ctx,
            rollback=target.rollback,
            with_costs=request.costs,
            on_event=options.progress.say,
        ).run()
        interrupts.hold()
    recorded = trace_of(
        tracing,
        target=target,
        candidates=candidates,
        workload=workload,
    )
    notes = (target.info.alteration, workload.note)
    return tracing, recorded, tuple(f"note: {one}." for one in notes if one is not None)


def _check_depth(depth: int, options: RunOptions) -> None:
    """Refuse drafts that are too long for the batch or the context.

    Raises:
        UsageError: says which one.
    """
    for option, size in (("-b", options.context.batch_size), ("-c", options.context.ctx_size)):
        if depth >= size:
            raise UsageError(
                f"--draft-max {depth} does not fit in {option} {size}, which holds the bonus "
                f"token as well; raise {option}, or lower --draft-max"
            )


def _write(recorded: Recorded, tracing: Tracing, notes: Sequence[str], request: Trace) -> None:
    if not tracing.recordings:
        if tracing.error is not None:
            raise tracing.error
        raise CancelledError("interrupted before a recording was complete; nothing was written")
    if not request.keep_text:
        recorded = bare(recorded)
    path = request.out or _new_file(recorded)
    if tracing.interrupted and path.exists():
        # A part takes no whole one's place.
        path = _new_file(recorded)
    write_trace(recorded, path, is_own=path != request.out)
    n_prompts = len(recorded.recordings)
    n_tokens = sum(recording.n_decoded for recording in tracing.recordings)
    document = {
        "schema": "spectui.recorded/1",
        "spectui": recorded.spectui,
        "trace": str(path),
        "n_prompts": n_prompts,
        "n_tokens": n_tokens,
        "drafts": list(recorded.drafts),
        "has_text": recorded.has_text,
        "interrupted": tracing.interrupted,
    }
    told = f"{counted(n_prompts, 'prompt')}, {counted(n_tokens, 'token')}"
    text = "\n".join((*map(sentence, (*notes, told)), str(path)))
    write_result(document, text, request.given["json_path"])
    if tracing.interrupted:
        what = f"{counted(n_prompts, 'prompt')} with {counted(len(recorded.drafts), 'draft')}"
        complain(f"what is complete was written to {path}: {what}")
        raise tracing.error or CancelledError("interrupted; run the command again for all")


def _new_file(recorded: Recorded) -> Path:
    stamp = "".join(digit for digit in recorded.recorded[:19] if digit.isdigit())
    stem = Path(recorded.target.file).stem
    return _folder() / f"{stem}-{stamp}-{os.getpid()}{SUFFIX}"


def _folder() -> Path:
    """Where traces without a name of their own are kept."""
    return data_dir() / "traces"
