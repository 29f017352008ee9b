"""Final report of ``spectui tune``, as text and JSON."""

import shlex
from collections.abc import Iterator, Sequence

import click
from rich.table import Table

from spectui.cli.drawing import Words, drawn, sentence, table, wrapped
from spectui.cli.next_step import described
from spectui.cli.output import complain, write_result
from spectui.cli.tables import SLOTS_LEGEND, depth_lines, machine_lines, place_lines, slots_lines
from spectui.cli.tune_present import present_lines
from spectui.commands.launch import OFF
from spectui.cores import default_threads, threads_to_take
from spectui.format import duration_text, percent_text, times_text
from spectui.llama.facts import price_note
from spectui.llama.search import find_server
from spectui.measure.backend import ENGINE
from spectui.measure.lossless import UNTOLD, LosslessCheck
from spectui.measure.requests import Request
from spectui.measure.server_backend import REMEMBERS, remembers
from spectui.measure.speedup import Speedup
from spectui.measure.verdict import Answer, Basis
from spectui.tune.division import FEWEST_FOR_BOTH
from spectui.tune.document import Tuned
from spectui.tune.evidence import FEW
from spectui.tune.expert_use import cache_sentence
from spectui.tune.forecast import Forecast, best_by_drafter
from spectui.tune.outcome import advised
from spectui.tune.race import LOOK_EVERY, forecast_error, forecast_errors
from spectui.tune.result import TuneResult
from spectui.tune.served import Served
from spectui.tune.temperatures import temperatures_sentence
from spectui.tune.trials import speedup_estimate

_BUILDS = "https://github.com/ggml-org/llama.cpp/releases"
_DRAFTERS = (
    "Forecast from exact counts on the recorded prompts and measured prices; the verdict's setting "
    "was timed as well."
)
_OVER = 1.1
"""Factor of the time budget above which the excess is reported."""


def report(
    found: Tuned, served: Served | None, unmeasured: tuple[str, ...], json_path: str | None
) -> None:
    """Print the result and how to use it.

    Args:
        found: what was searched and found.
        served: results on llama-server.
        unmeasured: parts of the ``--from`` command that are not measured, as reported before.
        json_path: value of ``--json``.
    """
    lines = _summary(found)
    if served is not None:
        lines += [*map(wrapped, served.lines()), ""]
    lines += _slots(found)
    commands = list(_commands(found, has_server=served is not None or _has_server(found)))
    document, text = found.document(unmeasured, served), "\n".join([*lines, *commands])
    # Of a storage that does not have the verdict, it was told before.
    if found.result.not_kept is None and found.result.earlier is None:
        not_kept = found.tuning.keep_report(click.unstyle(text), document)
        if not_kept is not None:
            complain(not_kept)
    machines = machine_lines(found.tuning.machines())
    write_result(document, "\n".join([*lines, *machines, *commands]), json_path)


def _summary(found: Tuned) -> list[str]:
    result = found.result
    told = [result.verdict.reason, *present_lines(found.present, result)]
    told += [f"note: {note}" for note in _notes(found)]
    if result.lossless is not None:
        told += _lossless_line(result.lossless)
    if result.best is not None and result.speedup is None:
        told.append(f"Best so far: {result.best.label}{_in_trial(result)} (not confirmed).")
    lines = [*map(sentence, told)]
    found_beside = (
        temperatures_sentence(result.temperatures),
        cache_sentence(result.experts),
        _sampled_sentence(found),
    )
    lines += map(wrapped, filter(None, found_beside))
    if result.requests.value:
        lines += ["", *map(wrapped, map(_request_line, result.requests.value))]
    lines += place_lines(found)
    lines += depth_lines(result.depths)
    if result.speedup is not None:
        lines += [
            "",
            "Why:",
            *(wrapped(f"- {one}", indent="  ") for one in _reasons(found)),
        ]
    if result.pairs:
        lines += ["", drawn(_categories(result)), ""]
    drafters = best_by_drafter(result.outlook.forecasts)
    if len(drafters) > 1:
        lines += [drawn(_drafters(drafters)), wrapped(_DRAFTERS), ""]
    return lines


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


def _request_line(request: Request) -> str:
    return f"A request of {request.told}; the first token after {request.first_told}."


def _slots(found: Tuned) -> list[str]:
    """The best setting by the number of slots."""
    results, left_out = found.by_slots.results, found.by_slots.left_out
    if not results:
        return []
    left = f"note: for want of time not measured: -np {','.join(map(str, left_out))}."
    told = [sentence(left)] if left_out else []
    return [*slots_lines(results), wrapped(SLOTS_LEGEND), *told, ""]


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


def _has_server(found: Tuned) -> bool:
    """Whether there is a llama-server to run what is advised."""
    return found.backend != ENGINE or find_server() is not None


def _commands(found: Tuned, *, has_server: bool) -> Iterator[str]:
    """Yield the commands to run; the last line is the verdict's, for ``tail -n 1``."""
    result = found.result
    if result.earlier is not None:
        yield sentence(f"The study keeps its earlier verdict: {result.earlier.verdict.reason}")
        yield "Next: run its command below."
        yield result.earlier.exported().launch(result.earlier.dialect).text
        return
    if result.speedup is None and result.best is not None:
        yield "# the best so far, not confirmed:"
        yield f"# {found.launch(result.best).text}"
    yield from _next(found, has_server=has_server)
    if not result.verdict.use_speculation:
        yield f"# {OFF if result.speedup else 'not decided; without speculation'}"
    yield found.launch(advised(result)).text


def _next(found: Tuned, *, has_server: bool) -> Iterator[str]:
    """Yield what to do with the command below."""
    result = found.result
    if result.not_kept is not None:
        return
    if result.speedup is None:
        yield "Next: give the same spectui command again; it goes on from here."
        return
    wanted = _wanted_prompts(found, result.speedup)
    if wanted is not None:
        yield f"Next: give {wanted} or more prompts with --prompts, and the same command."
        yield "Until then, the command below."
        yield ""
        return
    if result.verdict.answer is Answer.UNDECIDED and result.verdict.more_prompts is not None:
        yield "Next: give the same spectui command again, with more time if it had a limit:"
        yield "it goes on from here, and may decide it. Until then, the command below."
        yield ""
        return
    if result.verdict.answer is not Answer.USE and result.spent.ended_trials:
        yield "Next: the same spectui command again, with more time: it tries further settings."
        yield "Until then, the command below."
        yield ""
        return
    name = shlex.quote(found.tuning.name)
    if not has_server:
        yield f"No llama-server was found here; {_BUILDS} has it."
    yield "Next: run the command below. Before, if you like,"
    if result.verdict.use_speculation and has_server:
        yield described(f"spectui verify {name}", "measures it on your llama-server,")
    yield described(f"spectui report {name}", "makes a page of all this.")
    yield ""


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
    columns = (Words(head="drafter"), Words(head="best setting"), "forecast", "accepted")
    return table(columns, rows)


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
    return table((Words(head="category"), "speedup", "accepted", "prompts"), rows)
