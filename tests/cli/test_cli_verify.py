"""``spectui verify``: against the real llama-server on tiny models, and against scripted ones."""

import json
import signal
from pathlib import Path

import pytest

from tests.support.cli import Run, Searched, Spectui
from tests.support.models import CLOSE_DRAFT, TARGET, TinyPath
from tests.support.program import end, said_until, servers_of, spawn
from tests.support.scripted_server import MISSTARTED, write_server

pytest_plugins = ["tests.support.fixtures", "tests.support.cli_fixtures"]
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("no_process_is_left")]


ALONE = ("--no-promise",)


@pytest.mark.server
@pytest.mark.parametrize(
    ("turns", "temp"),
    [("--keep-both", 0.8), pytest.param("--one-at-a-time", 0, marks=pytest.mark.ci)],
)
def test_a_setting_is_promised_and_delivered(
    run: Run, spectui: Spectui, llama_server_binary: Path, turns: str, temp: float
) -> None:
    setting = ("--draft-max", 4, "--repeats", 2, "--temp", temp)
    found = run.document("verify", "--server-bin", llama_server_binary, turns, *setting)
    n_starts = spectui.err.count("starting llama-server")
    keeps_both = turns == "--keep-both"
    order = {"keeps_both": keeps_both, "n_starts": 2 if keeps_both else n_starts}
    assert found["order"] == {**order, "repeats": 2, "seed": 0}
    assert "two llama-servers" in spectui.err or f"at a time: {n_starts} starts" in spectui.err
    promised, delivered = found["promised"]["speculative"], found["delivered"]["speculative"]
    for name in ("n_tokens", "n_drafted", "n_accepted", "acceptance_rate"):
        assert promised[name] == delivered[name]
    assert delivered["n_drafted"] > delivered["n_accepted"] > 0
    low, high = found["delivered"]["speedup_ci95"]
    assert low < found["delivered"]["speedup"] < high
    assert found["agreement"] in {"holds", "less", "more", "open"}


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
    run: Run, spectui: Spectui, tmp_path: Path
) -> None:
    for manner, told in MISSTARTED.items():
        binary = write_server(tmp_path / "llama-server", manner)
        assert run("verify", "--server-bin", binary, *ALONE) == 5
        assert told in spectui.err
        assert spectui.out == ""


def test_the_models_are_loaded_for_the_promise_alone(
    run: Run, spectui: Spectui, tmp_path: Path
) -> None:
    binary = write_server(tmp_path / "llama-server")
    assert run("verify", "--server-bin", binary, *ALONE, "--verbose") == 0, spectui.err
    assert "own engine" not in spectui.err
    assert "loading" not in spectui.err


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


@pytest.mark.server
def test_a_drafter_that_remembers_is_not_asked_twice(
    run: Run, spectui: Spectui, llama_server_binary: Path
) -> None:
    drafter = ("--spec-type", "ngram-mod,draft-simple", "--spec-ngram-mod-n-match", 2)
    lengths = ("--spec-ngram-mod-n-min", 0, "--spec-ngram-mod-n-max", 8)
    how = ("--server-bin", llama_server_binary, *ALONE, "--keep-both", "--repeats", 2)
    rows = run.document("verify", *how, *drafter, *lengths)["prompts"]
    counts = [(row["id"], row["n_drafted"], row["n_accepted"]) for row in rows]
    assert counts[:6] == counts[6:]
    assert sum(n_drafted for _, n_drafted, _ in counts) > 0
    assert spectui.err.count("starting llama-server with speculation") == 2


def test_a_study_whose_prompts_are_gone_names_them(
    study: Searched, spectui: Spectui, tmp_path: Path
) -> None:
    binary = write_server(tmp_path / "llama-server")
    away = study.prompts.rename(study.prompts.with_name("away"))
    assert spectui("verify", "mine", "--server-bin", binary) == 3
    assert str(study.prompts) in spectui.err
    away.rename(study.prompts)
