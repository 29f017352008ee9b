"""Commands that people have: taken over, written back, and read by the real llama-server."""

import re
import socket
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from spectui.commands.finding import Severity
from spectui.commands.items import divide
from spectui.commands.launch import ExportSetup, translated
from spectui.commands.lint.checking import lint
from spectui.commands.reader import Reader
from spectui.commands.sources.reading import read_command
from spectui.commands.takeover import take_over
from spectui.options.option import Dialect
from spectui.options.setup import ModelOptions
from tests.support.commands import RealCommand, again, arguments_of, real_commands, setup_of
from tests.support.tables import table

pytest_plugins = ["tests.support.fixtures"]

COMMANDS = real_commands()
REAL = table("real", COMMANDS)

SETTLED = {"flash-attn"}
"""Options that are written out, whatever they were."""
MACHINE = re.compile(r"unknown buffer type|invalid device|RPC not supported|failed to find RPC")
"""What a machine without those GPUs says of arguments that were read."""
READ = re.compile(r"failed to load model")


def test_there_are_enough_of_them() -> None:
    assert len(COMMANDS) >= 60
    assert {real.dialect for real in COMMANDS} == set(Dialect)


@REAL
def test_what_it_says_is_taken_and_the_rest_is_kept(real: RealCommand, tmp_path: Path) -> None:
    taken = take_over(read_command(real.given(tmp_path)))
    for name, value in real.takes.items():
        assert " ".join(taken.options[name]) == value, name
    if real.keeps is not None:
        assert list(taken.extra) == real.keeps


@REAL
def test_its_export_means_the_same(real: RealCommand, tmp_path: Path) -> None:
    """In today's dialect; the golden files have the words of the others."""
    setup = setup_of(take_over(read_command(real.given(tmp_path))))
    taken, arguments = again(setup, Dialect.LLAMA_CPP)
    written, expected = setup_of(taken), replace(setup, extra=own_words(setup, arguments))
    assert all_layers(written) == all_layers(expected)
    assert again(written, Dialect.LLAMA_CPP)[0] == taken


def own_words(setup: ExportSetup, written: list[str]) -> tuple[str, ...]:
    """The user's own arguments as they are written."""
    n_others = len(list(divide(arguments_of(replace(setup, extra=())))))
    # What stands for the mode of loading is read back as that.
    own = (given for given in list(divide(written))[n_others:] if given.name != "no-mmap")
    return tuple(word for given in own for word in given.words)


def reader_of(real: RealCommand) -> Reader:
    """Today's server of its own dialect."""
    return Reader(dialect=Dialect.IK if real.dialect is Dialect.IK else Dialect.LLAMA_CPP)


@REAL
def test_its_rewriting_has_no_errors(real: RealCommand, tmp_path: Path) -> None:
    reader = reader_of(real)
    launch = translated(read_command(real.given(tmp_path)), reader)
    again = read_command(launch.command.text)
    assert again.arguments == launch.command.arguments
    found = [one for one in lint(again, reader) if one.severity is Severity.ERROR]
    assert [one.what for one in found if reader.takes(one.flag) is False] == []


@REAL
def test_its_rewriting_keeps_every_word_that_is_taken(real: RealCommand, tmp_path: Path) -> None:
    command, reader = read_command(real.given(tmp_path)), reader_of(real)
    own = [replace(item, variable=None) for item in command.items]
    launch = translated(command, reader)
    written = [item for item in launch.command.items if item.name not in SETTLED]
    given = [item for item in own if item.name not in SETTLED]
    kept = [one for one in given if one in written]
    assert [one for one in written if one in kept] == kept
    lost = [one for one in given if one not in written and len(one.words) == 1 + len(one.values)]
    assert [one.flag for one in lost if reader.takes(one.flag)] == []


def all_layers(setup: ExportSetup) -> ExportSetup:
    """999 layers are all that there are, which is how older builds have to be told."""
    target, draft = setup.target, setup.used_draft
    return replace(setup, target=unbounded(target), draft=draft and unbounded(draft))


def unbounded(model: ModelOptions) -> ModelOptions:
    every = -1 if model.n_gpu_layers == 999 else model.n_gpu_layers
    return replace(model, n_gpu_layers=every)


@pytest.mark.server
@table(
    "real",
    [real for real in COMMANDS if real.dialect is Dialect.LLAMA_CPP],
)
def test_the_real_server_reads_its_export(
    real: RealCommand, tmp_path: Path, llama_server_binary: Path
) -> None:
    setup = setup_of(take_over(read_command(real.given(tmp_path))))
    _taken, arguments = again(setup, Dialect.LLAMA_CPP)
    said = asked(llama_server_binary, arguments, tmp_path)
    if MACHINE.search(said) is None:
        assert READ.search(said), said


def asked(binary: Path, arguments: list[str], folder: Path) -> str:
    """What it says of arguments whose model does not exist: it reads them all, and ends."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ended = subprocess.run(
        [binary, *arguments, "--host", "127.0.0.1", "--port", str(port)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=folder,
        env={"HOME": str(folder)},
        timeout=60,
        check=False,
    )
    return ended.stdout.decode(errors="replace")
