"""Places a target as llama-server's ``--fit`` would, before this process loads it."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from spectui.engine.fit import Fitted, fitted
from spectui.engine.fitting import alone
from spectui.engine.guard import request_of
from spectui.engine.planning import Planner
from spectui.llama.devices import has_gpu
from spectui.llama.planned import PlanRequest
from spectui.options.setup import Fit, ModelOptions, Setup

Say = Callable[[str], None]
_FULL = (1 << 32) - 1
"""``--fit-ctx`` of a server that is told to keep the whole context."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenContext:
    """A llama-server that was not told how long its context is."""

    n_slots: int = 1
    is_full: bool = False
    """Whether it is never shortened, as with ``-c 0``."""

    def fit(self, options: Fit) -> Fit:
        """The same options for it."""
        return replace(options, min_ctx=_FULL) if self.is_full else options


def left_open(target: ModelOptions, options: Fit | None) -> ModelOptions:
    """A target whose placement is left to a llama-server, where there is anything to choose.

    Args:
        target: as it was given.
        options: what may be chosen; None for nothing.
    """
    if options is None or not has_devices(target):
        return target
    return replace(target, fit=replace(options, is_open=True))


def placed(setup: Setup, options: Fit | None, say: Say, server: OpenContext | None = None) -> Setup:
    """A setup as it is loaded: layers and experts on the devices as ``--fit`` chooses them.

    Memory is planned in child processes, which are gone when this returns.

    Args:
        setup: target and draft as they were given.
        options: what may be chosen; None for nothing.
        say: told what was chosen, if it is not everything.
        server: a llama-server that chooses the size of its context as well, which is told then;
            None for one that does not.

    Returns:
        The setup itself where nothing may be chosen, or there is no device.

    Raises:
        SpectuiError: as ``Planner.plan`` does.
    """
    if options is None or not has_devices(setup.target):
        return setup
    request = request_of(setup)
    with Planner(rpc=setup.target.devices.rpc) as planner:
        found = fitted(planner, request, options)
        if found is None:
            return setup
        if found.sentence is not None:
            say(found.sentence)
        if found.rooms and alone(request) != request:
            _mind_target_alone(found, fitted(planner, alone(request), options), say)
        warn_of_context(planner, request, options, found, server=server, say=say)
    draft = None if setup.draft is None else found.beside(setup.draft)
    return replace(setup, target=found.target, draft=draft)


def has_devices(target: ModelOptions) -> bool:
    """Whether a target may lie on a device beside the processor."""
    return target.devices.names != () and bool(target.devices.rpc or has_gpu())


def warn_of_context(
    planner: Planner,
    request: PlanRequest,
    options: Fit,
    found: Fitted,
    *,
    server: OpenContext | None,
    say: Say,
) -> None:
    """Say so where a server with the context that it chooses places the target elsewhere.

    Args:
        planner: plans memory.
        request: what is loaded.
        options: what may be chosen.
        found: what was chosen.
        server: None for one that does not choose the size of its context.
        say: told the difference.
    """
    if server is None:
        return
    asked = replace(request, n_slots=server.n_slots)
    longer = fitted(planner, asked, server.fit(options), open_context=True)
    if longer is not None and longer.choice != found.choice:
        n_tokens = server.n_slots * longer.ctx_size
        say(
            f"note: llama-server chooses a context of {n_tokens} tokens where -c is not given, "
            f"with {longer.choice}; add -c {n_tokens} to measure that"
        )


def _mind_target_alone(found: Fitted, without: Fitted | None, say: Say) -> None:
    """Say so where a server without the draft would place more of the target on the devices."""
    if without is not None and without.target != found.target:
        say(
            f"note: without the draft llama-server has more room ({without.choice}): here the "
            "target lies the same without speculation; --backend server measures each as it is"
        )
