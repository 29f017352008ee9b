"""Runs ``spectui trace`` with parsed options."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from spectui.cli.drawing import sentence
from spectui.cli.output import check_writable, complain, write_result
from spectui.cli.progress import words
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
from spectui.documents import or_reason
from spectui.engine.commands import LoadTarget
from spectui.errors import BadInputError, CancelledError, UsageError
from spectui.format import counted
from spectui.interrupts import interrupts
from spectui.paths import data_dir, ensure_dir
from spectui.trace.file import SUFFIX, write_trace
from spectui.trace.ngrams import NGRAM_COSTS
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
    if request.costs:
        notes = (*_without_costs(recorded), *notes)
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
            on_event=lambda event: options.progress.say(words.traced(event)),
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
    out = request.out
    if not tracing.recordings:
        if tracing.error is not None:
            raise tracing.error
        raise CancelledError("interrupted before a recording was complete; nothing was written")
    if not request.keep_text:
        recorded = bare(recorded)
    path, problem = _keep(recorded, out, whole=not tracing.interrupted)
    n_prompts = len(recorded.recordings)
    n_tokens = sum(recording.n_decoded for recording in tracing.recordings)
    document = {
        "schema": "spectui.recorded/1",
        "spectui": recorded.spectui,
        **or_reason("trace", None if problem else str(path), str(problem)),
        "n_prompts": n_prompts,
        "n_tokens": n_tokens,
        "drafts": list(recorded.drafts),
        "costs": {draft: costs.document() for draft, costs in recorded.costs.items()},
        "has_text": recorded.has_text,
        "baseline_s": tracing.baseline_s,
        "draft_s": tracing.draft_s,
        "interrupted": tracing.interrupted,
    }
    told = (*notes, _summary(tracing, n_tokens))
    text = "\n".join((*map(sentence, told), *([] if problem else [str(path)])))
    write_result(document, text, request.given["json_path"])
    if problem is not None:
        raise problem
    if tracing.interrupted:
        written = f"{counted(n_prompts, 'prompt')} with {counted(len(recorded.drafts), 'draft')}"
        if tracing.error is not None:
            complain(f"what is complete was written to {path}: {written}")
            raise tracing.error
        raise CancelledError(_interrupted(out or path, path, written))


def _keep(
    recorded: Recorded, out: Path | None, *, whole: bool
) -> tuple[Path, BadInputError | None]:
    """Write a trace; return where it is, or should be, and why it could not be written.

    The error is returned so that the figures can be printed before it is raised.
    """
    path = out or _new_file(recorded)
    if not whole and path.exists():
        # What is complete of an interrupted one replaces no whole one.
        ending = SUFFIX if path.name.endswith(SUFFIX) else path.suffix
        path = path.with_name(f"{path.name.removesuffix(ending)}.interrupted{ending}")
    try:
        write_trace(recorded, path, is_own=out is None)
    except BadInputError as error:
        return path, error
    return path, None


def _interrupted(path: Path, kept: Path, written: str) -> str:
    if kept == path:
        return (
            f"interrupted; what is complete was written: {written}; run the command again for all"
        )
    return (
        f"interrupted; {path} is left as it was, and what is complete was written to {kept}: "
        f"{written}; run the command again for all"
    )


def _without_costs(recorded: Recorded) -> Iterator[str]:
    """Yield the reason why a drafter has no costs."""
    for name in recorded.drafts or (NGRAM_COSTS,):
        if name not in recorded.costs:
            yield f"no costs of {name}: its rounds were too few, or it was interrupted before them"


def _summary(tracing: Tracing, n_tokens: int) -> str:
    told = f"{counted(len(tracing.recordings), 'prompt')}, {counted(n_tokens, 'token')}"
    if not tracing.baseline_s:
        # All are answers that were there already.
        return told
    told = f"{told}: the target took {tracing.baseline_s:.1f} s to write them"
    if not tracing.draft_s:
        return told
    cost = tracing.draft_s / tracing.baseline_s
    return f"{told}, the drafts {tracing.draft_s:.1f} s to go along them, {cost:.2f} times as long"


def _new_file(recorded: Recorded) -> Path:
    stamp = "".join(digit for digit in recorded.recorded[:19] if digit.isdigit())
    stem = Path(recorded.target.file).stem
    return _folder() / f"{stem}-{stamp}-{os.getpid()}{SUFFIX}"


def _folder() -> Path:
    """Where traces without a name of their own are kept."""
    return data_dir() / "traces"
