"""Commands on a device that is too small: they fit, say so, and run."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.fit import server_chooses, small_devices
from tests.support.models import CLOSE_DRAFT, Tiny, TinyPath
from tests.support.rpc import RpcBuild

pytest_plugins = ["tests.support.fixtures"]
pytestmark = [pytest.mark.ci, pytest.mark.slow, pytest.mark.models]

DEVICE_BYTES = 13_000_000
CHOICE = "fitted to 13 MB on RPC0: 13 of 13 layers, experts of 3 in RAM"


def run(*arguments: object) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, *map(str, arguments)]
    ended = subprocess.run(
        command, env=os.environ, check=False, capture_output=True, text=True, timeout=250
    )
    assert ended.returncode == 0, ended.stderr
    return ended


def models(tiny: TinyPath, endpoint: str) -> tuple[object, ...]:
    target, draft = tiny(Tiny(n_layers=12, n_experts=8)), tiny(CLOSE_DRAFT)
    return "--rpc", endpoint, "-m", target, "-md", draft, "-fitt", "0", "-c", "1024", "-t", "1"


def test_a_command_whose_context_is_left_open_is_told_what_its_server_chooses(
    tiny: TinyPath, rpc: RpcBuild, tmp_path: Path
) -> None:
    path = tiny(Tiny(n_layers=12))
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text('{"id": "a", "category": "chat", "prompt": "hello"}\n')
    with small_devices(rpc, (14_000_000,)) as (endpoint,):
        arguments = ["-m", str(path), "-fitt", "0", "-t", "1", "--spec-type", "ngram-simple"]
        theirs = server_chooses(rpc.llama_server(tmp_path), arguments, (endpoint,), n_slots=2)
        command = f"llama-server --rpc {endpoint} {' '.join(arguments)} -np 2"
        measure = ("--prompts", prompts, "-n", "3")
        ended = run("-m", "spectui", "bench", "--from", command, *measure)
        given = run("-m", "spectui", "bench", "--from", command, "-c", "512", *measure)
    assert theirs.shortened_to
    n_layers = theirs.layers.count("RPC0")
    assert 0 < n_layers < 13
    said = (
        f"note: llama-server chooses a context of {theirs.shortened_to} tokens where -c is not "
        f"given, with {n_layers} of 13 layers; add -c {theirs.shortened_to} to measure that"
    )
    assert said in " ".join(ended.stderr.split())
    assert "chooses a context" not in given.stderr


def test_doctor_plans_what_was_fitted(tiny: TinyPath, rpc: RpcBuild) -> None:
    with small_devices(rpc, (DEVICE_BYTES,)) as (endpoint,):
        ended = run("-m", "spectui", "doctor", *models(tiny, endpoint), "--json", "-")
    document = json.loads(ended.stdout)
    assert CHOICE in [one["text"] for one in document["findings"]]
