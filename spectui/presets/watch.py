"""Who is told how far a pull is."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from spectui.presets.plan import PlannedFile, PullEvent, PullPaused, PullProgress, Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """Turns bytes and time into events."""

    on_event: Callable[[PullEvent], None]
    """Called in the thread that fetches, for every chunk."""
    clock: Callable[[], float] = time.monotonic
    """In seconds."""
    sleep: Callable[[float], None] = time.sleep
    """For seconds; an interrupt ends it."""

    def begin(self, file: PlannedFile, step: Step, done_bytes: int = 0) -> Callable[[int], None]:
        """Report that a step begins; return what reports how far it is."""
        began_s = self.clock()

        def report(now_bytes: int) -> None:
            took_s = self.clock() - began_s
            self.on_event(
                PullProgress(
                    file=file.path.name,
                    step=step,
                    done_bytes=now_bytes,
                    size_bytes=file.source.size_bytes,
                    bytes_per_s=(now_bytes - done_bytes) / took_s if took_s > 0 else None,
                )
            )

        report(done_bytes)
        return report

    def pause(self, file: PlannedFile, pause_s: float, reason: str) -> None:
        """Tell why nothing comes, and wait."""
        self.on_event(PullPaused(file=file.path.name, reason=reason, pause_s=pause_s))
        self.sleep(pause_s)
