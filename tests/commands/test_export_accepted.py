"""Exported commands, read by the real shell and the real llama-server."""

import os
import shlex
import subprocess
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from spectui.commands.formats import Format, render
from spectui.commands.launch import ExportSetup
from spectui.errors import BadInputError
from spectui.options.dialect import Dialect
from spectui.options.setup import CpuOptions
from spectui.options.speculation import Speculation
from spectui.server.process import LlamaServer
from tests.support.architectures import write_qwen35
from tests.support.beside_server import told
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


def in_variables(setup: ExportSetup) -> ExportSetup:
    """The same without what llama-server reads from no variable."""
    speculation, draft = setup.speculation, setup.draft
    is_ngram = speculation is not None and speculation.model is None
    return replace(
        setup,
        target=replace(setup.target, override_kv=()),
        draft=None if draft is None else replace(draft, override_tensor=()),
        context=replace(setup.context, threads_batch=0, cpu=CpuOptions()),
        speculation=None if speculation is None or is_ngram else Speculation(speculation.own),
        extra=tuple(word for word in setup.extra if word in {"--jinja", "--no-webui"}),
    )


def read_as(setup: ExportSetup, wanted: Format, folder: Path) -> tuple[Format, str]:
    """What a shell is given for a format; for the command where the format cannot hold it."""
    try:
        text = render(setup.launch(Dialect.LLAMA_CPP), wanted)
    except BadInputError:
        wanted, text = (
            Format.LLAMA_SERVER,
            render(setup.launch(Dialect.LLAMA_CPP), Format.LLAMA_SERVER),
        )
    (folder / "FILE").write_text(text, "utf-8")
    if wanted is Format.ENV:
        lines = [line for line in text.splitlines() if line.startswith("# set -a;")]
        return wanted, lines[0].removeprefix("# ")
    if wanted is Format.ARGS:
        start = f'exec {shlex.join(setup.start.running(setup.program).program)} "${{arguments[@]}}"'
        return wanted, f"mapfile -t arguments < FILE; {start}"
    return wanted, ". ./FILE"


def test_the_real_server_takes_every_command(llama_server_binary: Path, tmp_path: Path) -> None:
    formats = (Format.LLAMA_SERVER, Format.ARGS, Format.ENV)
    refused, tried = [], Counter[Format]()
    for seed in range(N_RUN):
        wanted = formats[seed % len(formats)]
        # A file of lines holds no line end.
        name = _HOSTILE.replace("\n", " ") if wanted is Format.ARGS else _HOSTILE
        setup = random_setup(seed, absent(tmp_path, name))
        setup = replace(setup, program=str(llama_server_binary))
        if wanted is Format.ENV:
            setup = in_variables(setup)
        format_, script = read_as(setup, wanted, tmp_path)
        told = refusal(run(script, tmp_path), setup.target.path)
        tried[format_] += 1
        if told is not None:
            refused.append(f"{seed} as {format_}: {told}")
    assert refused == []
    assert tried.keys() == set(formats)
    assert min(tried.values()) >= N_RUN // 10


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
        arguments = [*setup.arguments(Dialect.LLAMA_CPP), *VERBOSE]
        with LlamaServer(llama_server_binary, arguments, log_path=log) as server:
            model = told(server, "/props")["model_path"]
        assert model == str(setup.target.path)
        said = server.printed
        other = replace(setup.context, ctx_size=setup.context.ctx_size + 256)
        assert unconfirmed(replace(setup, context=other), said)
        wrong += [f"{seed}: {line}" for line in unconfirmed(setup, said)]
    assert wrong == []
