"""The pseudo terminal of a page: what a program sees in it, and that it ends with it."""

import asyncio
import sys

from spectui.browser.pseudo_terminal import PseudoTerminal

PROGRAM = """
import os, signal
signal.signal(signal.SIGWINCH, lambda *_: None)
print("tty", all(os.isatty(n) for n in range(3)), *os.get_terminal_size(), flush=True)
while True:
    print("line", input(), *os.get_terminal_size(), flush=True)
"""
"""Tells its size, then answers each line that is typed with the size of that moment."""


async def _until(terminal: PseudoTerminal, word: str) -> str:
    seen = b""
    async for data in terminal.output():
        seen += data
        if word.encode() in seen:
            break
    return seen.decode()


def _run(program: str, *, ends: bool) -> str:
    async def use() -> str:
        command = (sys.executable, "-c", program)
        async with PseudoTerminal(command, width=90, height=0) as terminal:
            if ends:
                return await _until(terminal, "never")
            seen = await _until(terminal, "tty True 90 1")
            terminal.resize(120, 50_000)
            terminal.write(b"hello\n")
            return seen + await _until(terminal, "line hello 120 1000")

    return asyncio.run(use())


def test_a_program_sees_a_terminal_and_its_new_size() -> None:
    seen = _run(PROGRAM, ends=False)
    assert "tty True 90 1" in seen
    assert "line hello 120 1000" in seen


def test_what_a_program_draws_ends_with_it() -> None:
    assert _run("print('done')", ends=True).split() == ["done"]
