"""The result of a search as a page: the verdict, why, tables, and the next commands."""

import shlex
from collections.abc import Iterator, Sequence

from spectui.commands.launch import OFF as OFF_COMMENT
from spectui.commands.launch import placement_text
from spectui.cores import default_threads, threads_to_take
from spectui.format import (
    counted,
    duration_text,
    percent_text,
    rate_text,
    seconds_text,
    speedup_percent,
    times_text,
)
from spectui.llama.facts import price_note
from spectui.measure.arm import Arm
from spectui.measure.backend import ENGINE
from spectui.measure.lossless import UNTOLD, LosslessCheck
from spectui.measure.observed import totals
from spectui.measure.promise import Promise
from spectui.measure.reading import PromptTimes
from spectui.measure.server_backend import REMEMBERS, remembers
from spectui.measure.speedup import Speedup, gain_text
from spectui.measure.statistics import product
from spectui.measure.verdict import Answer, Basis
from spectui.options.drafters import MTP_KIND
from spectui.page import Command, Line, Paragraph, Part, Table, Words
from spectui.tune.depths import Depth, Depths
from spectui.tune.division import FEWEST_FOR_BOTH
from spectui.tune.document import Tuned
from spectui.tune.evidence import FEW
from spectui.tune.expert_use import cache_sentence
from spectui.tune.forecast import Forecast, best_by_drafter
from spectui.tune.outcome import advised
from spectui.tune.places import Placing, text_of
from spectui.tune.present import present_sentence
from spectui.tune.race import LOOK_EVERY, forecast_error, forecast_errors
from spectui.tune.result import TuneResult
from spectui.tune.studies.listing import StoredStudy
from spectui.tune.temperatures import temperatures_sentence
from spectui.tune.trials import speedup_estimate

_BUILDS = "https://github.com/ggml-org/llama.cpp/releases"
_DRAFTERS = (
    "Forecast from exact counts on the recorded prompts and measured prices; the verdict's setting "
    "was timed as well."
)
_OVER = 1.1
"""Factor of the time budget above which the excess is reported."""
_NONE = "–"


def findings_page(found: Tuned) -> list[Part]:
    """All that was found, without what to do next."""
    result = found.result
    told = [result.verdict.reason]
    if found.present is not None:
        told.append(present_sentence(found.present, result))
    told += [f"note: {note}" for note in _notes(found)]
    if result.lossless is not None:
        told += _lossless_line(result.lossless)
    if result.best is not None and result.speedup is None:
        told.append(f"Best so far: {result.best.label}{_in_trial(result)} (not confirmed).")
    beside = (
        temperatures_sentence(result.temperatures),
        cache_sentence(result.experts),
        _sampled_sentence(found),
    )
    page: list[Part] = [*map(Line, told), *map(Paragraph, filter(None, beside))]
    if result.requests.value:
        page.append("")
        page += [
            Paragraph(f"A request of {one.told}; the first token after {one.first_told}.")
            for one in result.requests.value
        ]
    page += [*_places(found), *_depths(result.depths)]
    if result.speedup is not None:
        page += ["", "Why:", *(Paragraph(f"- {one}", indent="  ") for one in _reasons(found))]
    if result.pairs:
        page += ["", _categories(result), ""]
    drafters = best_by_drafter(result.outlook.forecasts)
    if len(drafters) > 1:
        page += [_drafters(drafters), Paragraph(_DRAFTERS), ""]
    return page


def _sampled_sentence(found: Tuned) -> str | None:
    """Sentence on the gain of sampled drafts; None where it is not worth having."""
    result, least = found.result, found.tuning.setup.min_gain
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
    yield from found.explanation.reasons
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
    result, setup = found.result, found.tuning.setup
    for note in (found.alteration, price_note(found.tuning.library), setup.workload.note):
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
    is_served = found.backend != ENGINE
    if is_served and result.best is not None and remembers(result.best.speculation):
        yield f"{REMEMBERS}."
    errors = forecast_errors(result.finalists, result.outlook.forecasts)
    if (error := forecast_error(errors)) is not None:
        yield f"{error}."
    if result.conditions is not None:
        yield from result.conditions.notes
    yield from _time_notes(result)


def _lossless_line(check: LosslessCheck) -> Iterator[str]:
    divergence = check.divergence
    if check.lossless or divergence is None:
        return
    if check.lossless is None:
        yield (
            f"note: with speculation the output of prompt {divergence.prompt_id} parts from the "
            f"target's own at token {divergence.position}; {UNTOLD}."
        )
    else:
        yield "warning: speculation changed the output; spectui bench shows where."


def _time_notes(result: TuneResult) -> Iterator[str]:
    """Notes on the effects of the time budget."""
    spent = result.spent
    if spent.budget_s is None or result.interrupted:
        return
    if spent.ended_trials:
        yield f"the time budget ended the trials after {spent.n_tried} of {spent.n_trials}."
    took, budget = duration_text(spent.took_s), duration_text(spent.budget_s)
    if spent.took_s > _OVER * spent.budget_s and took != budget:
        yield (
            f"it took {took} in place of {budget}: a step that has begun is finished, and the "
            f"first {LOOK_EVERY} prompts of a race are timed in any case."
        )


def _in_trial(result: TuneResult) -> str:
    """Result of the best setting's trial, for a search without a confirmation."""
    measured = [one for one in result.trials if one.arm == result.best and one.tokens_per_s]
    gain = speedup_estimate(measured[-1], result.trials) if measured else None
    if gain is None:
        return ""
    return f", {times_text(gain)} in its trial{', slower than off' if gain < 1 else ''}"


def commands_page(found: Tuned, *, has_server: bool) -> list[Part]:
    """The commands to run; the last line is the verdict's, for ``tail -n 1``.

    Args:
        found: what was found.
        has_server: whether there is a llama-server to run them.
    """
    result = found.result
    if result.earlier is not None:
        return [
            Line(f"The study keeps its earlier verdict: {result.earlier.verdict.reason}"),
            "Next: run its command below.",
            result.earlier.exported().launch(result.earlier.dialect).text,
        ]
    page: list[Part] = []
    if result.speedup is None and result.best is not None:
        page = ["# the best so far, not confirmed:", f"# {found.launch(result.best).text}"]
    page += _next(found, has_server=has_server)
    if not result.verdict.use_speculation:
        page.append(f"# {OFF_COMMENT if result.speedup else 'not decided; without speculation'}")
    return [*page, found.launch(advised(result)).text]


def _next(found: Tuned, *, has_server: bool) -> list[Part]:
    """The next steps, above the command."""
    result, verdict = found.result, found.result.verdict
    if result.not_kept is not None:
        return []
    if result.speedup is None:
        return ["Next: give the same spectui command again; it goes on from here."]
    wanted = _wanted_prompts(found, result.speedup)
    until = "Until then, the command below."
    if wanted is not None:
        more = f"Next: give {wanted} or more prompts with --prompts, and the same command."
        return [more, until, ""]
    if verdict.answer is Answer.UNDECIDED and verdict.more_prompts is not None:
        return [
            "Next: give the same spectui command again, with more time if it had a limit:",
            f"it goes on from here, and may decide it. {until}",
            "",
        ]
    if verdict.answer is not Answer.USE and result.spent.ended_trials:
        again = "Next: the same spectui command again, with more time: it tries further settings."
        return [again, until, ""]
    name = shlex.quote(found.tuning.name)
    page: list[Part] = [] if has_server else [f"No llama-server was found here; {_BUILDS} has it."]
    page.append("Next: run the command below. Before, if you like,")
    if verdict.use_speculation and has_server:
        page.append(Command(f"spectui verify {name}", "measures it on your llama-server,"))
    return [*page, Command(f"spectui report {name}", "makes a page of all this."), ""]


def _wanted_prompts(found: Tuned, measured: Speedup) -> int | None:
    """Prompts that may decide it, where no more time can; None where there are enough."""
    result, n_prompts = found.result, len(found.tuning.setup.workload.items)
    verdict = result.verdict
    if verdict.basis is Basis.SAME:
        return FEWEST_FOR_BOTH
    if verdict.answer is not Answer.UNDECIDED:
        return None
    if verdict.basis is Basis.THESE:
        return max(FEW + 1, n_prompts + (verdict.more_prompts or 0))
    n_chose = max((len(one.prompts) for one in result.trials), default=0)
    if verdict.more_prompts is not None and measured.n_prompts >= n_prompts - n_chose:
        return max(FEWEST_FOR_BOTH, n_prompts + verdict.more_prompts)
    return FEWEST_FOR_BOTH if n_prompts < FEWEST_FOR_BOTH else None


def _drafters(best: Sequence[Forecast]) -> Table:
    """The best forecast of each drafter."""
    rows = (
        (
            one.arm.drafter,
            one.arm.label.removeprefix(f"{one.arm.drafter}: "),
            times_text(one.speedup),
            percent_text(one.acceptance_rate),
        )
        for one in best
    )
    columns = (Words("drafter"), Words("best setting"), "forecast", "accepted")
    return Table(columns, list(rows))


def _categories(result: TuneResult) -> Table:
    """The confirmed gain by category."""
    rows = (
        (
            one.category,
            times_text(one.speedup),
            percent_text(one.acceptance_rate),
            str(one.n_prompts),
        )
        for one in result.categories
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
        told = f"Without a draft no place was shown to be faster than your command's ({own})"
        tried = counted(placing.n_tried, "other")
        return ["", Paragraph(f"{told}: {tried} tried{_nearest(placing)}{short}.")]
    told = f"{counted(placing.n_tried, 'other place')} tried without a draft{short}"
    if (requests := placing.requests) is not None:
        told = f"{told}; whole requests gain {gain_text(requests)} by the best"
    rows = list(_place_rows(found, placing, own))
    return ["", Table((Words(), "tokens/s", "over your command"), rows), Paragraph(f"{told}.")]


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


def _nearest(placing: Placing) -> str:
    """The gain of the best one, where it was compared."""
    best: Speedup | None = placing.requests
    return "" if best is None else f", the best with {gain_text(best)} for whole requests"


_OF_DEPTHS = ("depth", "gain", "interval", "rate", "token", "round", "first off", "first on")


def _depths(depths: Depths) -> list[Part]:
    """The gain by depth, and its limit; nothing if no depth was measured."""
    if not depths.found and not depths.left_out:
        return []
    page: list[Part] = [""]
    if depths.found:
        rows = list(map(_depth_row, depths.found))
        page += [Table(_OF_DEPTHS, rows), Paragraph(_depth_legend(depths.limit))]
    if depths.left_out:
        lengths = ", ".join(f"{n:,}" for n in depths.left_out)
        left = f"note: the time budget had no room for a depth of {lengths} tokens."
        page.append(Line(left))
    if any(one.repeats_text for one in depths.found):
        short = (
            "note: all prompts together are shorter than the deepest one, in which they repeat; "
            "give longer prompts."
        )
        page.append(Line(short))
    return page


def _depth_row(one: Depth) -> tuple[str, ...]:
    told = one.speedup.capped
    return (
        f"{one.n_tokens:,}",
        speedup_percent(told.estimate),
        _NONE if told.interval is None else " to ".join(map(speedup_percent, told.interval)),
        percent_text(one.counters.acceptance_rate),
        _milliseconds(one.token_s),
        _milliseconds(one.round_s),
        *_first(one.prompts.value, one.n_prompt),
    )


def _first(times: PromptTimes | None, n_tokens: int) -> tuple[str, str]:
    if times is None:
        return _NONE, _NONE
    return seconds_text(times.off.seconds(n_tokens)), seconds_text(times.on_s(n_tokens))


def _depth_legend(limit: int | None) -> str:
    legend = (
        "depth: tokens of the prompt, 0 for the prompts as they are. interval: that of all "
        "prompts, wider by the error of the few at depth. rate: accepted of drafted tokens. token: "
        "of the target alone. first: until the first token."
    )
    stops = "" if limit is None else f" It stops paying at a depth of about {limit:,} tokens."
    return f"{legend}{stops}"


def _milliseconds(seconds: float | None) -> str:
    return _NONE if seconds is None else f"{1000 * seconds:.3g} ms"


def machines_page(machines: Sequence[StoredStudy]) -> list[Part]:
    """A search by machine; nothing where fewer than two have a verdict.

    It has neither names of hosts nor addresses.
    """
    if sum(one.outcome is not None for one in machines) < 2:  # noqa: PLR2004 - else it says nothing
        return []
    columns = (
        *(Words("machine, study"), Words("placement"), "off", Words("best setting"), "tokens/s"),
        *(Words("gain", is_whole=True), Words("date", is_whole=True)),
    )
    return [Table(columns, list(_machine_rows(machines))), ""]


def _machine_rows(machines: Sequence[StoredStudy]) -> Iterator[tuple[str, ...]]:
    for one in machines:
        setup = one.outcome if one.promise is None else one.promise.case
        if one.outcome is not None and setup is not None:
            yield (
                f"{one.machine or '-'}\n{one.name}",
                placement_text(setup) or "-",
                *_measured(one.promise),
                f"{one.outcome.ended.astimezone():%Y-%m-%d}",
            )


def _measured(promise: Promise | None) -> Iterator[str]:
    """Tokens/s off, the best setting, its tokens/s and gain."""
    if promise is None:
        yield from ("-", "none confirmed", "-", "-")
        return
    draft, sums = promise.case.draft, totals(promise.observed)
    arm = Arm(
        draft=MTP_KIND if draft is None else draft.path.stem, speculation=promise.case.speculation
    )
    yield rate_text(sums.baseline_tokens_per_s)
    yield arm.label
    yield rate_text(sums.tokens_per_s)
    yield gain_text(promise.speedup)
