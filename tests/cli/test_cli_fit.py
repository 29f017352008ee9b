"""Commands on a device that is too small: they fit, say so, and run."""

import json
import os
import subprocess
import sys

import pytest

from tests.support.fit import small_devices
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


def test_doctor_plans_what_was_fitted(tiny: TinyPath, rpc: RpcBuild) -> None:
    with small_devices(rpc, (DEVICE_BYTES,)) as (endpoint,):
        ended = run("-m", "spectui", "doctor", *models(tiny, endpoint), "--json", "-")
    document = json.loads(ended.stdout)
    assert CHOICE in [one["text"] for one in document["findings"]]
