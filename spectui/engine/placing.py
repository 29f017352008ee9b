"""Places a target as llama-server's ``--fit`` would, before this process loads it."""

from collections.abc import Callable
from dataclasses import replace

from spectui.engine.fit import Fitted, fitted
from spectui.engine.fitting import alone
from spectui.engine.guard import request_of
from spectui.engine.planning import Planner
from spectui.llama.devices import has_gpu
from spectui.options.setup import Fit, ModelOptions, Setup

Say = Callable[[str], None]


def left_open(target: ModelOptions, options: Fit | None) -> ModelOptions:
    """A target whose placement is left to a llama-server, where there is anything to choose.

    Args:
        target: as it was given.
        options: what may be chosen; None for nothing.
    """
    if options is None or not _has_devices(target):
        return target
    return replace(target, fit=replace(options, is_open=True))


def placed(setup: Setup, options: Fit | None, say: Say) -> Setup:
    """A setup as it is loaded: layers and experts on the devices as ``--fit`` chooses them.

    Memory is planned in child processes, which are gone when this returns.

    Args:
        setup: target and draft as they were given.
        options: what may be chosen; None for nothing.
        say: told what was chosen, if it is not everything.

    Returns:
        The setup itself where nothing may be chosen, or there is no device.

    Raises:
        SpectuiError: as ``Planner.plan`` does.
    """
    if options is None or not _has_devices(setup.target):
        return setup
    request = request_of(setup)
    has_draft = request.draft is not None
    with Planner(has_drafts=has_draft, rpc=setup.target.devices.rpc) as planner:
        found = fitted(planner, request, options)
        if found is None:
            return setup
        if found.sentence is not None:
            say(found.sentence)
        if found.rooms and alone(request) != request:
            _mind_target_alone(found, fitted(planner, alone(request), options), say)
    draft = None if setup.draft is None else found.beside(setup.draft)
    return replace(setup, target=found.target, draft=draft)


def _has_devices(target: ModelOptions) -> bool:
    return target.devices.names != () and bool(target.devices.rpc or has_gpu())


def _mind_target_alone(found: Fitted, without: Fitted | None, say: Say) -> None:
    """Say so where a server without the draft would place more of the target on the devices."""
    if without is not None and without.target != found.target:
        say(
            f"mind that without the draft llama-server has more room ({without.choice}): here the "
            "target lies the same without speculation; --backend server measures each as it is"
        )
