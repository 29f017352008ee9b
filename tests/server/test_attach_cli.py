"""``spectui attach`` in scripts, and how it fails."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.attached import (
    METRICS,
    PROPS,
    SLOTS,
    Handler,
    Script,
    metrics_text,
    page,
    serving,
)
from tests.support.cli import Spectui
from tests.support.terminal import Terminal

pytest_plugins = ["tests.support.cli_fixtures"]
pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SPECTUI_API_KEY", "LLAMA_API_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def script() -> Iterator[Script]:
    with serving() as script:
        yield script


def document(spectui: Spectui) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(spectui.out)
    return found


def test_a_document_of_a_server_on_this_machine_has_its_process(
    spectui: Spectui, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spectui.server.watch.locator.runs_llama", lambda _process: True)
    assert spectui("attach", script.address, "--interval", "0", "--json", "-") == 0
    machine = document(spectui)["machine"]
    assert machine["is_this_machine"] is True
    assert machine["process"]["pid"] == os.getpid()


def test_two_looks_tell_a_rate(spectui: Spectui, script: Script) -> None:
    def slots(handler: Handler) -> None:
        n = 100 + 50 * script.asked.count("/slots")
        now = {**SLOTS[0], "next_token": [{"n_decoded": n}]}
        page([now])(handler)

    script.plays["/slots"] = slots
    assert spectui("attach", script.address, "--interval", "0.1", "--json", "-") == 0
    found = document(spectui)
    assert 0 < found["throughput"]["tokens_per_s"] <= 500
    assert found["slots"][0]["tokens_per_s"] == found["throughput"]["tokens_per_s"]


def test_the_key_comes_from_the_environment(
    spectui: Spectui, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    script.api_key = "sesame"
    for name in ("LLAMA_API_KEY", "SPECTUI_API_KEY"):
        # That of another server, at the second time.
        monkeypatch.setenv("LLAMA_API_KEY", "another")
        monkeypatch.setenv(name, " sesame\n")
        assert spectui("attach", script.address, "--interval", "0", "--json", "-") == 0


def test_a_key_that_no_header_can_carry(
    spectui: Spectui, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLAMA_API_KEY", "gehe\nim")
    assert spectui("attach", script.address, "--json", "-") == 2
    assert "LLAMA_API_KEY is no API key" in spectui.err
    assert "im" not in spectui.err.split()


def test_wrong_usage(spectui: Spectui) -> None:
    for arguments, words in (
        (("localhost:1", "--interval", "0.01"), "is too short"),
        (("localhost:1", "--interval", "nan"), "is no finite number"),
    ):
        assert spectui("attach", *arguments) == 2
        assert words in " ".join(spectui.err.split())


def test_the_screen_needs_a_terminal(
    spectui: Spectui, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spectui.cli.guard.in_child", lambda: False)
    assert spectui("attach", script.address) == 2
    assert "or give --json - in scripts" in spectui.err


def test_the_screen_in_a_terminal(script: Script, tmp_path: Path) -> None:
    script.plays["/metrics"] = page(metrics_text({**METRICS, "requests_deferred": 3}))
    with Terminal(["attach", script.address], tmp_path) as terminal:
        # Drawn once, before or after the line that says that it is connected.
        terminal.see("3 waiting")
        terminal.press("\x11")
        terminal.assert_restored(terminal.end())
        assert terminal.exit_code == 0


def test_a_router_is_refused(spectui: Spectui, script: Script) -> None:
    script.plays["/props"] = page({**PROPS, "role": "router"})
    assert spectui("attach", script.address, "--interval", "0", "--json", "-") == 5
    assert f"error: http://{script.address} is a router" in spectui.err
    assert "give the address of a server that runs the model itself" in spectui.err
    assert spectui.out == ""
