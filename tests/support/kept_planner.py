"""A planner whose process stays for the next test, which starts none of its own."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import RLock

import pytest

from spectui.engine import planning
from spectui.engine.planning import TIMEOUT_S, Planner
from spectui.llama.planned import Plan, PlanRequest

_USERS = ("engine.planning", "engine.guard", "cli.run_doctor")
"""Modules that make planners."""


class KeptPlanner(Planner):
    """Ends its process with ``end`` alone."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path.cwd()
        self._lock = RLock()

    def plan(self, request: PlanRequest) -> Plan:
        """Plan for one thread at a time.

        After an exception that is no answer the process is busy with the old question.
        """
        with self._lock:
            try:
                return super().plan(request)
            except (KeyboardInterrupt, SystemExit):
                self.end()
                raise

    def close(self) -> None:
        """Keep the process."""

    def end(self) -> None:
        """End the process."""
        super().close()


_kept: list[KeptPlanner] = []


def kept_pids() -> set[int]:
    return {planner.pid for planner in _kept if planner.pid is not None}


@contextmanager
def keeping_planners() -> Iterator[None]:
    def opened(*, timeout_s: float = TIMEOUT_S, rpc: Sequence[str] = ()) -> Planner:
        if rpc or timeout_s != TIMEOUT_S:
            return Planner(timeout_s=timeout_s, rpc=rpc)
        # Its process reads relative paths from where it began.
        if _kept and _kept[0].folder != Path.cwd():
            end_planners()
        if not _kept:
            _kept.append(KeptPlanner())
        return _kept[0]

    assert planning.Planner is Planner
    with pytest.MonkeyPatch.context() as patch:
        for name in _USERS:
            patch.setattr(f"spectui.{name}.Planner", opened)
        yield


def end_planners() -> None:
    while _kept:
        _kept.pop().end()
