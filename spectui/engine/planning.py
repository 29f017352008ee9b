"""Memory plans from a child process, so that a broken header cannot crash or bloat this one.

The same child places a target as llama-server's ``--fit`` would, before this process loads it.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar, get_args

from spectui.children import Child, ProtocolError
from spectui.closing import Closing
from spectui.engine.demand import FreeMemory, free_memory
from spectui.engine.fitting import alone
from spectui.errors import BadInputError, DoesNotFitError, SpectuiError, UsageError
from spectui.llama.buffers import DeviceMemory, devices_of
from spectui.llama.devices import has_gpu
from spectui.llama.library import library_variables
from spectui.llama.planned import (
    Answer,
    Backend,
    BackendRequest,
    FitRequest,
    Fitted,
    Plan,
    PlanRequest,
    Question,
    Refused,
    beside,
    is_lost_rpc_server,
)
from spectui.options.setup import Fit, ModelOptions, Setup

TIMEOUT_S = 60.0
"""Limit for a plan, which takes a second on a free machine, and for the child's start."""

T = TypeVar("T")


class Planner(Closing):
    """Makes plans in a child process that runs ``spectui.llama.plan``.

    The child is started anew if a header ends it. Not thread-safe. Close the planner, or use it as
    a context manager, to end the child.
    """

    def __init__(self, *, timeout_s: float = TIMEOUT_S, rpc: Sequence[str] = ()) -> None:
        """Start the process, which is ready by the time of the first question.

        Args:
            timeout_s: when an answer has not come by then, its files are called unusable.
            rpc: ``HOST:PORT`` of RPC servers whose devices there are.
        """
        self._timeout_s = timeout_s
        self.rpc = tuple(rpc)
        self._child: Child | None = self._started()

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
            BadInputError: a file is no model that generates, llama.cpp could not make sense of a
                header and died or hung, or it has no MTP layers that could draft for the target;
                the target's error comes first.
            DoesNotFitError: a recurrent state, which even a plan allocates, does not fit, or the
                kernel has ended the child because there is no memory.
            UsageError: an option that cannot be.
            SpectuiError: an RPC server went away.
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
        return Child("spectui.llama.plan", get_args(Answer), self.rpc, library_variables())

    def _ask(self, question: Question, kind: type[T]) -> T:
        """Put a question, and wait for its answer.

        Raises:
            SpectuiError: as ``plan``, or the question's own error.
        """
        child = self._child = self._child or self._started()
        try:
            answer = self._answer(child, question)
        except BaseException:
            # It is dead, hangs, or works on a plan that is no longer needed.
            self.close()
            raise
        if isinstance(answer, Refused):
            raise answer.error
        if not isinstance(answer, kind):
            raise TypeError(f"the planner answered with {answer!r}")
        return answer

    def _answer(self, child: Child, question: Question) -> Answer:
        # A dead child is reported where its answer is awaited.
        with suppress(OSError):
            child.channel.send(question)
        asked = question.request if isinstance(question, FitRequest) else question
        what = "this machine" if isinstance(asked, BackendRequest) else asked.names
        try:
            if child.channel.poll(self._timeout_s):
                answer: Answer = child.channel.receive()
                return answer
        except ProtocolError as error:
            raise BadInputError(
                f"{what}: llama.cpp's description of it cannot be read ({error}); check that the "
                "download is complete"
            ) from None
        except (EOFError, OSError):
            raise self._died(child, what) from None
        raise BadInputError(
            f"{what}: llama.cpp did not come to an end with the header within "
            f"{self._timeout_s:g} s; check that the download is complete"
        )

    def _died(self, child: Child, what: str) -> SpectuiError:
        end, words = child.end(), child.last_words()
        no_memory = child.out_of_memory_line()
        if no_memory is not None or end == "SIGKILL":
            return DoesNotFitError(
                f"{what}: memory ran out while it was planned ({no_memory or end}); close other "
                "programs"
            )
        if is_lost_rpc_server(words):
            return SpectuiError(
                f"{what}: an RPC server of --rpc {','.join(self.rpc)} went away meanwhile, or "
                "cannot be read; start it again"
            )
        return BadInputError(
            f"{what}: llama.cpp could not make sense of it and ended with {end} (its last words: "
            f"{words}); check that the download is complete and the GPU's driver works, or hide "
            "the GPU with CUDA_VISIBLE_DEVICES=''"
        )


def fitted(planner: Planner, request: PlanRequest, options: Fit | None) -> Fitted | None:
    """The choice of ``--fit`` for a request; None where there is nothing to choose.

    An unusable draft is ignored: loading it reports what is wrong.

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
        say: called with a sentence on the choice, unless everything lies on devices.

    Returns:
        The setup itself where nothing may be chosen, or there is no device.

    Raises:
        SpectuiError: as ``Planner.plan`` does.
    """
    if options is None or not has_devices(setup.target):
        return setup
    with Planner(rpc=setup.target.devices.rpc) as planner:
        found = fitted(planner, PlanRequest.of(setup), options)
    if found is None:
        return setup
    if found.sentence is not None:
        say(found.sentence)
    draft = None if setup.draft is None else beside(found.target, setup.draft)
    return replace(setup, target=found.target, draft=draft)


def has_devices(target: ModelOptions) -> bool:
    """Whether a target may lie on a device beside the processor."""
    return target.devices.names != () and bool(target.devices.rpc or has_gpu())
