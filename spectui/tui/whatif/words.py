"""Sentences of the what-if screen."""

from spectui.format import counted
from spectui.live.recording import ChatRecording
from spectui.live.whatif import Source, WhatIf, WhatIfState
from spectui.options.drafters import MTP_KIND, DrafterOptions, DraftMtp
from spectui.options.speculation import Speculation
from spectui.trace.replay import Total
from spectui.tui.glyphs import ASCII, Glyphs
from spectui.tui.text.display import fit, visible

_NAME_CELLS = 40
_DRAFT_GOES = "the draft goes along it"
_TARGET_GOES = "the target goes along it once more with its MTP layers"
_NOTHING_SAID = (
    "Nothing has been said yet: ask something; when the answer is there and nobody waits, {goes}, "
    "and every setting can be replayed on it."
)
_TAKEN_UP = (
    "What was answered so far is not recorded, as answers of earlier sessions never are: ask "
    "something; when the answer is there and nobody waits, every setting can be replayed on it."
)
_ANSWERING = (
    "An answer is being written; when it is there and nobody waits, {goes}, and every setting can "
    "be replayed on it."
)
_DRAFT_IS_GOING = "The draft is going along what was answered; a moment of rest is all it needs."
_TARGET_IS_GOING = (
    "The target is going along what was answered once more, with its MTP layers: while nobody "
    "waits, and about as long as it takes to write that without a draft."
)

_REPLAYING = "Every setting is being replayed on what was answered."


def nothing_recorded(recording: ChatRecording, *, is_answering: bool, n_turns: int) -> str:
    """Return why there is no answer to replay in a chat of ``n_turns`` questions."""
    said = _TAKEN_UP if n_turns else _NOTHING_SAID
    return (_ANSWERING if is_answering else said).format(
        goes=_TARGET_GOES if recording.is_mtp else _DRAFT_GOES
    )


def empty(state: WhatIfState) -> str:
    """Return why nothing is shown."""
    recording = state.recording
    if recording is None:
        return state.reason or ""
    if recording.recordings:
        return _REPLAYING
    if recording.n_waiting:
        return _TARGET_IS_GOING if recording.is_mtp else _DRAFT_IS_GOING
    nothing = state.reason or nothing_recorded(recording, is_answering=False, n_turns=0)
    return _failure(recording) or nothing


def _failure(recording: ChatRecording) -> str | None:
    if recording.failure is None:
        return None
    return f"An answer could not be recorded: {recording.failure}."


def heading(state: WhatIfState, whatif: WhatIf) -> str:
    """Return the question that the replay answers, for a line that has room for nothing else."""
    if whatif.is_mtp:
        return _asked(f"What if {MTP_KIND} drafts", whatif)
    # Who is only worth the room where it is another one than in the chat.
    return _asked("What if" if state.other is None else "What if the draft drafts", whatif)


def _asked(question: str, whatif: WhatIf) -> str:
    answers = counted(len(whatif.recordings), "answer")
    return f"{question}: {counted(whatif.n_tokens, 'token')} of {answers}"


def basis(state: WhatIfState, whatif: WhatIf, glyphs: Glyphs) -> str:
    """Return the replayed drafter, the amount of text, and where the speed comes from."""
    recording, source = state.recording, state.known.source
    name = visible(whatif.draft, ascii_only=glyphs is ASCII)
    name = fit(name, _NAME_CELLS, glyphs.ellipsis)
    parts = [f"{_asked(f'What if {name} drafts', whatif)}, replayed exactly."]
    if state.other is not None:
        parts.append(_not_replayed(state.other))
    if recording is not None and recording.mtp_layers > 1:
        layers = f"{recording.mtp_layers} MTP layers draft one token each"
        parts.append(f"{layers}: draft_max goes up to {whatif.longest}.")
    if recording is not None and recording.n_waiting:
        parts.append(f"{counted(recording.n_waiting, 'answer')} more to be recorded.")
    if recording is not None and (failure := _failure(recording)) is not None:
        parts.append(failure)
    if whatif.costs is None:
        parts.append(f"{source[:1].upper()}{source[1:]}.")
    else:
        parts.append(f"Speed: predicted, costs {source}.")
    return " ".join(parts)


def _not_replayed(other: Speculation) -> str:
    """Say of who drafts in the chat that this screen does not answer for it."""
    ngrams = other.ngrams
    if not ngrams:
        return f"In the chat {other.own.label} drafts, which is not replayed here."
    names = " and ".join(one.kind for one in ngrams)
    does = "drafts" if len(ngrams) == len(other.chain) else "is asked first"
    return f"In the chat {names} {does}, which is not replayed here."


def setting(own: DrafterOptions) -> str:
    """Return a setting as the status bar writes it."""
    return f"{MTP_KIND} {own.summary}" if isinstance(own, DraftMtp) else own.summary


def counts(total: Total, state: WhatIfState, glyphs: Glyphs) -> str:
    """Return the counts of the setting, and in a line of its own what was measured with it.

    What the chat measured is of the answers that ran with the setting, and of no others.
    """
    rounds = counted(total.n_rounds, "round")
    parts = [f"{rounds}, {total.n_drafted} drafted, {total.n_accepted} accepted"]
    if total.model == state.applied:
        parts.append("in use")
    names = {Source.CHAT: "measured in this chat", Source.TRIAL: "in a trial of tuning"}
    notes = {Source.CHAT: " (answers that ran so)", Source.TRIAL: ""}
    measured = [
        f"{names[one.source]}: {glyphs.tokens_per_s(one.tokens_per_s)}{notes[one.source]}"
        for one in state.measured
        if one.setting == total.model
    ]
    lines = (parts, measured) if measured else (parts,)
    return "\n".join(f" {glyphs.bullet} ".join(line) for line in lines)


def best(whatif: WhatIf, glyphs: Glyphs) -> str:
    """Return the best predicted setting; nothing without a prediction."""
    found = whatif.best
    if found is None:
        return ""
    speed = glyphs.tokens_per_s(found.tokens_per_s)
    text = f"Best predicted: {setting(found.model)} {glyphs.bullet} {speed}"
    if found.speedup is None:
        return text
    text += f", {glyphs.speedup(found.speedup)} of off"
    return text if found.speedup > 1 else f"{text}; off is predicted to be faster"


def no_best(state: WhatIfState) -> str:
    """Return why no setting can be called the best."""
    source = state.known.source
    return f"No best can be predicted. {source[:1].upper()}{source[1:]}."


def applied(model: DrafterOptions) -> str:
    """Return the message to the user after a setting was applied."""
    return f"From the next answer on: {setting(model)}."


def saving(*, keep_text: bool) -> str:
    """Return a sentence on the contents of a saved trace."""
    return f"A saved trace will be {'with the text' if keep_text else 'without text'}."
