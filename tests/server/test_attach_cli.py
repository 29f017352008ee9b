"""``spectui attach`` in scripts, and how it fails."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pynvml
import pytest

from spectui.cli import running_server
from spectui.cli.running_server import unlocked
from spectui.server.address import parse_address
from spectui.server.watch.poller import Attachment
from tests.support.attached import (
    METRICS,
    PROPS,
    SLOTS,
    Handler,
    Play,
    Script,
    error,
    metrics_text,
    page,
    serving,
)
from tests.support.cli import Spectui
from tests.support.nvml import StandIn
from tests.support.terminal import Terminal

pytest_plugins = ["tests.support.cli_fixtures", "tests.support.nvml_fixtures"]
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


def test_a_document_of_a_server_on_this_machine_has_what_is_known_of_each_gpu(
    spectui: Spectui, script: Script, monkeypatch: pytest.MonkeyPatch, nvml: StandIn
) -> None:
    monkeypatch.setattr("spectui.server.watch.locator.runs_llama", lambda _process: True)
    nvml.add_gpu(throttle_reasons=pynvml.nvmlClocksThrottleReasonHwThermalSlowdown)
    nvml.rule("nvmlDeviceGetPowerUsage", code=pynvml.NVML_ERROR_NOT_SUPPORTED)
    assert spectui("attach", script.address, "--interval", "0", "--json", "-") == 0
    machine = document(spectui)["machine"]
    assert machine["is_this_machine"] is True
    assert machine["memory"]["total_bytes"] > 0
    gpu = machine["gpus"][0]
    assert (gpu["name"], gpu["source"]) == ("Stand-in 0", "nvml")
    assert gpu["pci_address"] == "0000:01:00.0"
    assert (gpu["clock_hz"], gpu["memory_clock_hz"]) == (2.52e9, 9.751e9)
    assert gpu["throttled_by"] == ["heat"]
    assert (gpu["power_w"], gpu["power_w_reason"]) == (None, "the driver does not report power")


def test_two_looks_tell_a_rate(spectui: Spectui, script: Script) -> None:
    def slots(handler: Handler) -> None:
        n = 100 + 50 * script.asked.count("/slots")
        now = {**SLOTS[0], "next_token": [{"n_decoded": n, "n_remain": 5}]}
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


def test_the_key_is_asked_for_until_it_fits(
    script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not running_server.can_ask()
    script.api_key = "sesame"
    typed = iter(["wrong", "sesame"])
    reasons: list[str] = []

    def ask(reason: str) -> str:
        reasons.append(reason)
        return next(typed)

    monkeypatch.setattr("spectui.cli.running_server.can_ask", lambda: True)
    monkeypatch.setattr("spectui.cli.running_server.ask_for_api_key", ask)
    wanted = unlocked(Attachment(address=parse_address(script.address)))
    assert wanted.api_key == "sesame"
    assert [reason.split(" ", 1)[1] for reason in reasons] == [
        "wants an API key",
        "refuses the API key that it was given",
    ]


def test_wrong_usage(spectui: Spectui) -> None:
    for arguments, words in (
        (("localhost:1", "--interval", "0.01"), "is too short"),
        (("localhost:1", "--json", "-", "--theme", "x"), "--theme is for the screen"),
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
        terminal.see("3 requests waiting")
        terminal.press("q")
        terminal.assert_restored(terminal.end())
        assert terminal.exit_code == 0


def test_the_key_is_typed_unseen(script: Script, tmp_path: Path) -> None:
    script.api_key = "sesame"
    with Terminal(["attach", script.address], tmp_path) as terminal:
        terminal.see("API key (it is not shown): ")
        terminal.press("sesame\n")
        terminal.see("Qwen3-8B")
        terminal.press("\x03")
        written = terminal.end()
        terminal.assert_restored(written)
        assert "sesame" not in written


def listed(*names: str, loaded: int = 0) -> Play:
    states = ["loaded"] * loaded + ["unloaded"] * (len(names) - loaded)
    data = [{"id": n, "status": {"value": s}} for n, s in zip(names, states, strict=True)]
    return page({"data": data})


def test_of_a_router_a_model_has_to_be_chosen(spectui: Spectui, script: Script) -> None:
    script.plays["/props"] = page({**PROPS, "role": "router"})
    for models, told in (
        (listed("qwen", "gemma", loaded=1), "with --model: qwen (loaded), gemma\n"),
        (listed(*map(str, range(15))), "--model: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 3"),
        (listed(), "with --model: it lists none\n"),
        (error(500, "out of order"), "it does not list them: /v1/models was answered with"),
    ):
        script.plays["/v1/models"] = models
        for options in (("--interval", "0", "--json", "-"), ()):
            assert spectui("attach", script.address, *options) == 2
            assert f"error: http://{script.address} is a router" in spectui.err
            assert told in spectui.err
            assert spectui.out == ""


def test_a_model_of_a_router_is_shown(spectui: Spectui, script: Script) -> None:
    script.plays["/v1/models"] = listed("qwen", "gemma", loaded=1)
    assert spectui("attach", script.address, "--interval", 0, "--json", "-", "--model", "qwen") == 0
    assert "Qwen3-8B" in spectui.out
