"""The process in which plans are made: ``python -m spectui.llama.plan_child FD``.

It answers the questions that come over a connection, one after the other. What llama.cpp makes of a
broken header, an abort, all memory, or no end, happens here and not in the program that asks.
"""

import os
import resource
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from multiprocessing.connection import Connection

import psutil

from spectui.errors import SpectuiError
from spectui.llama.library import binding_version, gpu_memories, has_cuda, llama_cpp_version
from spectui.llama.plan import PlanMaker
from spectui.llama.planned import Answer, Ask, Backend, Question

HEADER_BYTES = 400 << 20
"""Limit for reading one header: several times the need of the largest vocabulary."""


def main() -> None:
    """Answer requests until the connection closes."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with Connection(int(sys.argv[1])) as connection, suppress(EOFError):
        question: Question = connection.recv()
        while question is Ask.ARE_YOU_THERE:
            connection.send(question)
            question = connection.recv()
        # Drivers start before memory is bounded: what they take is no header's fault.
        gpu_memories()
        # A recurrent state is allocated even for a plan. One that does not fit is said so.
        at_most = psutil.virtual_memory().available
        with _bounded(at_most), PlanMaker(reading=connection.send, bounded=_header) as maker:
            while True:
                connection.send(_answer(maker, question))
                question = connection.recv()


def _answer(maker: PlanMaker, question: Question) -> Answer:
    try:
        match question:
            case Ask.ARE_YOU_THERE:
                return question
            case Ask.BACKEND:
                return _backend()
            case Ask.OUTLINE:
                return maker.outline()
            case _:
                return maker.plan(question)
    except SpectuiError as error:
        return error


def _backend() -> Backend:
    return Backend(
        llama_cpp_python=binding_version(),
        llama_cpp=llama_cpp_version(),
        has_cuda=has_cuda(),
        gpus=gpu_memories(),
    )


def _end_with_parent() -> None:
    """Wait for the end of standard input, which the parent holds open as long as it lives."""
    os.read(0, 1)
    os._exit(0)


def _header() -> AbstractContextManager[None]:
    return _bounded(HEADER_BYTES)


@contextmanager
def _bounded(n_bytes: int) -> Iterator[None]:
    """Bound what this process takes on top of what it has."""
    before, hard = resource.getrlimit(resource.RLIMIT_DATA)
    bound = psutil.Process().memory_info().data + n_bytes
    bound = min(limit for limit in (bound, before, hard) if limit != resource.RLIM_INFINITY)
    resource.setrlimit(resource.RLIMIT_DATA, (bound, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (before, hard))


if __name__ == "__main__":
    main()
