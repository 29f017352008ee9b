"""Memory plans from child processes, so that no header of a file can end or fill this one."""

import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TypeVar, get_args

from spectui.children import Child, ProtocolError
from spectui.closing import Closing
from spectui.engine.demand import FreeMemory, free_memory
from spectui.errors import BadInputError, DoesNotFitError, SpectuiError
from spectui.llama.buffers import DeviceMemory
from spectui.llama.library import handed_down
from spectui.llama.planned import (
    Answer,
    Ask,
    Backend,
    ModelPlan,
    ModelRequest,
    Plan,
    Planned,
    PlanRequest,
    Question,
    Reading,
    Refused,
    are_of_rpc,
    plan_any_length,
    without_folder,
)
from spectui.models.gguf import FileIdentity
from spectui.models.pairs import Outline, PairReport, report
from spectui.speculative.models import unserved


class PlanProcess(Closing):
    """One process of ``spectui.llama.plan``."""

    def __init__(self, timeout_s: float, rpc: Sequence[str] = ()) -> None:
        """Start it; it is ready by the time of the first answer.

        Args:
            rpc: ``HOST:PORT`` of RPC servers whose devices there are.
            timeout_s: when an answer has not come by then, its file is called unusable.
        """
        self._timeout_s = timeout_s
        self._rpc = rpc
        self._deadline_s = 0.0
        self._reading: Path | None = None
        self._child = Child("spectui.llama.plan", (*get_args(Answer), Reading), rpc, handed_down())

    @property
    def pid(self) -> int:
        """The process id."""
        return self._child.pid

    def ask(self, question: Question) -> None:
        """Put a question, which has to be followed by ``hear``."""
        self._deadline_s = time.monotonic() + self._timeout_s
        # If it is dead, that is told where its answer is waited for.
        with suppress(OSError):
            self._child.channel.send(question)

    def hear(self) -> Answer:
        """Wait for the answer, an error of the question included.

        Raises:
            BadInputError: a signal ended it while it read a file, or it did not answer in time.
            DoesNotFitError: it found no memory, or was killed, as the kernel does where that ends.
            SpectuiError: a signal ended it before it read a file, as a GPU's driver may.
            RuntimeError: it ended by itself.
        """
        self._reading = None
        try:
            while self._child.channel.poll(max(self._deadline_s - time.monotonic(), 0.0)):
                answer: Answer | Reading = self._child.channel.receive()
                if not isinstance(answer, Reading):
                    return answer
                self._reading = answer.path
        except ProtocolError as error:
            self._child.close()
            raise BadInputError(
                f"{self._what()}: what llama.cpp tells of it cannot be read ({error}); "
                "check that the download is complete"
            ) from None
        except (EOFError, OSError):
            raise self._died() from None
        raise BadInputError(
            f"{self._what()}: llama.cpp did not come to an end with its header within "
            f"{self._timeout_s:g} s; check that the download is complete"
        )

    def close(self) -> None:
        """Kill it: it has nothing to keep."""
        self._child.close()

    def _what(self) -> str:
        return "the memory plan" if self._reading is None else str(self._reading)

    def _died(self) -> Exception:
        end, words = self._child.end(), without_folder(self._child.last_words())
        # Of a header that makes llama.cpp ask for all there is, the file is to blame.
        has_signal = end.startswith("SIG")
        no_memory = self._child.words_of_no_memory()
        if no_memory is not None and (self._reading is None or not has_signal):
            return DoesNotFitError(
                f"{self._what()}: memory ended while it was planned (its last words: {no_memory}); "
                "close other programs"
            )
        if not has_signal:
            # llama.cpp ends by a signal: this was Python.
            return RuntimeError(f"the process that plans ended with {end}: {words}")
        if are_of_rpc(words):
            return SpectuiError(
                f"{self._what()}: an RPC server of --rpc {','.join(self._rpc)} went away "
                "meanwhile, or cannot be read; start it again"
            )
        if end == "SIGKILL":
            return DoesNotFitError(
                f"{self._what()}: the process that plans was killed, as the kernel does where "
                "memory ends; close other programs"
            )
        if self._reading is None:
            return SpectuiError(
                f"llama.cpp ended with {end} before it read a file (its last words: {words}); "
                "check the GPU's driver, or hide the GPU with CUDA_VISIBLE_DEVICES=''"
            )
        return BadInputError(
            f"{self._what()}: llama.cpp could not make sense of it and ended with "
            f"{end} (its last words: {words}); "
            "check that the download is complete"
        )


TIMEOUT_S = 30.0
"""Limit for one plan, and for the child's start. Plans take under two seconds on a free machine."""
_SEVERAL = 2

T = TypeVar("T")


class _Role(StrEnum):
    TARGET = "target"
    DRAFT = "draft"


class Planner(Closing):
    """Plans as often as it is asked: targets in one child, and drafts in another at the same time.

    A child is started anew if a header ends it. Not thread-safe. Close it, or use it as a context
    manager: the children end with it.
    """

    def __init__(
        self, *, has_drafts: bool = False, timeout_s: float = TIMEOUT_S, rpc: Sequence[str] = ()
    ) -> None:
        """Start the target's child, which is ready by the time of the first question.

        Args:
            has_drafts: start the drafts' child at once, too, not with the first of them.
            timeout_s: when a plan has not come by then, its file is called unusable.
            rpc: ``HOST:PORT`` of RPC servers whose devices there are.
        """
        self._timeout_s = timeout_s
        self.rpc = tuple(rpc)
        self._children: dict[_Role, PlanProcess] = {}
        self._outlines: dict[_Role, tuple[FileIdentity, Outline]] = {}
        self._compared: tuple[FileIdentity, FileIdentity, PairReport] | None = None
        self._gpus: tuple[DeviceMemory, ...] | None = None
        """Last known GPUs; None before the first answer."""
        self._child(_Role.TARGET)
        if has_drafts:
            self._child(_Role.DRAFT)

    @property
    def pids(self) -> tuple[int, ...]:
        """The children's processes, the target's first; without those that have just ended."""
        return tuple(self._children[role].pid for role in _Role if role in self._children)

    def wait(self) -> None:
        """Return once all children that were started are ready, and idle.

        Raises:
            SpectuiError: one died, as ``plan`` has it.
        """
        self._ask(dict.fromkeys(tuple(self._children), Ask.ARE_YOU_THERE))

    def backend(self) -> Backend:
        """Ask what llama.cpp is and sees.

        Best before the first draft: a driver takes memory of its GPUs for every process that uses
        them, the children included.
        """
        answer = self._ask({_Role.TARGET: Ask.BACKEND})[_Role.TARGET]
        backend = _of_kind(answer, Backend)
        self._gpus = backend.gpus
        return backend

    def gpus(self) -> tuple[DeviceMemory, ...]:
        """Read the memories of the GPUs that llama.cpp sees."""
        return self.backend().gpus

    def free_memory(self) -> FreeMemory:
        """Memory that is free now, on every GPU that reports it and on the host."""
        return free_memory(self.gpus())

    def plan(self, request: PlanRequest) -> Plan:
        """Plan a target, and a draft or MTP layers beside it, without reading a weight.

        Of a context beyond ``LONGEST`` two shorter ones are planned, and what they take drawn on.

        Raises:
            BadInputError: a file is no model that generates, llama.cpp could not make sense of its
                header and died or hung, or it has no MTP layers that could draft for the target;
                the target's error comes first.
            DoesNotFitError: a recurrent state, which even a plan allocates, does not fit, or the
                kernel has ended the child because there is no memory.
            UsageError: an option that cannot be.
            SpectuiError: llama.cpp died before it read a file, as of a GPU's driver.
        """
        return plan_any_length(self._plan, request)

    def _plan(self, request: PlanRequest) -> Plan:
        target = ModelRequest(
            options=request.target,
            context=request.context,
            max_draft=request.max_draft,
            mtp=request.mtp and request.draft is None,
            mtp_file=request.draft if request.mtp else None,
            n_slots=request.n_slots,
        )
        if request.draft is None or request.mtp:
            _file, plan = _planned(self._ask({_Role.TARGET: target})[_Role.TARGET])
            return Plan(target=replace(plan, mtp=None), draft=plan.mtp, incompatibility=None)
        draft = ModelRequest(
            options=request.draft,
            context=request.context,
            max_draft=None,
            n_slots=request.n_slots,
        )
        found = self._pair(target, draft)
        compared = self._report({role: file for role, (file, _plan) in found.items()})
        plans = {role: plan for role, (_file, plan) in found.items()}
        ours, theirs = plans[_Role.TARGET], plans[_Role.DRAFT]
        return Plan(
            target=ours,
            draft=theirs,
            incompatibility=compared.reason or unserved(ours.rollback, theirs.rollback),
            report=compared,
        )

    def _pair(
        self, target: ModelRequest, draft: ModelRequest
    ) -> dict[_Role, tuple[FileIdentity, ModelPlan]]:
        """Plan both at the same time, unless the target decides how the draft is split.

        Nor where an RPC server is asked, which serves one child at a time.
        """
        gpus = self.gpus() if self._gpus is None else self._gpus
        if len(gpus) < _SEVERAL and not self.rpc:
            answers = self._ask({_Role.TARGET: target, _Role.DRAFT: draft})
        else:
            answers = self._ask({_Role.TARGET: target})
            split = split_beside(_planned(answers[_Role.TARGET])[1], gpus)
            answers |= self._ask({_Role.DRAFT: replace(draft, split=split)})
        return {role: _planned(answer) for role, answer in answers.items()}

    def close(self) -> None:
        """End the children. May be called again."""
        while self._children:
            self._children.popitem()[1].close()

    def _report(self, files: dict[_Role, FileIdentity]) -> PairReport:
        """Put the pair that was planned last beside each other, once."""
        target, draft = files[_Role.TARGET], files[_Role.DRAFT]
        if self._compared is None or self._compared[:2] != (target, draft):
            kept = {role: one[1] for role, one in self._outlines.items() if one[0] == files[role]}
            answers = self._ask({role: Ask.OUTLINE for role in files if role not in kept})
            for role, answer in answers.items():
                kept[role] = _of_kind(answer, Outline)
                self._outlines[role] = files[role], kept[role]
            self._compared = target, draft, report(kept[_Role.TARGET], kept[_Role.DRAFT])
        return self._compared[2]

    def _ask(self, questions: dict[_Role, Question]) -> dict[_Role, Answer]:
        """Ask children at the same time; raise the first one's error once all have answered."""
        try:
            for role, question in questions.items():
                self._child(role).ask(question)
            answers = {role: self._heard(role) for role in questions}
        except BaseException:
            # They are busy with what nobody wants any more.
            self.close()
            raise
        found: dict[_Role, Answer] = {}
        for role, answer in answers.items():
            if isinstance(answer, Refused):
                raise answer.error
            if isinstance(answer, Exception):
                raise answer
            found[role] = answer
        return found

    def _heard(self, role: _Role) -> Answer | Exception:
        child = self._children[role]
        try:
            return child.hear()
        except (SpectuiError, RuntimeError) as error:
            # It is dead, or comes to no end.
            del self._children[role]
            child.close()
            return error

    def _child(self, role: _Role) -> PlanProcess:
        if role not in self._children:
            self._children[role] = PlanProcess(self._timeout_s, self.rpc)
        return self._children[role]


def split_beside(target: ModelPlan, gpus: tuple[DeviceMemory, ...]) -> tuple[int, ...]:
    """Return the percentages of a draft's layers by GPU, once the target is loaded.

    Llama.cpp splits layers by what is free at that moment. Empty where there is nothing to split,
    or where a GPU does not tell.
    """
    if len(gpus) < _SEVERAL:
        return ()
    taken = Counter[str]()
    for buffer in target.buffers:
        taken[buffer.memory] += buffer.size_bytes
    left = [max(0, gpu.free_bytes - taken[gpu.name]) for gpu in gpus if gpu.free_bytes is not None]
    if len(left) < len(gpus) or not any(left):
        return ()
    return tuple(round(100 * one / sum(left)) for one in left)


def _planned(answer: Answer) -> tuple[FileIdentity, ModelPlan]:
    found = _of_kind(answer, Planned)
    return found.file, found.plan


def _of_kind(answer: Answer, kind: type[T]) -> T:
    if not isinstance(answer, kind):
        raise TypeError(f"the planner answered with {answer!r}")
    return answer
