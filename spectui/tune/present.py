"""The drafting of a user's command, which a search measures beside what it finds."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from spectui.documents import Known
from spectui.format import speedup_percent
from spectui.measure.arm import Arm
from spectui.measure.speedup import gain_text
from spectui.options.drafters import MODEL_KIND, MTP_KIND
from spectui.options.setup import ContextOptions
from spectui.options.speculation import Speculation
from spectui.tune.candidates import Candidate
from spectui.tune.result import TuneResult
from spectui.tune.space import SearchSpace


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
        return Known(None, "the command does not draft")
    if speculation.ngrams and not space.with_ngrams:
        return Known(None, "this llama-server has no n-gram drafters")
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
    """The gain of the present setting, beside the verdict on the one that was found."""
    arm = present.value
    if arm is None:
        return f"Your present setting was not measured: {present.reason}."
    raced, trial = result.raced(arm), result.last_trial(arm)
    if raced is not None:
        is_best = result.best == arm and raced.estimate >= 1
        told = f"{gain_text(raced)}{', the best that was found' * is_best}"
    elif trial is not None and trial.speedup is not None:
        told = f"{speedup_percent(trial.speedup)} in a trial"
    else:
        told = "it was not measured"
    return f"Your present setting ({arm.label}): {told}."
