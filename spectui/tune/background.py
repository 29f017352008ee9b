"""Tuning beside a chat: a search on a thread of its own, over an engine that it shares.

The engine lets the chat go first: what the search is measuring then is begun again, so that no
number has a pause inside.
"""

import threading
from collections.abc import Callable
from dataclasses import replace

from spectui.engine.driver import Engine
from spectui.engine.thread import EngineThread
from spectui.errors import CancelledError, SpectuiError
from spectui.tune.progress import Phase, TuneEvent, TuningState, advance
from spectui.tune.tuning import Tuning

Prepare = Callable[[Engine, Callable[[str], None]], Tuning]
"""Makes a search with an engine; its second argument takes clauses for the user."""


class BackgroundTuning:
    """One search. ``stop`` and ``close`` may be called from any thread."""

    def __init__(
        self,
        engine: EngineThread,
        prepare: Prepare,
        sink: Callable[[TuningState], None],
    ) -> None:
        """Start it.

        Args:
            engine: has loaded the pair.
            prepare: makes the search, on its own thread: its prompts have to be tokenized.
            sink: called with every change, on the search's thread or on the caller's.
        """
        self._prepare = prepare
        self._sink = sink
        self._lock = threading.RLock()
        self._state = TuningState(phase=Phase.PREPARING)
        self._engine = Engine(shared=engine)
        self._thread = threading.Thread(target=self._run, name="spectui-tuning", daemon=True)
        sink(self._state)
        self._thread.start()

    @property
    def state(self) -> TuningState:
        """State of the search."""
        return self._state

    def stop(self) -> None:
        """Stop the search, which ends with its result so far. Returns before it has ended."""
        with self._lock:
            if self._state.is_running:
                self._change(phase=Phase.STOPPING)
        self._engine.client.quit()

    def close(self) -> None:
        """End the search and wait for it."""
        self.stop()
        self._thread.join()

    def _change(self, **changes: object) -> None:
        with self._lock:
            self._state = replace(self._state, **changes)  # type: ignore[arg-type] # its own fields
            self._sink(self._state)

    def _run(self) -> None:
        try:
            self._tune()
        except CancelledError:
            # Stopped before there was anything to stop.
            self._change(phase=Phase.IDLE, current=None)
        except SpectuiError as error:
            self._change(phase=Phase.FAILED, current=None, error=str(error))
        except Exception as error:  # noqa: BLE001 - a thread that dies silently would look busy for ever
            reason = f"{type(error).__name__}: {error}; this is a defect of spectui's"
            self._change(phase=Phase.FAILED, current=None, error=reason)
        finally:
            self._engine.close()

    def _tune(self) -> None:
        tuning = self._prepare(self._engine, lambda text: self._change(notice=text))

        def on_event(event: TuneEvent) -> None:
            with self._lock:
                self._state = advance(self._state, event)
                self._sink(self._state)

        found = tuning.run(on_event)
        result = found.result
        # The study has it by now: a report that cannot be made must not hide it.
        self._change(result=result, current=None, records=result.trials)
        if result.not_kept is None:
            result = replace(result, not_kept=tuning.keep_report(found.document()))
        error = None if result.error is None else str(result.error)
        self._change(
            phase=Phase.FINISHED if error is None else Phase.FAILED, result=result, error=error
        )
