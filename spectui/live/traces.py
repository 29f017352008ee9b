"""Traces of a session's own answers: written only when the user asks for it."""

import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from spectui import __version__
from spectui.engine.events import ModelLoaded
from spectui.errors import UsageError
from spectui.live.recording import ChatRecording
from spectui.llama.library import binding_version, llama_cpp_version
from spectui.monitor.machine import this_machine
from spectui.options.setup import Schedule
from spectui.paths import data_dir
from spectui.trace.costs import Costs
from spectui.trace.file import SUFFIX, write_trace
from spectui.trace.record import Trace, bare
from spectui.tune.tracing import identity


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedTrace:
    """A trace on disk."""

    path: Path
    n_answers: int
    n_left_out: int
    """Answers that were sampled otherwise than the last one: a trace has one way of sampling."""
    has_text: bool


def chat_trace(
    recording: ChatRecording,
    *,
    target: ModelLoaded,
    drafter: ModelLoaded,
    schedule: Schedule,
    costs: Costs | None,
) -> Trace:
    """Return the recorded answers that were sampled as the last one was; with text.

    Args:
        recording: recording of the answers.
        target: target that wrote them.
        drafter: who went along them: the draft, or the target for its own MTP layers.
        schedule: the work per round that ``costs`` are of.
        costs: costs of rounds; None if unknown.

    Raises:
        UsageError: nothing is recorded yet.
    """
    recorded = [text for text in recording.texts if text.is_recorded]
    if not recorded:
        raise UsageError("no answer is recorded yet; ask something first")
    sampling = recorded[-1].sampling
    return Trace(
        spectui=__version__,
        recorded=datetime.now(UTC).isoformat(timespec="seconds"),
        machine=this_machine().fingerprint,
        llama_cpp=(binding_version(), llama_cpp_version()),
        target=identity(target),
        drafts={recording.draft: identity(drafter)},
        sampling=sampling,
        schedule=schedule,
        # Without the target alone beside them they predict nothing.
        costs={recording.draft: costs} if costs is not None and costs.off_s else {},
        has_text=True,
        recordings=tuple(text.recording for text in recorded if text.sampling == sampling),
    )


def save_trace(trace: Trace, n_recorded: int, *, keep_text: bool) -> SavedTrace:
    """Write a trace of a chat into the data folder's ``traces``.

    Args:
        trace: with text.
        n_recorded: answers that there are, those left out included.
        keep_text: whether the file shall hold the text.

    Raises:
        BadInputError: the folder or the file cannot be written.
    """
    if not keep_text:
        trace = bare(trace)
    stamp = "".join(digit for digit in trace.recorded[:19] if digit.isdigit())
    # The process id keeps two that end in the same second apart.
    kind = "chat-text" if keep_text else "chat"
    name = f"{Path(trace.target.file).stem}-{kind}-{stamp}-{os.getpid()}{SUFFIX}"
    path = data_dir() / "traces" / name
    write_trace(trace, path)
    return SavedTrace(
        path=path,
        n_answers=len(trace.recordings),
        n_left_out=n_recorded - len(trace.recordings),
        has_text=keep_text,
    )
