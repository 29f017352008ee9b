"""Exported commands, read by the real shell and the real llama-server."""

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from spectui.commands.command import Start
from spectui.commands.formats import Format, render
from spectui.options.option import Dialect
from spectui.server.process import LlamaServer
from tests.support.architectures import write_qwen35
from tests.support.beside_server import told
from tests.support.commands import arguments_of
from tests.support.configurations import VERBOSE, Files, random_setup, unconfirmed
from tests.support.models import CLOSE_DRAFT, MOE, TARGET, TinyPath

pytest_plugins = ["tests.support.fixtures"]
pytestmark = pytest.mark.server

N_READ = 300
N_RUN = 120
"""Of those, the ones that the real server reads."""
N_STARTED = 8
_TIMEOUT_S = 60
_HOSTILE = 'a\'; rm -rf ~ #\n"$HOME" `id` 模'


def absent(folder: Path, name: str = _HOSTILE) -> Files:
    """Models that are not there, so that a server ends once it has read its arguments."""
    return Files(
        target=folder / f"{name}.gguf",
        draft=folder / f"-draft {name}.gguf",
        mtp=folder / f"mtp {name}.gguf",
    )


def run(script: str, folder: Path, *arguments: object) -> "subprocess.CompletedProcess[str]":
    """Let a real shell read a script."""
    return subprocess.run(
        ["bash", "-c", script, "bash", *map(str, arguments)],
        cwd=folder,
        check=False,
        capture_output=True,
        timeout=_TIMEOUT_S,
        # It listens before it looks for its model: any port that is free.
        env={**os.environ, "LLAMA_ARG_PORT": "0"},
        text=True,
        errors="replace",
    )


def refusal(done: "subprocess.CompletedProcess[str]", target: Path) -> str | None:
    """What a server says against its arguments; None if all that it lacks is the model."""
    output = done.stdout + done.stderr
    read = f"load_model: failed to load model, '{target}'" in output
    if done.returncode == 1 and read and "DEPRECATED" not in output and "error:" not in output:
        return None
    return f"exit code {done.returncode}: {output[-2000:]}"


def test_the_real_server_takes_every_command(llama_server_binary: Path, tmp_path: Path) -> None:
    refused = []
    for seed in range(N_RUN):
        setup = random_setup(seed, absent(tmp_path))
        setup = replace(setup, start=Start(program=(str(llama_server_binary),)))
        text = render(setup.launch(Dialect.LLAMA_CPP), Format.LLAMA_SERVER)
        (tmp_path / "FILE").write_text(text, "utf-8")
        told = refusal(run(". ./FILE", tmp_path), setup.target.path)
        if told is not None:
            refused.append(f"{seed}: {told}")
    assert refused == []


@pytest.mark.ci
def test_the_real_server_confirms_every_value(
    llama_server_binary: Path, tiny: TinyPath, tmp_path: Path
) -> None:
    folder = tmp_path / "it's a $HOME; rm -rf ~ #模"
    folder.mkdir()
    files = Files(target=folder / "moe.gguf", draft=folder / "-draft.gguf", mtp=folder / "mtp.gguf")
    files.target.symlink_to(tiny(MOE))
    files.draft.symlink_to(tiny(CLOSE_DRAFT))
    write_qwen35(TARGET, files.mtp)
    wrong, log = [], tmp_path / "log"
    for seed in range(N_READ, N_READ + N_STARTED):
        setup = random_setup(seed, files)
        arguments = [*arguments_of(setup), *VERBOSE]
        with LlamaServer(llama_server_binary, arguments, log_path=log) as server:
            model = told(server, "/props")["model_path"]
        assert model == str(setup.target.path)
        said = server.printed
        other = replace(setup.context, ctx_size=setup.context.ctx_size + 256)
        assert unconfirmed(replace(setup, context=other), said)
        wrong += [f"{seed}: {line}" for line in unconfirmed(setup, said)]
    assert wrong == []
