"""Sentences and numbers of the tune screen."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from spectui.format import counted, left_text
from spectui.live.recording import ChatRecording
from spectui.live.replay import ChatReplay
from spectui.tui import draw
from spectui.tui.tune.ledger import FORECAST, Ledger
from spectui.tune.explain import cache_sentence, explain_result
from spectui.tune.page import lossless_lines
from spectui.tune.progress import Phase, TuningState
from spectui.tune.result import TuneResult

INTRODUCTION = """\
Enter starts. It records some answers, forecasts every setting on them, and measures the best \
against the target alone; then it says whether a draft pays, with which flags. The chat has \
priority; what was measured is kept, so stop and go on at will."""
_UNCONFIRMED = ", not confirmed"


def phase(state: TuningState, *, chat_is_busy: bool) -> str:
    """Return the activity of the search."""
    if state.is_running and state.phase is not Phase.STOPPING:
        if chat_is_busy:
            return "held back by the chat"
        if state.current is not None and state.current.is_off:
            return "measuring the target alone"
    if state.phase is Phase.IDLE:
        return "not started"
    if state.phase is Phase.FINISHED and state.result is not None and state.result.interrupted:
        return "stopped early"
    return str(state.phase)


def progress(state: TuningState, ledger: Ledger) -> tuple[str, float]:
    """Return how far it is, in words and as a fraction."""
    fraction = min(1.0, state.n_done / state.n_steps) if state.n_steps else 0.0
    if state.is_confirming:
        return f"prompt {state.n_done} of at most {state.n_steps}", fraction
    if state.phase is Phase.RECORDING:
        return f"step {state.n_done} of {state.n_steps}, to replay every setting", fraction
    if state.current is not None:
        trial = "" if state.current.is_off else f"trial {ledger.n_tried}, "
        return f"{trial}prompt {state.n_done} of {state.n_steps}", fraction
    words = counted(ledger.n_tried, "trial") if ledger.n_tried else ""
    if state.forecasts:
        words = f"{len(state.forecasts):,} settings replayed"
    return words, float(bool(words) and state.phase is not Phase.STARTING)


def headline(state: TuningState, ledger: Ledger) -> str:
    """Return how far it is, how long it will take and which study it is."""
    facts = [progress(state, ledger)[0]]
    if state.is_running and state.seconds_left is not None:
        facts.append(left_text(state.seconds_left))
    if state.study is not None:
        facts.append(f"study {draw.one_line(state.study)}")
    return " • ".join(filter(None, facts))


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """First line of the screen."""

    advice: str
    """A few words: what to do, or how far that is known."""
    because: str = ""
    """Data that it rests on."""
    speedup: float | None = None
    """Speedup over off; None where none is known."""
    interval: tuple[float, float] | None = None
    """The interval of a verdict's speedup; None where it is not known."""
    pays: bool | None = None
    """The verdict; None before there is one."""


def interval(told: Headline, width: int) -> str:
    """Return the interval of a verdict as a bar beside 1.00, and its ends; empty without one."""
    if told.interval is None or told.speedup is None:
        return ""
    low, high = told.interval
    drawn = draw.on_scale(low, told.speedup, high, 1.0, width)
    return f"{drawn}  {low:.2f} to {high:.2f}, │ 1.00: no draft"


def verdict(state: TuningState, ledger: Ledger) -> Headline:
    """Return the verdict; before there is one, the best so far."""
    result = state.result
    if result is not None and result.speedup is not None:
        return Headline(
            advice=result.verdict.advice,
            because=result.verdict.because,
            speedup=result.speedup.capped.estimate,
            interval=result.speedup.capped.interval,
            pays=result.verdict.use_speculation,
        )
    so_far = _best_so_far(ledger)
    if state.is_running or result is None:
        return so_far
    # The verdict advises to leave it off, which nothing has shown.
    known = so_far.advice[:1].lower() + so_far.advice[1:].removesuffix(_UNCONFIRMED)
    best = f"; {known}: {so_far.because}" if so_far.because else ""
    because = f"no setting was confirmed{best}; Start goes on from here"
    return replace(so_far, advice="Nothing was decided", because=because)


def _best_so_far(ledger: Ledger) -> Headline:
    if ledger.best is None:
        return Headline(advice="No speedup yet")
    label, estimate = draw.one_line(ledger.best.arm.label), ledger.best.speedup
    if estimate is None:
        return Headline(advice="No speedup yet", because=f"off was not measured; {label}")
    if estimate <= 1:
        because = f"best setting so far: {label}"
        return Headline(advice="Nothing faster than off yet", because=because, speedup=estimate)
    source = "Best forecast" if ledger.best.origin == FORECAST else "Best so far"
    return Headline(advice=source + _UNCONFIRMED, because=label, speedup=estimate)


Fact = tuple[str, str]
"""A label and a sentence."""


def facts(state: TuningState, prompts: str | None) -> Iterator[Fact]:
    """Yield what is behind the verdict, and what went wrong.

    Args:
        state: how the search stands.
        prompts: which prompts it uses, in words; None if that is not known.
    """
    if state.error is not None:
        yield "reason", state.error
    if prompts is not None and state.is_running:
        yield "prompts", prompts
    if state.phase is Phase.SEARCHING and state.current is not None and not state.current.is_off:
        yield "now", state.current.label
    if state.result is not None:
        yield from _findings(state.result)


def _findings(result: TuneResult) -> Iterator[Fact]:
    if result.not_kept is not None:
        yield "not kept", result.not_kept
    if result.speedup is not None:
        for index, reason in enumerate(explain_result(result).sentences):
            yield "" if index else "why", f"• {reason}"
    if (cache := cache_sentence(result.experts)) is not None:
        yield "cache", cache
    if result.lossless is not None:
        yield from (("output", line) for line in lossless_lines(result.lossless))
    if result.conditions is not None and result.conditions.notes:
        yield "machine", " ".join(result.conditions.notes)


def basis(recording: ChatRecording, chat: ChatReplay) -> str:
    """Return what of a chat is replayed, and why no speedups are known if none are."""
    n_tokens = counted(sum(one.n_decoded for one in recording.recordings), "token")
    answers = counted(len(recording.recordings), "answer")
    told = f"What if {chat.draft} drafts: {n_tokens} of {answers}, replayed exactly."
    if chat.costs is None:
        told += " No speedup is known before a search has measured what rounds cost."
    return told
