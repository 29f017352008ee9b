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


def test_a_program_sees_a_terminal_and_its_new_size_and_what_it_draws_ends_with_it() -> None:
    async def until(terminal: PseudoTerminal, word: str) -> str:
        seen = ""
        async for data in terminal.output():
            seen += data.decode()
            if word in seen:
                break
        return seen

    async def use() -> None:
        command = (sys.executable, "-c", PROGRAM)
        async with PseudoTerminal(command, width=90, height=0) as terminal:
            assert "tty True 90 1" in await until(terminal, "tty True 90 1")
            terminal.resize(120, 50_000)
            terminal.write(b"hello\n")
            assert "line hello 120 1000" in await until(terminal, "line hello 120 1000")
        command = (sys.executable, "-c", "print('done')")
        async with PseudoTerminal(command, width=90, height=24) as terminal:
            assert (await until(terminal, "never")).split() == ["done"]

    asyncio.run(use())
