"""``spectui verify``: against the real llama-server on tiny models, and against scripted ones."""

import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.binaries import write_script
from tests.support.cli import Run, Searched, Spectui, assert_failed
from tests.support.models import CLOSE_DRAFT, TARGET, TinyPath
from tests.support.program import end, said_until, servers_of, spawn
from tests.support.scripted_server import MISSTARTED, write_server

pytest_plugins = ["tests.support.fixtures", "tests.support.cli_fixtures"]
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("no_process_is_left")]

N_PROMPTS = 6


@pytest.fixture
def verify(run: Run) -> "Verify":
    return Verify(run)


class Verify:
    """Verifies a tiny pair."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def __call__(self, binary: Path, *more: object) -> int:
        return self._run("verify", "--server-bin", binary, *more)

    def document(self, binary: Path, *more: object) -> dict[str, Any]:
        return self._run.document("verify", "--server-bin", binary, *more)


ALONE = ("--no-promise",)


@pytest.mark.server
@pytest.mark.parametrize(
    ("turns", "temp"),
    [("--keep-both", 0.8), pytest.param("--one-at-a-time", 0, marks=pytest.mark.ci)],
)
def test_a_setting_is_promised_and_delivered(
    verify: Verify, spectui: Spectui, llama_server_binary: Path, turns: str, temp: float
) -> None:
    setting = ("--draft-max", 4, "--repeats", 2, "--temp", temp)
    found = verify.document(llama_server_binary, turns, *setting)
    assert found["schema"] == "spectui.verify/1"
    assert found["order"] == {
        "keeps_both": turns == "--keep-both",
        "n_starts": 2 if turns == "--keep-both" else spectui.err.count("starting llama-server"),
        "repeats": 2,
        "seed": 0,
    }
    promised, delivered = found["promised"], found["delivered"]
    assert isinstance(promised, dict)
    assert isinstance(delivered, dict)
    for name in ("n_tokens", "n_drafted", "n_accepted", "acceptance_rate"):
        assert promised["speculative"][name] == delivered["speculative"][name]
    assert delivered["speculative"]["n_drafted"] > delivered["speculative"]["n_accepted"] > 0
    assert delivered["speedup_ci95"][0] < delivered["speedup"] < delivered["speedup_ci95"][1]
    assert found["agreement"] in {"holds", "less", "more", "open"}
    n_starts = spectui.err.count("starting llama-server")
    assert "two llama-servers" in spectui.err or f"at a time: {n_starts} starts" in spectui.err


@pytest.mark.server
def test_a_drafter_that_remembers_is_not_asked_twice(
    verify: Verify, spectui: Spectui, llama_server_binary: Path
) -> None:
    drafter = ("--spec-type", "ngram-mod,draft-simple", "--spec-ngram-mod-n-match", 2)
    lengths = ("--spec-ngram-mod-n-min", 0, "--spec-ngram-mod-n-max", 8)
    found = verify.document(
        llama_server_binary, *drafter, *lengths, *ALONE, "--keep-both", "--repeats", 2
    )
    rows: Any = found["prompts"]
    counts = [(row["id"], row["n_drafted"], row["n_accepted"]) for row in rows]
    assert counts[:N_PROMPTS] == counts[N_PROMPTS:]
    assert sum(n_drafted for _, n_drafted, _ in counts) > 0
    assert spectui.err.count("starting llama-server with speculation") == 2


@pytest.mark.server
def test_what_tune_found_is_verified(
    study: Searched, spectui: Spectui, llama_server_binary: Path
) -> None:
    assert spectui("verify", "--server-bin", llama_server_binary, "--json", "-") == 0, spectui.err
    found, best = json.loads(spectui.out), study.document["best"]
    assert found["promised"]["study"] == "mine"
    assert found["promised"]["speedup"] == best["speedup"]
    assert found["promised"]["speedup_ci95"] == best["speedup_ci95"]
    assert found["config"]["draft_max"] == best["params"]["draft_max"]
    assert len(found["prompts"]) == N_PROMPTS
    away = study.prompts.rename(study.prompts.with_name("away"))
    assert spectui("verify", "mine", "--server-bin", llama_server_binary) == 3
    assert str(study.prompts) in spectui.err
    away.rename(study.prompts)


@pytest.mark.server
def test_an_existing_command_is_verified_with_its_own_arguments(
    spectui: Spectui, prompts: Path, tiny: TinyPath, llama_server_binary: Path
) -> None:
    line = (
        f"LLAMA_ARG_CTX_SIZE=256 llama-server -m {tiny(TARGET)} -md {tiny(CLOSE_DRAFT)} -t 1 "
        "--spec-type draft-simple --spec-draft-n-max 5 --no-warmup --port 9 --api-key secret -np 3"
    )
    command = ["verify", "--from", line, "--prompts", prompts, "-n", 12, "--json", "-"]
    assert spectui(*command, "--server-bin", llama_server_binary) == 0, spectui.err
    arguments = json.loads(spectui.out)["server"]["arguments"]
    for side in ("off", "on"):
        assert "--no-warmup" in arguments[side]
        assert not {"secret", "--port"} & set(arguments[side])
        assert arguments[side][-4:] == ["-np", "1", "--cache-ram", "0"]
    assert "--spec-type" not in arguments["off"]
    at = arguments["on"].index("--spec-draft-n-max")
    assert arguments["on"][at + 1] == "5"


def test_a_server_that_does_not_run_as_it_was_started_verifies_nothing(
    verify: Verify, spectui: Spectui, tmp_path: Path
) -> None:
    for manner, told in MISSTARTED.items():
        assert verify(write_server(tmp_path / "llama-server", manner), *ALONE) == 5
        assert told in spectui.err
        assert spectui.out == ""


def test_the_models_are_loaded_for_the_promise_alone(
    verify: Verify, spectui: Spectui, tmp_path: Path
) -> None:
    binary = write_server(tmp_path / "llama-server")
    assert verify(binary, *ALONE, "--verbose") == 0, spectui.err
    assert "in-process" not in spectui.err
    assert "loading" not in spectui.err


@pytest.mark.parametrize(
    ("manner", "n_good", "shown", "message"),
    [
        ("is killed", 3, 2, "ended with signal SIGKILL"),
        pytest.param("never ready", 0, 0, "was not ready after 1 s, and", marks=pytest.mark.ci),
    ],
)
def test_a_server_that_fails_is_an_error_with_its_last_words(
    verify: Verify,
    spectui: Spectui,
    tmp_path: Path,
    *,
    manner: str,
    n_good: int,
    shown: int,
    message: str,
) -> None:
    binary = write_server(tmp_path / "llama-server", manner, n_good=n_good)
    out = tmp_path / "verify.json"
    patience = ("--timeout", "1s") if manner == "never ready" else ()
    options = (*ALONE, "--keep-both", *patience, "--json", out)
    assert verify(binary, *options) == 5, spectui.err
    assert_failed(spectui, out, message=message, shown=shown)


def test_what_is_no_llama_server_is_refused_before_anything_is_measured(
    verify: Verify, spectui: Spectui, tmp_path: Path
) -> None:
    for source, message in (
        ("#!/bin/sh\necho llama-bench 1.0\n", "is no llama-server"),
        (f"#!{sys.executable} -S\nprint('\\x00\\xff' * 99)\n", "is no llama-server"),
        (f"#!{sys.executable} -S\nimport os; os.abort()\n", "ended with signal SIGABRT"),
    ):
        assert verify(write_script(tmp_path / "llama-server", source)) == 5
        assert message in spectui.err
        assert "measuring" not in spectui.err


@pytest.mark.ci
@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -signal.SIGKILL)],
)
def test_an_interrupt_shows_what_was_measured_and_leaves_no_server(
    home: Path,
    pair: list[object],
    prompts: Path,
    tmp_path: Path,
    *,
    number: signal.Signals,
    code: int,
) -> None:
    binary = write_server(tmp_path / "llama-server", "hangs", n_good=3)
    options = [*pair, "--prompts", prompts, *ALONE, "--keep-both", "--server-bin", binary]
    process = spawn(home, "verify", *options)
    said = said_until(process, "b: ")
    assert said[-1].startswith("b: off 100.0, on 125.0 tokens/s"), said
    assert len(servers_of(process)) == 4, "two servers and their keepers"
    out, err = end(process, number)
    assert process.returncode == code
    if number != signal.SIGKILL:
        assert out.startswith("delivered: +25 %")
        assert "interrupted after 2 prompts of llama-server's" in err


TUNED = ("--spec-type", "draft-simple", "--trials", 2, "--quiet", "--json", "-")


def test_tune_prefers_the_ranking_of_the_server(
    spectui: Spectui, pair: list[object], tmp_path: Path
) -> None:
    binary, prompts = write_server(tmp_path / "llama-server"), tmp_path / "many.jsonl"
    # Servers may turn on only what they ran on prompts that did not choose it.
    texts = ("".join(chr(ord("a") + (n + step) % 16) for step in range(4)) for n in range(16))
    prompts.write_text(
        "\n".join(json.dumps({"id": text, "prompt": f"the {text}"}) for text in texts)
    )
    options = ["--prompts", prompts, "--study", "mine", "--server-bin", binary]
    assert spectui("tune", *pair, *options, *TUNED) == 0, spectui.err
    found = json.loads(spectui.out)
    # Whatever was measured of so small a target in-process.
    assert found["verdict"]["use_speculation"] is True
    assert "--spec-type" in found["flags"]
    assert found["served"][0]["delivered"]["speedup"] == pytest.approx(1.25)
    assert spectui("export", "mine") == 0
    assert "--spec-type" in spectui.out


def test_noise_of_the_server_overturns_nothing(
    spectui: Spectui, pair: list[object], prompts: Path, tmp_path: Path
) -> None:
    binary, path = write_server(tmp_path / "llama-server", "drafts nothing"), tmp_path / "t.json"
    options = ["--prompts", prompts, "--study", "mine", "--server-bin", binary]
    assert spectui("tune", *pair, *options, *TUNED[:-1], path) == 0, spectui.err
    found = json.loads(path.read_text())
    assert "llama-server" not in found["verdict"]["reason"]
    delivered = found["served"][0]["delivered"]
    assert delivered["speedup"] == pytest.approx(1.25)
    assert (delivered["speedup_at_most"], delivered["speedup_is_noise"]) == (1, True)
    assert found["served"][0]["agreement"] == "open"
    told = " ".join(spectui.out.split())
    assert "no token was accepted that could give a gain" in told
    assert "NOTE: such a number ranks nothing" in told


def test_tune_reports_what_it_found_when_the_server_fails(
    spectui: Spectui, pair: list[object], prompts: Path, tmp_path: Path
) -> None:
    binary = write_server(tmp_path / "llama-server", "is killed", n_good=0)
    options = ["--prompts", prompts, "--server-bin", binary]
    assert spectui("tune", *pair, *options, *TUNED) == 5
    assert "signal SIGKILL" in spectui.err
    assert json.loads(spectui.out)["served"] == []


def test_tune_asks_the_binary_before_it_searches(
    spectui: Spectui, pair: list[object], tmp_path: Path
) -> None:
    binary = write_server(tmp_path / "llama-server")
    assert spectui("tune", *pair, "--server-bin", binary, "--dialect", "ik") == 2
    assert "--dialect llama.cpp" in spectui.err
    assert spectui("tune", *pair, "--server-bin", tmp_path / "missing") == 5
