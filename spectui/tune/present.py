"""The drafting of a user's command, which a search measures beside what it finds."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from spectui.documents import Known
from spectui.format import speedup_percent
from spectui.measure.arm import OFF, Arm
from spectui.measure.speedup import gain_text
from spectui.options.drafters import MODEL_KIND, MTP_KIND
from spectui.options.setup import ContextOptions
from spectui.options.speculation import Speculation
from spectui.tune.candidates import Candidate
from spectui.tune.result import TuneResult
from spectui.tune.space import SearchSpace
from spectui.tune.trials import speedup_estimate

_DRAFTS_NOTHING = "the command does not draft"


@dataclass(frozen=True, slots=True, kw_only=True)
class Present:
    """The drafting setting of a command."""

    speculation: Speculation | None
    """None if the command does not draft."""
    draft: Path | None
    """The command's draft model; None without one."""
    elsewhere: tuple[str, ...] = ()
    """Drafting options that only llama-server supports."""

    @property
    def longest(self) -> int:
        """Maximum number of tokens per draft."""
        return 0 if self.speculation is None else self.speculation.longest


def arm_of(
    present: Present, candidates: Sequence[Candidate], context: ContextOptions, space: SearchSpace
) -> Known[Arm]:
    """The setting as an arm with one of the candidates, or why it cannot be measured.

    Args:
        present: setting of the command.
        candidates: usable drafts.
        context: that of target and draft.
        space: search space.
    """
    speculation = present.speculation
    if present.elsewhere:
        return Known(None, f"only llama-server drafts with {' '.join(present.elsewhere)}")
    if speculation is None:
        return Known(None, _DRAFTS_NOTHING)
    if speculation.ngrams and not space.with_ngrams:
        return Known(None, "--dialect has no n-gram drafters")
    room = min(context.ctx_size, context.batch_size) - 1
    if speculation.longest > room:
        return Known(None, f"-c and -b have no room for its drafts of {speculation.longest} tokens")
    if speculation.model is None:
        return Known(space.placed(Arm(draft=None, speculation=speculation)))
    wanted = MTP_KIND if speculation.is_mtp else MODEL_KIND
    for one in candidates:
        if one.reason is not None:
            continue
        if one.is_mtp if present.draft is None else _is_file(one, present.draft):
            arm = space.arm(one.name, speculation.model, speculation.ahead)
            return Known(space.placed(arm))
    who = wanted if present.draft is None else f"its draft {present.draft.name}"
    return Known(None, f"{who} is none of those that may draft here")


def _is_file(candidate: Candidate, draft: Path | None) -> bool:
    return (
        draft is not None
        and not candidate.is_mtp
        and candidate.options.path.resolve() == draft.resolve()
    )


def present_sentence(present: Known[Arm], result: TuneResult) -> str:
    """Compare the found setting with the present one."""
    found = _found_text(result)
    arm = present.value
    if arm is None and present.reason == _DRAFTS_NOTHING:
        return f"Your command does not draft at present; {found}."
    if arm is None:
        return f"Your present setting was not measured: {present.reason}; {found}."
    raced = result.raced(arm)
    is_best = result.best == arm
    estimate = _estimate(arm, result) if raced is None else raced.estimate
    if estimate is None:
        forecast = [one.speedup for one in result.outlook.forecasts if one.arm == arm]
        told = f"is forecast at {speedup_percent(forecast[0])}" if forecast else "was not measured"
        return f"Your present setting ({arm.label}) {told}; {found}."
    if is_best and estimate >= 1:
        return f"Your present setting is the best that was found: {arm.label}."
    told = _in_its_trial(arm, result) if raced is None else gain_text(raced)
    others = {one.arm for one in result.trials if one.tokens_per_s} - {OFF, arm}
    if not is_best:
        rest = found
    elif others or result.outlook.forecasts:
        rest = "off was faster, and no other setting that was tried or forecast"
    else:
        rest = "off was faster; no other setting was tried: allow more time or --trials"
    return f"Your present setting ({arm.label}): {told}; {rest}."


def _found_text(result: TuneResult) -> str:
    if result.best is None:
        return "nothing better was found"
    if result.speedup is not None:
        slower = "; off was faster" if result.speedup.estimate < 1 else ""
        return f"found: {result.best.label}, {gain_text(result.speedup)}{slower}"
    return f"found: {result.best.label}, {_in_its_trial(result.best, result)}, not confirmed"


def _in_its_trial(arm: Arm, result: TuneResult) -> str:
    trial, estimate = result.last_trial(arm), _estimate(arm, result)
    if trial is None or estimate is None:
        return "not measured"
    noisy = ", while the machine was disturbed" if trial.noisy else ""
    return f"{speedup_percent(estimate)} in its trial{noisy}"


def _estimate(arm: Arm, result: TuneResult) -> float | None:
    trial = result.last_trial(arm)
    return None if trial is None else speedup_estimate(trial, result.trials)
