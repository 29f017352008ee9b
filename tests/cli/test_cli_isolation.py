"""A command whose models are in a process of their own, which ends while it measures."""

import json
import subprocess
from pathlib import Path

import psutil
import pytest

from tests.support.models import CLOSE_DRAFT, TARGET, TinyPath
from tests.support.program import said_until, servers_of, spawn

pytest_plugins = ["tests.support.fixtures"]
pytestmark = [pytest.mark.slow, pytest.mark.ci]


def arguments(tiny: TinyPath, tmp_path: Path) -> tuple[object, ...]:
    prompts = tmp_path / "prompts.jsonl"
    lines = [json.dumps({"id": f"p{n}", "prompt": f"abc {n}"}) for n in range(3)]
    prompts.write_text("\n".join(lines))
    return (
        *("-m", tiny(TARGET), "-md", tiny(CLOSE_DRAFT), "--prompts", prompts),
        *("-n", 5000, "-c", 6144, "-t", 1, "--seed", 1, "--json", "-"),
    )


def engine_of(program: subprocess.Popen[str]) -> psutil.Process:
    """The process with the models."""
    (found,) = [
        one for one in servers_of(program) if "spectui.engine.child" in " ".join(one.cmdline())
    ]
    return found


def test_a_search_goes_on_with_another_process(tiny: TinyPath, tmp_path: Path) -> None:
    program = spawn(tmp_path, "tune", *arguments(tiny, tmp_path), "--trials", 16)
    said_until(program, "trial 0")
    first = engine_of(program)
    said_until(program, "trial 1")
    before_s = first.cpu_times().user
    while first.cpu_times().user < before_s + 0.05:
        pass  # until it decodes for the next trial
    first.kill()
    out, err = program.communicate(timeout=240)
    assert program.returncode == 0, err
    trials = json.loads(out)["trials"]
    # What was being measured was begun again.
    assert {one["state"] for one in trials} == {"complete"}
    assert len(trials) == 16
    assert not first.is_running()
