"""Executes the engine's commands, one at a time, with the models of this process."""

from dataclasses import replace
from typing import Protocol

from spectui.engine import commands, events
from spectui.engine.demand import FreeMemory
from spectui.engine.generation import Generation, probe_margin
from spectui.engine.guard import Guard
from spectui.engine.inspection import read_answer, read_experts, record
from spectui.engine.models import LoadedModels
from spectui.engine.pairing import PairGeneration
from spectui.engine.templates import Templates
from spectui.engine.writing import Writing
from spectui.llama.architectures import inspect_pair
from spectui.llama.planned import PlanRequest, beside
from spectui.models.ranking import ModelInspected
from spectui.options.setup import ModelOptions


class Worker(Protocol):
    """Executes commands one after the other, all on one thread."""

    def execute(self, command: commands.Command, sink: events.Sink) -> events.Event:
        """Do what a command asks for, and return its answer; ``Shutdown`` is the last.

        Args:
            command: the command.
            sink: gets the events on the way.

        Raises:
            SpectuiError: it cannot be done.
        """

    def interrupt(self, *, on: bool) -> None:
        """End what is computed, now and until it is switched off. Safe from any thread."""


class LocalWorker:
    """Owns every native object of this process."""

    def __init__(self, guard: Guard | None = None) -> None:
        """Load nothing yet.

        Args:
            guard: is asked before anything is loaded; None for one that reads what is free now.
        """
        self.models = LoadedModels()
        self.guard = guard or Guard()
        self._templates = Templates()
        self._request: PlanRequest | None = None
        """Request of the target; None where none is loaded."""
        self._free: tuple[ModelOptions, FreeMemory] | None = None
        """Target that drafts were compared with last, and the memory for pairs of it."""

    def interrupt(self, *, on: bool) -> None:
        """As ``Worker.interrupt``."""
        if on:
            self.models.abort.set()
        else:
            self.models.abort.clear()

    def execute(  # noqa: C901, PLR0911, PLR0912 - a kind of command each
        self, command: commands.Command, sink: events.Sink
    ) -> events.Event:
        """As ``Worker.execute``."""
        models = self.models
        match command:
            case commands.LoadTarget():
                return self._load_target(command, sink)
            case commands.LoadDraft():
                return self._load_draft(command, sink)
            case commands.UnloadDraft():
                models.unload_draft()
                return events.Done()
            case commands.ComparePair():
                return self._compare(command.request)
            case commands.Tokenize():
                return self._tokenize(command)
            case commands.Generate():
                return Generation(models, command, sink).run()
            case commands.WriteAnswers():
                return Writing(models, command, sink).run()
            case commands.ReadAnswer():
                return read_answer(models, command)
            case commands.GeneratePair():
                return PairGeneration(models, command, sink).run()
            case commands.ProbeMargin():
                return probe_margin(models, command)
            case commands.RecordChains():
                return record(models, command)
            case commands.ReadExperts():
                return read_experts(models, command)
            case commands.Shutdown():
                for owner in (self.guard, self._templates, models):
                    owner.close()
                return events.Done()

    def _load_target(self, command: commands.LoadTarget, sink: events.Sink) -> events.ModelLoaded:
        # Free memory counts once what makes room is gone.
        self.models.close()
        self._request = None
        request = PlanRequest(
            target=command.options,
            draft=command.draft,
            mtp=command.mtp if command.draft is None else command.mtp_file,
            context=command.context,
            max_draft=command.max_draft,
        )
        with self.guard:
            request, sentence = self.guard.place(request)
            _warn(sink, sentence)
            _warn(sink, self.guard.check(request, from_disk=command.from_disk))
        options = request.target
        self.models.load_target(replace(command, options=options), sink)
        self._request = request
        placed = None if options == command.options else options
        return replace(self._loaded(events.Role.TARGET), placed=placed)

    def _load_draft(self, command: commands.LoadDraft, sink: events.Sink) -> events.ModelLoaded:
        models = self.models
        models.unload_draft()
        if self._request is not None:
            command = replace(command, options=beside(self._request.target, command.options))
            pair = replace(self._request, draft=command.options, mtp=command.mtp)
            warning = self.guard.check(pair, gone=models.buffers, from_disk=command.from_disk)
            _warn(sink, warning)
        models.load_draft(command, sink)
        return self._loaded(events.Role.DRAFT)

    def _loaded(self, role: events.Role) -> events.ModelLoaded:
        models = self.models
        context = models.target if role is events.Role.TARGET else models.draft_context
        return events.ModelLoaded(
            role=role,
            info=context.model.info,
            rollback=context.rollback,
            n_ctx=context.n_ctx,
            memory=models.memory[role],
            mtp_layers=models.mtp_layers(role),
        )

    def _compare(self, request: PlanRequest) -> ModelInspected:
        target = request.target
        inspected = inspect_pair(target.path, (request.draft or target).path)
        if self._free is None or self._free[0] != target:
            # Before anything is planned: the process that plans may take some of it.
            gone = (one for one in self.models.buffers if not one.is_mapped)
            self._free = target, self.guard.free(target, gone)
        if inspected.reason is not None:
            return inspected
        reason, slowness = self.guard.judge(request, self._free[1])
        return replace(inspected, reason=reason, slowness=slowness)

    def _tokenize(self, command: commands.Tokenize) -> events.Tokenized:
        model = self.models.target.model
        text = command.text
        if text is None:
            text = self._templates.render(model, command.messages, command.rendering)
        return events.Tokenized(tokens=model.vocabulary.tokenize(text))


def _warn(sink: events.Sink, warning: str | None) -> None:
    if warning is not None:
        sink(events.LoadWarned(warning=warning))
