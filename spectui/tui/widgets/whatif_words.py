"""Sentences of the what-if screen."""

from spectui.config import SpeculationConfig
from spectui.live.recording import ChatRecording
from spectui.live.whatif import Source, WhatIf, WhatIfState
from spectui.models.sizes import counted
from spectui.replay.totals import Total
from spectui.tui import units
from spectui.tui.glyphs import Glyphs

_NOTHING_SAID = (
    "Nothing has been said yet: ask something; when the answer is there and nobody waits, the "
    "draft goes along it, and every setting can be replayed on it."
)
_TAKEN_UP = (
    "What was answered so far is not recorded, as answers of earlier sessions never are: ask "
    "something; when the answer is there and nobody waits, every setting can be replayed on it."
)
_ANSWERING = (
    "An answer is being written; when it is there and nobody waits, the draft goes along it, and "
    "every setting can be replayed on it."
)
_WAITING = "The draft is going along what was answered; a moment of rest is all it needs."

_REPLAYING = "Every setting is being replayed on what was answered."


def nothing_recorded(*, is_answering: bool, n_turns: int) -> str:
    """Return why there is no answer to replay in a chat of ``n_turns`` questions."""
    if is_answering:
        return _ANSWERING
    return _TAKEN_UP if n_turns else _NOTHING_SAID


def empty(state: WhatIfState) -> str:
    """Return why nothing is shown."""
    recording = state.recording
    if recording is None:
        return state.reason or _NOTHING_SAID
    if recording.recordings:
        return _REPLAYING
    if recording.n_waiting:
        return _WAITING
    return _failure(recording) or state.reason or _NOTHING_SAID


def _failure(recording: ChatRecording) -> str | None:
    if recording.failure is None:
        return None
    return f"An answer could not be recorded: {recording.failure}."


def heading(whatif: WhatIf) -> str:
    """Return what is replayed, for a line that has room for nothing else."""
    answers = counted(len(whatif.recordings), "answer")
    return f"What if: {counted(whatif.n_tokens, 'token')} of {answers}"


def basis(state: WhatIfState, whatif: WhatIf) -> str:
    """Return what is replayed, on how much text, and where the speed comes from."""
    recording, source = state.recording, state.known.source
    parts = [f"{heading(whatif)}, replayed exactly."]
    if recording is not None and recording.n_waiting:
        parts.append(f"{counted(recording.n_waiting, 'answer')} more to be recorded.")
    if recording is not None and (failure := _failure(recording)) is not None:
        parts.append(failure)
    if whatif.costs is None:
        parts.append(f"{source[:1].upper()}{source[1:]}.")
    else:
        parts.append(f"Speed: predicted ({state.schedule} schedule), costs {source}.")
    return " ".join(parts)


def setting(speculation: SpeculationConfig) -> str:
    """Return a setting as tables of trials write it."""
    longest, shortest = speculation.draft_max, speculation.draft_min
    return f"max {longest}, min {shortest}, p_min {speculation.draft_p_min:.2f}"


def counts(total: Total, state: WhatIfState, glyphs: Glyphs) -> str:
    """Return the counts of the setting, and in a line of its own what was measured with it.

    What the chat measured is of the answers that ran with the setting, and of no others.
    """
    rounds = counted(total.n_rounds, "round")
    parts = [f"{rounds}, {total.n_drafted} drafted, {total.n_accepted} accepted"]
    if total.speculation == state.applied:
        parts.append("in use")
    names = {Source.CHAT: "measured in this chat", Source.TRIAL: "in a trial of tuning"}
    notes = {Source.CHAT: " (answers that ran so)", Source.TRIAL: ""}
    measured = [
        f"{names[one.source]}: {units.tokens_per_s(one.tokens_per_s, glyphs)}{notes[one.source]}"
        for one in state.measured
        if one.speculation == total.speculation
    ]
    lines = (parts, measured) if measured else (parts,)
    return "\n".join(f" {glyphs.bullet} ".join(line) for line in lines)


def best(whatif: WhatIf, glyphs: Glyphs) -> str:
    """Return the best predicted setting; nothing without a prediction."""
    found = whatif.best
    if found is None:
        return ""
    speed = units.tokens_per_s(found.tokens_per_s, glyphs)
    text = f"Best predicted: {setting(found.speculation)} {glyphs.bullet} {speed}"
    if found.speedup is None:
        return text
    text += f", {units.speedup(found.speedup, glyphs)} of off"
    return text if found.speedup > 1 else f"{text}; off is predicted to be faster"


def no_best(state: WhatIfState) -> str:
    """Return why no setting can be called the best."""
    source = state.known.source
    return f"No best can be predicted. {source[:1].upper()}{source[1:]}."


def applied(speculation: SpeculationConfig) -> str:
    """Return what the user is told when a setting was applied."""
    return f"From the next answer on: {setting(speculation)}."


def saving(*, keep_text: bool) -> str:
    """Return what a saved trace will hold."""
    return f"A saved trace will be {'with the text' if keep_text else 'without text'}."
