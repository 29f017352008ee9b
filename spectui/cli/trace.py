"""``spectui trace``: records a trace from which settings are predicted."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from spectui.cli.click_options import option, request, request_command, switch
from spectui.cli.given import Given
from spectui.cli.options import CANDIDATE_OPTIONS, CHATS, YES
from spectui.cli.output import check_writable, complain
from spectui.cli.request import RunOptions, check_drafting
from spectui.errors import CancelledError
from spectui.format import counted
from spectui.interrupts import interrupts
from spectui.options.option import Form, Whole
from spectui.paths import data_dir, ensure_dir

if TYPE_CHECKING:
    from spectui.trace.record import Trace as Recorded
    from spectui.tune.tracing import Tracing

_EXAMPLES = (
    ("Record the demo pair", "spectui trace --demo --out demo.trace.json.gz"),
    (
        "Your pair on your prompts, for longer drafts",
        "spectui trace -m target.gguf -md draft.gguf --prompts chat.jsonl --draft-max 32",
    ),
)


@request
class Trace:
    """Record what settings can be predicted from, without measuring each.

    The target continues every prompt once, then every draft goes along its output. Ends with the
    path of the trace, for spectui replay.
    """

    given: Given
    depth: int = option(
        "--draft-max",
        "--spec-draft-n-max",
        default=16,
        type=Whole(1, 254),
        help="Longest draft that the trace can answer for.",
    )
    out: Path | None = option(
        "--out",
        type=Form.FILE,
        metavar="FILE",
        help="Where to write it (default: a new file in spectui's data folder).",
    )
    costs: bool = switch(
        "--costs/--no-costs",
        default=True,
        help="Also measure what rounds cost, to predict tokens per second.",
    )
    keep_text: bool = switch(
        "--keep-text",
        help=(
            "Store the tokens as they are. Without it they are numbered by first appearance, which "
            "predicts as well and cannot be read."
        ),
    )


command = request_command(
    Trace, "trace", "trace:trace", shared=(*CANDIDATE_OPTIONS, CHATS, YES), examples=_EXAMPLES
)


def trace(request: Trace) -> None:
    """Load the models, record, and write the trace.

    Raises:
        CancelledError: it was interrupted; what was complete has been written.
    """
    from spectui.cli.from_command import warn_of_unmeasured
    from spectui.cli.session import with_candidates

    options = with_candidates(RunOptions.of(request.given))
    warn_of_unmeasured(request.given)
    _check_files(options, request.out)
    check_drafting(options.context, request.depth)
    with options.shown() as shown:
        tracing, notes = _recorded(request, shown)
    _write(tracing, notes, request)


def _check_files(options: RunOptions, out: Path | None) -> None:
    """Refuse files that cannot be written, before anything is loaded."""
    check_writable(options.json_path, options.input_files())
    if out is None:
        ensure_dir(_folder())
    else:
        json_file = None if options.json_path is None else Path(options.json_path)
        inputs = (*options.input_files(), json_file)
        check_writable(str(out), inputs, option="--out", must_be_file=True)


def _recorded(request: Trace, options: RunOptions) -> "tuple[Tracing, tuple[str, ...]]":
    """Record; return the tracing, and notes on what was recorded."""
    from spectui.cli.named_models import mtp_files
    from spectui.cli.session import (
        find_candidates,
        load_models,
        open_engine,
        place_target,
        read_chats,
        read_prompts,
        tokenized,
    )
    from spectui.engine.commands import LoadTarget
    from spectui.tune.candidates import Loader
    from spectui.tune.tracing import Tracer

    read, chats, depth = read_prompts(options), read_chats(options), request.depth
    path, drafts = find_candidates(options)
    options, placement = place_target(options, path, drafts, max_draft=depth)
    with open_engine(options) as engine:
        command = LoadTarget(
            options=placement,
            context=options.context,
            max_draft=depth,
            mtp_file=bool(mtp_files(drafts)),
        )
        target, found = load_models(engine, options, drafts, command)
        candidates = tuple(c for c in found if c.error is None)
        workload = tokenized(engine, read.prompts, options, target, chats)
        tracing = Tracer(
            workload,
            Loader(engine, candidates),
            depth=depth,
            target=target,
            with_costs=request.costs,
            on_event=options.progress.say,
        ).run()
        interrupts.hold()
    notes = (target.info.alteration, workload.note)
    return tracing, tuple(f"note: {one}." for one in notes if one is not None)


def _write(tracing: "Tracing", notes: Sequence[str], request: Trace) -> None:
    """Write the trace, and print where it is; raise what has ended the recording early."""
    from spectui.cli.page import next_lines, write_result
    from spectui.page import Paragraph
    from spectui.trace.file import write_trace
    from spectui.trace.record import bare

    recorded = tracing.trace
    if not recorded.recordings:
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
    n_tokens = sum(recording.n_decoded for recording in recorded.recordings)
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
    summary = f"{counted(n_prompts, 'prompt')}, {counted(n_tokens, 'token')}"
    next_ = next_lines("predict settings from it", ["spectui", "replay", str(path)])
    page, given = [*map(Paragraph, (*notes, summary)), str(path), "", *next_], request.given
    write_result(document, page, given["json_path"], quiet=given["quiet"])
    if tracing.interrupted:
        what = f"{counted(n_prompts, 'prompt')} with {counted(len(recorded.drafts), 'draft')}"
        complain(f"what is complete was written to {path}: {what}")
        raise tracing.error or CancelledError("interrupted; run the command again for all")


def _new_file(recorded: "Recorded") -> Path:
    from spectui.trace.file import SUFFIX

    stamp = "".join(digit for digit in recorded.recorded[:19] if digit.isdigit())
    stem = Path(recorded.target.file).stem
    return _folder() / f"{stem}-{stamp}-{os.getpid()}{SUFFIX}"


def _folder() -> Path:
    """Where traces without a name of their own are kept."""
    return data_dir() / "traces"
