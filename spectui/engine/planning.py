"""Memory plans from a child process, so that no header of a file can end or fill this one."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TypeVar, get_args

from spectui.children import Child, ProtocolError
from spectui.closing import Closing
from spectui.engine.demand import FreeMemory, free_memory
from spectui.engine.fitting import alone
from spectui.errors import BadInputError, DoesNotFitError, SpectuiError, UsageError
from spectui.llama.buffers import DeviceMemory, devices_of
from spectui.llama.library import handed_down
from spectui.llama.planned import (
    Answer,
    Backend,
    BackendRequest,
    FitRequest,
    Fitted,
    Plan,
    PlanRequest,
    Question,
    Reading,
    Refused,
    are_of_rpc,
    without_folder,
)
from spectui.options.setup import Fit

TIMEOUT_S = 30.0
"""Limit for a file of a plan, and for the child's start, which take a second on a free machine."""

T = TypeVar("T")


class Planner(Closing):
    """Plans as often as it is asked, in a process of ``spectui.llama.plan``.

    That is started anew if a header ends it. Not thread-safe. Close it, or use it as a context
    manager: the process ends with it.
    """

    def __init__(self, *, timeout_s: float = TIMEOUT_S, rpc: Sequence[str] = ()) -> None:
        """Start the process, which is ready by the time of the first question.

        Args:
            timeout_s: when an answer has not come by then, its file is called unusable.
            rpc: ``HOST:PORT`` of RPC servers whose devices there are.
        """
        self._timeout_s = timeout_s
        self.rpc = tuple(rpc)
        self._child: Child | None = self._started()
        self._reading: Path | None = None
        """The file that is looked at."""

    @property
    def pid(self) -> int | None:
        """The process id; None where the process has just ended."""
        return None if self._child is None else self._child.pid

    def backend(self) -> Backend:
        """Ask what llama.cpp is and sees."""
        return self._ask(BackendRequest(), Backend)

    def gpus(self) -> tuple[DeviceMemory, ...]:
        """Read the memories of the GPUs that llama.cpp sees."""
        return self.backend().gpus

    def free_memory(self) -> FreeMemory:
        """Memory that is free now, on every GPU that reports it and on the host."""
        return free_memory(self.gpus())

    def plan(self, request: PlanRequest) -> Plan:
        """Plan a target, and a draft or MTP layers beside it, without reading a weight.

        Raises:
            BadInputError: a file is no model that generates, llama.cpp could not make sense of its
                header and died or hung, or it has no MTP layers that could draft for the target;
                the target's error comes first.
            DoesNotFitError: a recurrent state, which even a plan allocates, does not fit, or the
                kernel has ended the child because there is no memory.
            UsageError: an option that cannot be.
            SpectuiError: llama.cpp died before it read a file, as of a GPU's driver.
        """
        return self._ask(request, Plan)

    def fit(self, request: PlanRequest) -> Fitted:
        """Choose where the target of a request lies, as ``--fit`` does; errors as of ``plan``."""
        return self._ask(FitRequest(request=request), Fitted)

    def close(self) -> None:
        """End the process: it has nothing to keep. May be called again."""
        if self._child is not None:
            self._child.close()
            self._child = None

    def _started(self) -> Child:
        return Child("spectui.llama.plan", (*get_args(Answer), Reading), self.rpc, handed_down())

    def _ask(self, question: Question, kind: type[T]) -> T:
        """Put a question, and wait for its answer.

        Raises:
            SpectuiError: as ``plan``, or the question's own error.
        """
        child = self._child = self._child or self._started()
        try:
            answer = self._answer(child, question)
        except BaseException:
            # It is dead, comes to no end, or is busy with what nobody wants any more.
            self.close()
            raise
        if isinstance(answer, Refused):
            raise answer.error
        if not isinstance(answer, kind):
            raise TypeError(f"the planner answered with {answer!r}")
        return answer

    def _answer(self, child: Child, question: Question) -> Answer:
        self._reading = None
        # If it is dead, that is told where its answer is waited for.
        with suppress(OSError):
            child.channel.send(question)
        try:
            # Each file has a time of its own.
            while child.channel.poll(self._timeout_s):
                answer: Answer | Reading = child.channel.receive()
                if not isinstance(answer, Reading):
                    return answer
                self._reading = answer.path
        except ProtocolError as error:
            raise BadInputError(
                f"{self._what()}: what llama.cpp tells of it cannot be read ({error}); "
                "check that the download is complete"
            ) from None
        except (EOFError, OSError):
            raise self._died(child) from None
        raise BadInputError(
            f"{self._what()}: llama.cpp did not come to an end with its header within "
            f"{self._timeout_s:g} s; check that the download is complete"
        )

    def _what(self) -> str:
        return "the memory plan" if self._reading is None else str(self._reading)

    def _died(self, child: Child) -> SpectuiError:
        end, words = child.end(), without_folder(child.last_words())
        # Of a header that makes llama.cpp ask for all there is, the file is to blame.
        has_signal = end.startswith("SIG")
        no_memory = child.words_of_no_memory()
        is_short = no_memory is not None and (self._reading is None or not has_signal)
        if is_short or end == "SIGKILL":
            return DoesNotFitError(
                f"{self._what()}: memory ended while it was planned ({no_memory or end}); close "
                "other programs"
            )
        if are_of_rpc(words):
            return SpectuiError(
                f"{self._what()}: an RPC server of --rpc {','.join(self.rpc)} went away "
                "meanwhile, or cannot be read; start it again"
            )
        if self._reading is None or not has_signal:
            return SpectuiError(
                f"{self._what()}: the process that plans ended with {end} (its last words: "
                f"{words}); check the GPU's driver, or hide the GPU with CUDA_VISIBLE_DEVICES=''"
            )
        return BadInputError(
            f"{self._what()}: llama.cpp could not make sense of it and ended with "
            f"{end} (its last words: {words}); "
            "check that the download is complete"
        )


def fitted(planner: Planner, request: PlanRequest, options: Fit | None) -> Fitted | None:
    """The choice of ``--fit`` for a request; None where there is nothing to choose.

    Beside an unusable draft it is what it would be without: who loads the draft says what is wrong.

    Raises:
        SpectuiError: as ``Planner.plan`` does, of the target.
    """
    if options is None or not devices_of(request.target.devices, planner.gpus()):
        return None
    target = replace(request.target, fit=replace(options, is_open=False))
    request = replace(request, target=target)
    try:
        return planner.fit(request)
    except (BadInputError, DoesNotFitError, UsageError):
        if alone(request) == request:
            raise
        return planner.fit(alone(request))
