"""Choices of the export screen: the live settings, the best that tuning found, and off."""

from dataclasses import replace
from typing import TYPE_CHECKING

from spectui.export.formats import ExportSetup
from spectui.live.setup import LiveSetup
from spectui.tui.export.screen import ExportChoice
from spectui.tune.trials import OFF, Arm, best_trial

if TYPE_CHECKING:
    from spectui.config import SpeculationConfig
    from spectui.tune.progress import TuningState


def export_choices(
    setup: LiveSetup, state: "TuningState | None", *, has_gpu: bool
) -> tuple[ExportChoice, ...]:
    """Return what can be exported, the most useful first."""

    def export(speculation: "SpeculationConfig | None") -> ExportSetup:
        return _export(setup, speculation, has_gpu=has_gpu)

    choices = [
        ExportChoice(
            label="live settings",
            setup=export(setup.speculation),
            note="As the chat runs now; nothing was measured for this choice.",
        )
    ]
    if state is not None and (found := _found(state, setup)) is not None:
        arm, note = found
        is_confirmed = state.confirmed is not None
        label = "found by tuning" if is_confirmed else "best trial so far"
        found_choice = ExportChoice(label=label, setup=export(arm.speculation), note=note)
        # What is not confirmed does not come first.
        choices.insert(0 if is_confirmed else 1, found_choice)
    choices.append(ExportChoice(label="draft off", setup=export(None), note="The target alone."))
    return tuple(choices)


def _found(state: "TuningState", setup: LiveSetup) -> "tuple[Arm, str] | None":
    """Return what tuning advises, and what that rests on; None as long as nothing was measured."""
    result, best = state.result, state.confirmed
    if result is not None and best is not None:
        arm = best if result.verdict.use_speculation else OFF
        return arm, f"{result.verdict.reason} Measured with -t {setup.context.threads}."
    trial = best_trial(state.records)
    if trial is None:
        return None
    return trial.arm, "The best trial so far; whether it pays is not confirmed."


def _export(
    setup: LiveSetup, speculation: "SpeculationConfig | None", *, has_gpu: bool
) -> ExportSetup:
    return ExportSetup(
        target=setup.target,
        draft=setup.draft,
        context=replace(setup.context, threads=setup.server_threads),
        speculation=replace(setup, speculation=speculation).drafting,
        extra=setup.extra,
        name=setup.target.path.stem,
        has_gpu=has_gpu,
    )
