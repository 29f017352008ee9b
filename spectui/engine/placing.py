"""Places a target as llama-server's ``--fit`` would, before this process loads it."""

from collections.abc import Callable
from dataclasses import replace

from spectui.engine.guard import request_of
from spectui.engine.planning import Planner, fitted
from spectui.llama.devices import has_gpu
from spectui.llama.planned import beside
from spectui.options.setup import Fit, ModelOptions, Setup


def left_open(target: ModelOptions, options: Fit | None) -> ModelOptions:
    """A target whose placement is left to a llama-server, where there is anything to choose.

    Args:
        target: as it was given.
        options: what may be chosen; None for nothing.
    """
    if options is None or not has_devices(target):
        return target
    return replace(target, fit=replace(options, is_open=True))


def placed(setup: Setup, options: Fit | None, say: Callable[[str], None]) -> Setup:
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
    if options is None or not has_devices(setup.target):
        return setup
    with Planner(rpc=setup.target.devices.rpc) as planner:
        found = fitted(planner, request_of(setup), options)
    if found is None:
        return setup
    if found.sentence is not None:
        say(found.sentence)
    draft = None if setup.draft is None else beside(found.target, setup.draft)
    return replace(setup, target=found.target, draft=draft)


def has_devices(target: ModelOptions) -> bool:
    """Whether a target may lie on a device beside the processor."""
    return target.devices.names != () and bool(target.devices.rpc or has_gpu())
