"""Sentences and numbers of the tune screen."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from spectui.format import counted, left_text
from spectui.live.recording import ChatRecording
from spectui.live.replay import ChatReplay
from spectui.live.rounds import LOSSES
from spectui.measure.verdict import Answer
from spectui.trace.replay import Total
from spectui.trace.terms import largest_loss, replayed_terms
from spectui.tui import draw
from spectui.tui.tune.ledger import FORECAST, OLD, Ledger, Row
from spectui.tune.explain import explain_result
from spectui.tune.forecast import Forecast
from spectui.tune.progress import Phase, TuningState
from spectui.tune.race import forecast_error as error_text
from spectui.tune.race import forecast_errors
from spectui.tune.result import TuneResult

_INTRODUCTION = """\
It records some answers, forecasts every setting on them, and measures the best against the \
target alone. The chat has priority; what was measured is kept, so stop and go on at will."""
_UNCONFIRMED = ", not confirmed"


def introduction(start_key: str, missing: str | None = None) -> str:
    """Return an explanation of tuning, before there was any.

    Args:
        start_key: starts it.
        missing: what has to be there first, in a clause; None if nothing.
    """
    how = missing or f"Press {start_key} to start; Tab goes through the fields"
    return f"{how}. {_INTRODUCTION}"


def measure(value: float | str | None, form: str) -> str:
    """Return a number in ``form``, or the sign for one that is not there."""
    return draw.NONE if value is None else form.format(value)


def phase(state: TuningState, *, chat_is_busy: bool) -> str:
    """Return the activity of the search."""
    if state.is_running and state.phase is not Phase.STOPPING:
        if state.paused:
            return f"paused while {state.phase}"
        if chat_is_busy:
            return "held back by the chat"
        if state.short_of_memory is not None:
            return state.short_of_memory
        if state.current is not None and state.current.is_off:
            return "measuring the target alone"
    if state.phase is Phase.IDLE:
        return "not started"
    if state.phase is Phase.FINISHED and state.result is not None and state.result.interrupted:
        return "stopped early"
    return str(state.phase)


def progress(state: TuningState, ledger: Ledger) -> tuple[str, float]:
    """Return how far it is, in words and as a fraction."""
    if state.is_confirming:
        words = f"prompt {state.n_done} of at most {state.n_steps}"
        return words, _fraction(state.n_done, state.n_steps)
    if state.phase is Phase.RECORDING:
        words = f"step {state.n_done} of {state.n_steps}, to replay every setting"
        return words, _fraction(state.n_done, state.n_steps)
    if state.current is not None:
        trial = "" if state.current.is_off else f"trial {ledger.n_tried}, "
        words = f"{trial}prompt {state.n_done} of {state.n_steps}"
        return words, _fraction(state.n_done, state.n_steps)
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
    is_decided: bool = False
    """Whether the speedup may be drawn large: it was judged, and the answer is not open."""


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
            is_decided=result.verdict.answer is not Answer.UNDECIDED,
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
    if ledger.best is None or ledger.best.speedup is None:
        return Headline(advice="No speedup yet")
    label, estimate = draw.one_line(ledger.best.arm.label), ledger.best.speedup
    if estimate <= 1:
        because = f"best setting so far: {label}"
        return Headline(advice="Nothing faster than off yet", because=because, speedup=estimate)
    source = "Best forecast" if ledger.best.state == FORECAST else "Best so far"
    return Headline(advice=source + _UNCONFIRMED, because=label, speedup=estimate)


def ended_early(result: TuneResult) -> str | None:
    """Return why there was less than was asked for; None if there was not."""
    spent = result.spent
    if not spent.ended_trials:
        return None
    return f"time ended the trials after {spent.n_tried} of {spent.n_trials}"


def forecast_error(result: TuneResult) -> str | None:
    """Return by how much forecasts were off; None if they were right."""
    return error_text(forecast_errors(result.finalists, result.outlook.forecasts))


def why(result: TuneResult) -> tuple[str, ...]:
    """Return the reasons behind the verdict, three at most; none if nothing was confirmed."""
    return () if result.speedup is None else explain_result(result).sentences


def machine(result: TuneResult) -> str | None:
    """Return what the machine did to the measurements; None if nothing is worth telling."""
    return None if result.conditions is None else " ".join(result.conditions.notes) or None


def lossless(result: TuneResult) -> str | None:
    """Return whether speculation changed the output; None if there was no confirmation."""
    if not result.pairs:
        return None
    if result.lossless is None:
        return "not checked"
    divergence = result.lossless.divergence
    if divergence is None:
        return "equal to the target's on every prompt"
    where = f"at token {divergence.position} of prompt {draw.one_line(divergence.prompt_id)}"
    if divergence.explained:
        return f"equal but for rounding (two tokens as likely {where})"
    if divergence.explained is None:
        return f"differs from the target's {where}; llama-server does not tell whether by rounding"
    return f"▲ differs from the target's {where}; rounding does not explain it"


def setting(row: Row) -> str:
    """Return a row in one sentence: why it failed, or what is known of it."""
    record = row.record
    source = row.state if record is None else f"trial {record.number}"
    head = f"{source}, {draw.one_line(row.arm.label)}: "
    if record is not None and not row.is_known:
        return head + row.state + (f": {draw.one_line(record.error)}" if record.error else "")
    facts: Iterable[str] = (
        measure(row.tokens_per_s, "{:.1f} tokens/s"),
        measure(row.speedup, "{:.2f}× of off"),
        measure(row.acceptance_rate, "acceptance {:.0%}"),
        "" if record is None else counted(len(record.prompts), "prompt"),
        "measured by itself, as earlier versions did" if row.state == OLD else "",
    )
    return head + ", ".join(fact for fact in facts if fact not in {"", draw.NONE})


def forecast(one: Forecast) -> str:
    """Return a setting that a search has replayed in one sentence."""
    return (
        f"{draw.one_line(one.arm.label)}: {draw.speedup(one.speedup)} of off predicted, "
        f"{one.n_drafted} drafted, {one.n_accepted} accepted"
    )


def basis(recording: ChatRecording, chat: ChatReplay) -> str:
    """Return what of a chat is replayed, and where its speedups come from."""
    n_tokens = counted(sum(one.n_decoded for one in recording.recordings), "token")
    answers = counted(len(recording.recordings), "answer")
    parts = [f"What if {chat.draft} drafts: {n_tokens} of {answers}, replayed exactly."]
    if recording.n_waiting:
        parts.append(f"{counted(recording.n_waiting, 'answer')} more to be recorded.")
    if recording.failure is not None:
        parts.append(f"An answer could not be recorded: {recording.failure}.")
    source = chat.source[:1].upper() + chat.source[1:]
    parts.append(f"{source}." if chat.costs is None else f"Costs of rounds: {chat.source}.")
    return " ".join(parts)


def replayed(total: Total, chat: ChatReplay, *, in_use: bool) -> str:
    """Return a setting in three lines: its speedup, its counts, and what costs most."""
    facts, more = [total.speculation.own.summary, *["in use"] * in_use], []
    if chat.costs is not None and total.speedup is not None:
        speed = draw.tokens_per_s(total.tokens_per_s)
        facts.append(f"predicted {draw.speedup(total.speedup)} of off, {speed}")
        terms = replayed_terms(total, chat.costs)
        if terms is not None:
            term, without = largest_loss(terms, total.speedup)
            loss, condition = LOSSES[term]
            more.append(f"Loses most to {loss}: {draw.speedup(without)} {condition}.")
    counts = (
        f"{counted(total.n_rounds, 'round')}, {total.n_drafted} drafted, {total.n_accepted} "
        f"accepted, {draw.number(total.tokens_per_round)} tokens/round"
    )
    return "\n".join((" • ".join(facts), counts, *more))


def _fraction(done: int, total: int) -> float:
    return min(1.0, done / total) if total else 0.0
