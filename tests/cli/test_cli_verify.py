"""``spectui verify``: against the real llama-server on tiny models, and against scripted ones."""

import json
import signal
from pathlib import Path

import pytest

from tests.support.cli import Searched, Spectui
from tests.support.program import end, said_until, servers_of, spawn
from tests.support.scripted_server import write_server

pytest_plugins = ["tests.support.fixtures", "tests.support.cli_fixtures"]
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("no_process_is_left")]


@pytest.mark.server
def test_what_was_promised_is_delivered(
    study: Searched, spectui: Spectui, llama_server_binary: Path
) -> None:
    verify = ("verify", "mine", "--server-bin", llama_server_binary, "--json", "-")
    assert study.document["study"] == "mine"
    assert spectui(*verify) == 0, spectui.err
    found = json.loads(spectui.out)
    n_starts = spectui.err.count("starting llama-server")
    assert found["order"] == {"keeps_both": True, "n_starts": n_starts, "repeats": 1, "seed": 0}
    assert n_starts == 2
    delivered = found["delivered"]["speculative"]
    assert delivered["n_drafted"] >= delivered["n_accepted"] > 0
    low, high = found["delivered"]["speedup_ci95"]
    assert low < found["delivered"]["speedup"] < high
    assert found["agreement"] in {"holds", "less", "more", "open"}


def test_a_server_that_does_not_run_as_it_was_started_verifies_nothing(
    study: Searched, spectui: Spectui, tmp_path: Path
) -> None:
    assert study.document["study"] == "mine"
    binary = write_server(tmp_path / "llama-server", "drafts always")
    assert spectui("verify", "--server-bin", binary) == 5
    assert "the llama-server without speculation drafts as well" in spectui.err
    assert spectui.out == ""


@pytest.mark.ci
@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -signal.SIGKILL)],
)
def test_an_interrupt_shows_what_was_measured_and_leaves_no_server(
    home: Path, study: Searched, tmp_path: Path, *, number: signal.Signals, code: int
) -> None:
    assert study.document["study"] == "mine"
    binary = write_server(tmp_path / "llama-server", "hangs", n_good=3)
    process = spawn(home, "verify", "--server-bin", binary)
    said = said_until(process, "e: ")
    assert said[-1].startswith("e: 110 ms off, 88 ms on, "), said
    assert len(servers_of(process)) == 4, "two servers and their keepers"
    out, err = end(process, number)
    assert process.returncode == code
    if number != signal.SIGKILL:
        assert out.startswith("delivered: +25 %")
        assert "interrupted after 2 prompts of llama-server's" in err


def test_a_study_whose_prompts_are_gone_names_them(
    study: Searched, spectui: Spectui, tmp_path: Path
) -> None:
    binary = write_server(tmp_path / "llama-server")
    away = study.prompts.rename(study.prompts.with_name("away"))
    assert spectui("verify", "mine", "--server-bin", binary) == 3
    assert str(study.prompts) in spectui.err
    away.rename(study.prompts)
