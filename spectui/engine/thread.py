"""The owner thread: takes commands one by one, answers each with events."""

import queue
import threading
import traceback
from collections.abc import Callable

from spectui.config import ModelOptions
from spectui.engine.commands import (
    Command,
    Generate,
    LoadDraft,
    LoadTarget,
    ProbeMargin,
    Shutdown,
    Tokenize,
    UnloadDraft,
)
from spectui.engine.events import (
    DraftUnloaded,
    EngineClosed,
    EngineFailed,
    Event,
    LoadProgress,
    ModelLoaded,
    Role,
    Rollback,
    Tokenized,
)
from spectui.engine.generation import Generation, probe_margin
from spectui.engine.models import LoadedModels
from spectui.errors import SpectuiError, UsageError
from spectui.llama.chat import render_chat
from spectui.llama.context import AbortFlag


class EngineThread:
    """Owns every native object. ``submit`` and ``stop`` may be called from any thread."""

    def __init__(self, sink: Callable[[Event], None]) -> None:
        """Start the thread; ``sink`` is called on it with every event."""
        self._sink = sink
        self._commands: queue.SimpleQueue[tuple[int, Command]] = queue.SimpleQueue()
        self._abort = AbortFlag()
        self._models = LoadedModels(self._abort)
        self._lock = threading.RLock()
        self._n_submitted = 0
        self._n_stopped = 0
        """Commands up to this number are cancelled."""
        self._running = 0
        self._thread = threading.Thread(target=self._run, name="spectui-engine", daemon=True)
        self._thread.start()

    def submit(self, command: Command) -> None:
        """Queue ``command``."""
        with self._lock:
            self._n_submitted += 1
            self._commands.put((self._n_submitted, command))

    def stop(self) -> None:
        """Cancel all commands submitted so far, the running one within a graph node."""
        with self._lock:
            self._n_stopped = self._n_submitted
            self._abort.set()

    def close(self) -> None:
        """Cancel everything, free the models, wait for the thread."""
        self.stop()
        self.submit(Shutdown())
        self._thread.join()

    def _cancelled(self) -> bool:
        return self._running <= self._n_stopped

    def _run(self) -> None:
        while True:
            number, command = self._commands.get()
            with self._lock:
                self._running = number
                if not self._cancelled():
                    self._abort.clear()
            self._sink(self._answer(command))
            if isinstance(command, Shutdown):
                return

    def _answer(self, command: Command) -> Event:
        try:
            return self._execute(command)
        except SpectuiError as error:
            return EngineFailed(error=error, trace=None)
        except Exception as error:  # noqa: BLE001 - the thread must live on; the event tells all
            message = f"{type(error).__name__}: {error}"
            return EngineFailed(error=SpectuiError(message), trace=traceback.format_exc())

    def _execute(self, command: Command) -> Event:
        models = self._models
        match command:
            case LoadTarget():
                models.load_target(command, self._progress, self._cancelled)
                return self._loaded(Role.TARGET)
            case LoadDraft():
                models.load_draft(command, self._progress, self._cancelled)
                return self._loaded(Role.DRAFT)
            case UnloadDraft():
                models.unload_draft()
                return DraftUnloaded()
            case Tokenize():
                return self._tokenize(command)
            case Generate():
                return Generation(models, command, self._sink, self._cancelled).run()
            case ProbeMargin():
                return probe_margin(models, command)
            case Shutdown():
                models.close()
                return EngineClosed()

    def _progress(self, role: Role, options: ModelOptions, fraction: float) -> None:
        self._sink(LoadProgress(role=role, path=options.path, fraction=fraction))

    def _loaded(self, role: Role) -> ModelLoaded:
        context = self._models.target if role is Role.TARGET else self._models.draft
        return ModelLoaded(
            role=role,
            info=context.model.info,
            rollback=Rollback.TRUNCATE,
            n_ctx=context.n_ctx,
        )

    def _tokenize(self, command: Tokenize) -> Tokenized:
        model = self._models.target_model
        if model is None:
            raise UsageError("no target is loaded; give one with -m")
        text = command.text if command.text is not None else render_chat(model, command.messages)
        return Tokenized(tokens=model.vocabulary.tokenize(text))
