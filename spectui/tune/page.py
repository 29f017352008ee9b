"""The result of a search as a page: the verdict, why, tables, and the next commands."""

import shlex
from collections.abc import Iterator, Sequence

from spectui.commands.launch import OFF as OFF_COMMENT
from spectui.commands.launch import placement_text
from spectui.cores import default_threads, threads_to_take
from spectui.documents import Known
from spectui.format import counted, percent_text, rate_text, speedup_percent, time_text, times_text
from spectui.llama.facts import price_note
from spectui.measure.arm import Arm
from spectui.measure.lossless import LosslessCheck
from spectui.measure.promise import Promise, totals
from spectui.measure.server_backend import REMEMBERS, remembers
from spectui.measure.speedup import gain_text
from spectui.measure.statistics import product
from spectui.measure.verdict import Answer
from spectui.options.drafters import MTP_KIND
from spectui.page import Paragraph, Part, Table, Words
from spectui.tune.backends import Served
from spectui.tune.evidence import CategoryGain
from spectui.tune.explain import cache_sentence, explain_result
from spectui.tune.forecast import best_by_drafter
from spectui.tune.places import Placing, text_of
from spectui.tune.recorded import forecasts_table
from spectui.tune.result import TuneResult
from spectui.tune.studies.listing import StoredStudy
from spectui.tune.tuning import Tuned

_BUILDS = "https://github.com/ggml-org/llama.cpp/releases"
_LARGE_ERROR = 0.1
_DRAFTERS = "Forecast from exact counts on the recorded prompts and measured prices"
_TIMED = "the verdict's setting was timed as well"


def findings_page(found: Tuned) -> list[Part]:
    """All that was found, without what to do next."""
    result = found.result
    sentences = [result.verdict.reason]
    if found.tuning.setup.present is not None:
        sentences.append(_present_sentence(found.tuning.setup.present, result))
    sentences += [f"note: {note}" for note in _notes(found)]
    if result.lossless is not None:
        sentences += lossless_lines(result.lossless)
    sentences += filter(None, (cache_sentence(result.experts), _sampled_sentence(found)))
    page: list[Part] = [*map(Paragraph, sentences)]
    if result.requests.value:
        page.append("")
        page += [Paragraph(f"A request of {one.summary}.") for one in result.requests.value]
    page += _places(found)
    if result.speedup is not None:
        page += ["", "Why:", *(Paragraph(f"- {one}", indent="  ") for one in _reasons(found))]
    if result.leader is not None and result.leader.categories:
        page += ["", _categories(result.leader.categories)]
    drafters = best_by_drafter(result.outlook.forecasts)
    if len(drafters) > 1:
        source = _DRAFTERS if result.speedup is None else f"{_DRAFTERS}; {_TIMED}"
        page += ["", forecasts_table(drafters), Paragraph(f"{source}.")]
    left_out = result.outlook.left_out.items()
    page += [Paragraph(f"{draft} was left out: {reason}.") for draft, reason in left_out]
    return [*page, ""]


def _present_sentence(present: Known[Arm], result: TuneResult) -> str:
    """The gain of the present setting, beside the verdict on the one that was found."""
    arm = present.value
    if arm is None:
        return f"Your present setting was not measured: {present.reason}."
    raced, trial = result.raced(arm), result.last_trial(arm)
    if raced is not None:
        is_best = result.best == arm and raced.estimate >= 1
        gain = f"{gain_text(raced)}{', the best that was found' * is_best}"
    elif trial is not None and trial.speedup is not None:
        gain = f"{speedup_percent(trial.speedup)} in a trial"
    else:
        gain = "it was not measured"
    return f"Your present setting ({arm.label}): {gain}."


def _sampled_sentence(found: Tuned) -> str | None:
    """Sentence on the gain of sampled drafts; None where it is not worth having."""
    result, least = found.result, found.tuning.setup.limits.min_gain
    sampled = result.outlook.sampled.value
    if sampled is None or result.speedup is None:
        return None
    own = [one.speedup for one in result.outlook.forecasts if one.arm.draft == sampled.draft]
    best = max(1.0, *own) if own else 1.0
    if sampled.speedup < (1 + least) * best:
        return None
    return (
        "Where your llama-server is of build 11368 or newer: --spec-draft-sampling probabilistic "
        f"and --spec-draft-n-max {sampled.draft_max} with {sampled.draft} are forecast at "
        f"{times_text(sampled.speedup)}, {percent_text(sampled.acceptance_rate)} accepted, where "
        f"the best without that is forecast at {times_text(best)}. This was not timed."
    )


def _reasons(found: Tuned) -> Iterator[str]:
    """Reasons for the verdict, and what a draft of another length in each round could add."""
    yield from explain_result(found.result).sentences
    result, adaptive = found.result, found.result.outlook.adaptive.value
    best, speedup = result.best, result.speedup
    if adaptive is None or best is None or best.speculation is None or speedup is None:
        return
    # A forecast that no draft can pay is refuted by one that does.
    holds = adaptive.most > 0 or speedup.estimate <= 1
    if best.draft == adaptive.draft and not best.speculation.ahead and holds:
        yield adaptive.sentence


def _notes(found: Tuned) -> Iterator[str]:
    """Notes on the measurement that a reader of the verdict has to know."""
    result, setup, backend = found.result, found.tuning.setup, found.tuning.backend
    for note in (backend.alteration, price_note(backend.library), setup.workload.note):
        if note is not None:
            yield f"{note}."
    if result.off.layout is not None and result.speedup is not None:
        yield f"compared with the target alone as it fits without a draft: {result.off.layout}."
    threads = setup.off.context.threads
    if threads and threads == threads_to_take():
        yield (
            f"measured with -t {threads}, as many as this process may use, which the command "
            f"says: llama-server would take {default_threads()}."
        )
    is_served = isinstance(backend, Served)
    if is_served and result.best is not None and remembers(result.best.speculation):
        yield f"{REMEMBERS}."
    if (error := _forecast_error(result)) is not None:
        yield error
    if result.conditions is not None:
        yield from result.conditions.notes
    if result.cut_race is not None:
        n_done, n_wanted = result.cut_race
        yield f"the time budget ended the confirmation after {n_done} of {n_wanted} timings."
    if result.cut_trials is not None and not result.interrupted:
        n_tried, n_trials = result.cut_trials
        yield f"the time budget ended the trials after {n_tried} of {n_trials}."


def _forecast_error(result: TuneResult) -> str | None:
    """By how much the leader's forecast is off, and why; None within 10 %, or without any."""
    forecast = next((one for one in result.outlook.forecasts if one.arm == result.best), None)
    if forecast is None or result.speedup is None or forecast.speedup <= 0:
        return None
    error = result.speedup.estimate / forecast.speedup - 1
    if abs(error) < _LARGE_ERROR:
        return None
    side = "above" if error > 0 else "below"
    text = f"the timed speedup is {percent_text(abs(error))} {side} the forecast"
    forecast_s, timed_s = forecast.off_token_s, result.off_token_s
    if forecast_s and timed_s and abs(timed_s / forecast_s - 1) >= _LARGE_ERROR:
        text = (
            f"{text}, and a token of the target alone took {time_text(timed_s)} then, "
            f"{time_text(forecast_s)} when prices were measured: the machine changes"
        )
    if result.speedup.interval is None or result.speedup.n_timed is None:
        return f"{text}; what was timed decides."
    return f"{text}; the interval reaches to the forecast."


def lossless_lines(check: LosslessCheck) -> Iterator[str]:
    """Say that speculation changed the output, where rounding does not explain it."""
    divergence = check.divergence
    if not check.lossless and divergence is not None:
        where = f"at token {divergence.position} of prompt {divergence.prompt_id}"
        kind = "note" if check.lossless is None else "warning"
        text = f"{kind}: with speculation the output parts from the target's own {where}"
        yield f"{text}; spectui bench shows more."


def commands_page(found: Tuned, again: str, *, has_server: bool) -> list[Part]:
    """The commands to run; the last line is the verdict's, for ``tail -n 1``.

    Args:
        found: the ended search.
        again: the command that goes on from here.
        has_server: whether there is a llama-server to run them.
    """
    result = found.result
    page: list[Part] = []
    if result.speedup is None and result.best is not None:
        page = ["# the best so far, not confirmed:", f"# {found.launch(result.best).command.text}"]
    page += _next(found, again, has_server=has_server)
    if not result.verdict.use_speculation:
        page.append(f"# {OFF_COMMENT if result.speedup else 'not decided; without speculation'}")
    return [*page, found.launch(result.advised).command.text]


def _next(found: Tuned, again: str, *, has_server: bool) -> list[Part]:
    """The next steps, above the command."""
    result, verdict = found.result, found.result.verdict
    if result.not_kept is not None:
        return []
    if result.speedup is None:
        return ["Next: go on from here:", f"  {again}", ""]
    if verdict.answer is Answer.UNDECIDED:
        return [
            "Next: go on from here, with more prompts or time:",
            f"  {again}",
            "Until then, the command below.",
            "",
        ]
    name = shlex.quote(found.tuning.name)
    page: list[Part] = [] if has_server else [f"No llama-server was found here; {_BUILDS} has it."]
    page.append("Next: run the command below. Before, if you like,")
    if verdict.use_speculation and has_server:
        page.append(_does(f"spectui verify {name}", "measures it on your llama-server,"))
    return [*page, _does(f"spectui report {name}", "makes a page of all this."), ""]


def _does(command: str, what: str) -> Paragraph:
    return Paragraph(f"{command}  {what}", indent="      ", first="  ")


def _categories(gains: Sequence[CategoryGain]) -> Table:
    """The confirmed gain by category."""
    rows = (
        (
            one.category,
            times_text(one.speedup),
            percent_text(one.acceptance_rate),
            str(one.n_prompts),
        )
        for one in gains
    )
    return Table((Words("category"), "speedup", "accepted", "prompts"), list(rows))


def _places(found: Tuned) -> list[Part]:
    """The target's best place; nothing where none was searched."""
    placing = found.tuning.placing
    if placing is None:
        return []
    own = text_of(found.tuning.setup.knobs, placing.given)
    short = ", and time ended the search" if placing.was_short else ""
    if not placing.best:
        text = f"Without a draft no place was shown to be faster than your command's ({own})"
        tried = counted(placing.n_tried, "other")
        return ["", Paragraph(f"{text}: {tried} tried{short}.")]
    text = f"{counted(placing.n_tried, 'other place')} tried without a draft{short}"
    if (requests := placing.requests) is not None:
        text = f"{text}; whole requests gain {gain_text(requests)} by the best"
    rows = list(_place_rows(found, placing, own))
    return ["", Table((Words(), "tokens/s", "over your command"), rows), Paragraph(f"{text}.")]


def _place_rows(found: Tuned, placing: Placing, own: str) -> Iterator[tuple[str, str, str]]:
    knobs, result, best = found.tuning.setup.knobs, found.result, placing.decoding
    yield f"your command, no draft ({own})", rate_text(placing.given_tokens_per_s), ""
    if best is None:
        return
    place = text_of(knobs, placing.best)
    yield f"best place, no draft ({place})", rate_text(placing.best_tokens_per_s), gain_text(best)
    if result.best is not None and result.speedup is not None:
        speedup = result.speedup.capped
        rate = (placing.best_tokens_per_s or 0.0) * speedup.estimate
        yield f"the same, {result.best.label}", rate_text(rate), gain_text(product(best, speedup))


def machines_page(machines: Sequence[StoredStudy]) -> list[Part]:
    """A search by machine; nothing where fewer than two have confirmed a setting.

    It has neither names of hosts nor addresses.
    """
    confirmed = [(one, one.promise) for one in machines if one.promise is not None]
    if len(confirmed) < 2:  # noqa: PLR2004 - one says nothing
        return []
    columns = (
        *(Words("machine, study"), Words("placement"), "off", Words("best setting"), "tokens/s"),
        *(Words("gain", is_whole=True), Words("date", is_whole=True)),
    )
    return [Table(columns, [_machine_row(*one) for one in confirmed]), ""]


def _machine_row(one: StoredStudy, promise: Promise) -> tuple[str, ...]:
    draft, sums = promise.case.draft, totals(promise.observed)
    arm = Arm(
        draft=MTP_KIND if draft is None else draft.path.stem, speculation=promise.case.speculation
    )
    return (
        f"{one.machine or '-'}\n{one.name}",
        placement_text(promise.case) or "-",
        rate_text(sums.baseline_tokens_per_s),
        arm.label,
        rate_text(sums.tokens_per_s),
        gain_text(promise.speedup),
        f"{one.changed.astimezone():%Y-%m-%d}",
    )
