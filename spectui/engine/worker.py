"""Executes the engine's commands, one at a time, with the models of this process."""

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from spectui.engine import commands
from spectui.engine.events import (
    DraftUnloaded,
    EngineClosed,
    Event,
    LoadProgress,
    LoadWarned,
    ModelLoaded,
    Role,
    Tokenized,
)
from spectui.engine.fit import beside
from spectui.engine.generation import Generation, probe_margin
from spectui.engine.given import read_answer
from spectui.engine.guard import Guard
from spectui.engine.inspection import Inspector, read_experts, record
from spectui.engine.models import LoadedModels
from spectui.engine.pairing import PairGeneration
from spectui.engine.templates import Templates
from spectui.engine.writing import Writing
from spectui.errors import UsageError
from spectui.llama.context import AbortFlag
from spectui.llama.planned import PlanRequest
from spectui.options.setup import ModelOptions

Sink = Callable[[Event], None]

NO_MEMORY = "memory ended while {doing}; close other programs, or choose a shorter -c"


class Worker(Protocol):
    """Executes commands one after the other, all on one thread."""

    def execute(
        self, command: commands.Command, sink: Sink, cancelled: Callable[[], bool]
    ) -> Event:
        """Do what a command asks for, and return its answer; ``Shutdown`` is the last.

        Args:
            command: the command.
            sink: gets the events on the way.
            cancelled: tells whether it shall end early.

        Raises:
            SpectuiError: it cannot be done.
        """
        ...

    def interrupt(self, *, on: bool) -> None:
        """End what is computed, now and until it is switched off. Safe from any thread."""
        ...


class LocalWorker:
    """Owns every native object of this process."""

    def __init__(self, guard: Guard | None = None) -> None:
        """Load nothing yet.

        Args:
            guard: is asked before anything is loaded; None for one that reads what is free now.
        """
        self.abort = AbortFlag()
        self.models = LoadedModels(self.abort)
        self.guard = guard or Guard()
        self._templates = Templates()
        self._request: PlanRequest | None = None
        """Request of the target that was loaded last."""
        self._inspector = Inspector(self.guard, lambda: self.models.buffers)

    def interrupt(self, *, on: bool) -> None:
        """As ``Worker.interrupt``."""
        if on:
            self.abort.set()
        else:
            self.abort.clear()

    def execute(  # noqa: C901, PLR0911 - a kind of command each
        self, command: commands.Command, sink: Sink, cancelled: Callable[[], bool]
    ) -> Event:
        """As ``Worker.execute``."""
        models = self.models
        match command:
            case commands.LoadTarget() | commands.LoadDraft():
                return self._load(command, sink, cancelled)
            case commands.UnloadDraft():
                models.unload_draft()
                return DraftUnloaded()
            case commands.ComparePair():
                return self._inspector.compare(command, cancelled)
            case commands.Tokenize():
                return self._tokenize(command)
            case commands.Generate():
                return Generation(models, command, sink, cancelled).run()
            case commands.WriteAnswers():
                return Writing(models, command, sink, cancelled).run()
            case commands.ReadAnswer():
                return read_answer(models, command, cancelled)
            case commands.GeneratePair():
                return PairGeneration(models, command, sink, cancelled).run()
            case commands.ProbeMargin():
                return probe_margin(models, command)
            case commands.RecordChains():
                return record(models, command, cancelled)
            case commands.ReadExperts():
                return read_experts(models, command, cancelled)
            case commands.Shutdown():
                self.guard.close()
                self._templates.close()
                self._inspector.close()
                models.close()
                return EngineClosed()

    def _load(
        self,
        command: commands.LoadTarget | commands.LoadDraft,
        sink: Sink,
        cancelled: Callable[[], bool],
    ) -> ModelLoaded:
        def progress(role: Role, options: ModelOptions, fraction: float) -> None:
            sink(LoadProgress(role=role, path=options.path, fraction=fraction))

        models = self.models
        if isinstance(command, commands.LoadTarget):
            # Free memory counts once what makes room is gone.
            models.close()
            self._request = PlanRequest(
                target=command.options,
                draft=command.draft,
                mtp=command.mtp if command.draft is None else command.mtp_file,
                context=command.context,
                max_draft=command.max_draft,
            )
            options = command.options
            command = self._placed(command, sink)
            self._ask_guard(self._request, command, sink)
            models.load_target(command, progress, cancelled)
            placed = None if command.options == options else command.options
            return replace(self._loaded(Role.TARGET, sink), placed=placed)
        models.unload_draft()
        if self._request is not None and models.target_model is not None:
            command = replace(command, options=beside(self._request.target, command.options))
            pair = replace(self._request, draft=command.options, mtp=command.mtp)
            self._ask_guard(pair, command, sink)
        models.load_draft(command, progress, cancelled)
        return self._loaded(Role.DRAFT, sink)

    def _placed(self, command: commands.LoadTarget, sink: Sink) -> commands.LoadTarget:
        """The command with the placement that ``--fit`` chooses, where it is open."""
        if self._request is None:
            return command
        self._request, sentence = self.guard.place(self._request)
        if sentence is not None:
            sink(LoadWarned(warning=sentence))
        return replace(command, options=self._request.target)

    def _ask_guard(
        self, request: PlanRequest, command: commands.LoadTarget | commands.LoadDraft, sink: Sink
    ) -> None:
        """Have the guard refuse what has no room, before anything is allocated.

        Raises:
            DoesNotFitError: it does.
        """
        has_target = isinstance(command, commands.LoadDraft)
        warning = self.guard.check(request, has_target=has_target, from_disk=command.from_disk)
        if warning is not None:
            sink(LoadWarned(warning=warning))

    def _loaded(self, role: Role, sink: Sink) -> ModelLoaded:
        models = self.models
        for warning in models.warnings(role):
            sink(LoadWarned(warning=warning))
        context = models.target if role is Role.TARGET else models.draft_context
        return ModelLoaded(
            role=role,
            info=context.model.info,
            rollback=context.rollback,
            n_ctx=context.n_ctx,
            memory=models.memory[role],
            mtp_layers=models.mtp_layers(role),
        )

    def _tokenize(self, command: commands.Tokenize) -> Tokenized:
        model = self.models.target_model
        if model is None:
            raise UsageError("no target is loaded; give one with -m")
        text = command.text
        if text is None:
            text = self._templates.render(model, command.messages, command.rendering)
        return Tokenized(tokens=model.vocabulary.tokenize(text))
