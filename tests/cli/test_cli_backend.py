"""``--backend server``: real llama-servers on tiny models, and scripted ones."""

import json
from pathlib import Path
from typing import Any

import pytest

from spectui.paths import data_dir
from tests.support.architectures import write_eagle3
from tests.support.binaries import IK, LEGACY
from tests.support.cli import Run, Searched, Spectui, assert_failed
from tests.support.models import CLOSE_DRAFT, TARGET, TinyPath
from tests.support.scripted_server import HELP, LAST_WORDS, write_server

pytest_plugins = ["tests.support.fixtures", "tests.support.cli_fixtures"]
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("no_process_is_left")]

_TOGETHER = ("--backend", "server")


def counts(document: dict[str, Any]) -> list[tuple[Any, ...]]:
    names = ("id", "n_drafted", "n_accepted", "n_rounds", "output_sha256")
    return sorted(tuple(one[name] for name in names) for one in document["prompts"])


@pytest.mark.server
@pytest.mark.parametrize("temp", [0, pytest.param(0.8, marks=pytest.mark.ci)])
def test_a_server_counts_what_the_engine_counts(
    run: Run, spectui: Spectui, llama_server_binary: Path, temp: float
) -> None:
    setting = ("--draft-max", 4, "--ignore-eos", "--repeats", 2, "--temp", temp)
    served = ("--backend", "server", "--server-bin", llama_server_binary)
    found = run.document("bench", *setting, *served)
    assert spectui.err.count("starting llama-server") == found["server"]["n_starts"]
    here = run.document("bench", *setting)
    assert (here["backend"], found["backend"]) == ("engine", "server")
    assert counts(found) == counts(here)
    for name in ("n_rounds", "n_drafted", "acceptance_rate", "mean_accepted_length"):
        assert found["speculative"][name] == here["speculative"][name]
    for name in ("time_s", "accepted_per_position", "alpha"):
        assert found["speculative"][name] is None
        assert "does not tell" in found["speculative"][f"{name}_reason"]
    assert found["lossless"] is (True if temp == 0 else None)
    for model in ("target", "draft"):
        assert found[model]["size_bytes"] == here[model]["size_bytes"] > 0
    assert found["target"]["arch"] == "llama"
    assert "--spec-type" in found["server"]["arguments"]["on"]
    assert "--spec-type" not in found["server"]["arguments"]["off"]


@pytest.mark.server
def test_eagle3_is_measured_and_found_by_the_server(
    spectui: Spectui, tiny: TinyPath, prompts: Path, tmp_path: Path, llama_server_binary: Path
) -> None:
    write_eagle3(TARGET, tmp_path / "eagle3.gguf")
    models = ["-m", tiny(TARGET), "-md", tmp_path / "eagle3.gguf", "-c", 256, "-t", 1]
    served = ["-n", 12, "--prompts", prompts, "--backend", "server", "--json", "-"]
    served += ["--server-bin", llama_server_binary]
    assert spectui("bench", *models, *served, "--temp", 0) == 0, spectui.err
    found = json.loads(spectui.out)
    assert found["draft"]["kind"] == found["config"]["spec_type"] == "draft-eagle3"
    assert found["speculative"]["n_drafted"] > 0
    assert found["lossless"] is True
    tuned = ["--trials", 2, "--spec-type", "draft-eagle3"]
    assert spectui("tune", *models, *served, *tuned) == 0, spectui.err
    trial = json.loads(spectui.out)["trials"][0]
    assert trial["params"]["spec_type"] == "draft-eagle3"
    assert trial["acceptance_rate"] is not None
    line = " ".join(map(str, ["llama-server", *models, "--spec-type", "draft-eagle3"]))
    assert spectui("bench", "--from", line, *served) == 0, spectui.err
    assert json.loads(spectui.out)["draft"]["kind"] == "draft-eagle3"
    assert spectui("bench", "--from", line, *served[:4]) == 2
    assert "add --backend server --server-bin PATH" in spectui.err


@pytest.mark.server
def test_a_search_through_a_server_goes_on_and_stays_apart_from_the_engines(
    run: Run, spectui: Spectui, study: Searched, llama_server_binary: Path
) -> None:
    drafts = ("--spec-type", "draft-simple")
    served = (*drafts, "--backend", "server", "--server-bin", llama_server_binary)
    found = run.document("tune", *served, "--trials", 2)
    assert [one["state"] for one in found["trials"]] == ["complete"] * 2
    assert (found["backend"], found["forecasts"]) == ("server", [])
    assert found["finalists"]
    assert spectui.err.count("starting llama-server") == found["server"]["n_starts"]
    again = run.document("tune", *served, "--trials", 2)
    assert (again["study"], len(again["trials"])) == (found["study"], 2)
    assert study.document["study"] != found["study"]


def test_a_binary_is_spoken_to_in_its_dialect(run: Run, tmp_path: Path) -> None:
    for help_text, wanted in (
        (LEGACY, ["--draft-max", "4"]),
        (IK, ["--spec-type", "draft:n_max=4,n_min=0,p_min=0.0"]),
    ):
        binary = write_server(tmp_path / "llama-server", help_text=help_text)
        found = run.document("bench", *_TOGETHER, "--server-bin", binary, "--draft-max", 4)
        arguments = found["server"]["arguments"]["on"]
        at = arguments.index(wanted[0])
        assert arguments[at : at + 2] == wanted
        assert found["speedup"] == pytest.approx(1.25)
    tuned = run.document("tune", *_TOGETHER, "--server-bin", binary, "--trials", 2)
    assert wanted[0] in tuned["best_command"]
    assert tuned["best"]["speedup"] == pytest.approx(1.25)


def test_what_only_a_server_can_run_is_measured_by_the_one_of_the_path(
    spectui: Spectui, tiny: TinyPath, prompts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    scale = "--rope-scale N    RoPE context scaling factor\n"
    binary = write_server(tmp_path / "bin" / "llama-server", help_text=HELP + scale)
    command = f"./other/llama-server -m {tiny(TARGET)} -md {tiny(CLOSE_DRAFT)} -c 256 -t 1"
    given = ("--prompts", prompts, "-n", 8, "--json", "-")
    monkeypatch.setenv("PATH", str(binary.parent), prepend=":")
    assert spectui("bench", "--from", f"{command} --rope-scale 2", *given) == 0, spectui.err
    found = json.loads(spectui.out)
    assert (found["backend"], found["server"]["path"]) == ("server", str(binary))
    told = f"measured through {binary}, since spectui's own engine does not apply --rope-scale 2"
    assert told in spectui.err
    # Nothing that places a model or changes it; what the engine applies; and what was typed.
    for more in (
        (f"{command} --mmproj m.gguf",),
        (f"{command} --mlock --no-repack",),
        (f"{command} --rope-scale 2", *ENGINE),
    ):
        assert spectui("bench", "--from", *more, *given) == 0, spectui.err
        assert json.loads(spectui.out)["backend"] == "engine"


def test_a_compose_file_of_somebody_else_runs_nothing_of_its_own(
    spectui: Spectui, tiny: TinyPath, prompts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = write_server(tmp_path / "real-server")
    binary = tmp_path / "llama-server"
    seen = f'{{ env; echo "FOLDER=$(pwd)"; ls; echo "ARGUMENTS=$*"; }} >> {tmp_path}/seen'
    binary.write_text(f'#!/bin/sh\n{seen}\nexec {real} "$@"\n')
    binary.chmod(0o755)
    here = tmp_path / "here"
    here.mkdir()
    for library in ("libggml-blas.so", "evil.so"):
        (here / library).write_text("no library")
    monkeypatch.chdir(here)
    monkeypatch.setenv("HF_TOKEN", "hf-secret")
    target, draft = tiny(TARGET), tiny(CLOSE_DRAFT)
    (here / "compose.yaml").write_text(
        f"""
services:
  a:
    image: ghcr.io/x/llama.cpp:server
    volumes: ["{target.parent}:/m", "{draft.parent}:/d"]
    command: >
      -m /m/{target.name} -md /d/{draft.name} -c 256 -b 64
      --model-url http://127.0.0.1:1/x --mmproj-url http://127.0.0.1:1/y --log-file /m/log
      --tools all --of-next-year 5 --host 192.0.2.1
    environment:
      GGML_BACKEND_PATH: {here}/evil.so
      LD_PRELOAD: {here}/evil.so
      CUDA_INJECTION64_PATH: {here}/evil.so
      LLAMA_ARG_MCP_SERVERS_CONFIG: /m/mcp
      CUDA_VISIBLE_DEVICES: "7"
"""
    )
    given = ["--backend", "server", "--server-bin", binary, "--prompts", prompts, "-n", 8]
    assert spectui("bench", "--from", "compose.yaml", *given) == 0, spectui.err
    told = " ".join(spectui.err.split())
    assert "measured without GGML_BACKEND_PATH, CUDA_INJECTION64_PATH, CUDA_VISIBLE_DEVICES" in told
    assert "--mmproj-url" in told
    assert "--of-next-year" in told
    started = (tmp_path / "seen").read_text()
    for evil in (
        *("evil.so", "libggml-blas.so", "mcp", "hf-secret", "CUDA_VISIBLE_DEVICES=7"),
        *("127.0.0.1:1/", "--log-file", "--tools", "--of-next-year", "192.0.2.1"),
    ):
        assert evil not in started
    assert f"FOLDER={here}" not in started
    assert " -b 64 " in started
    assert f"-m {target} " in started


ENGINE = ("--backend", "engine")


@pytest.mark.parametrize(
    ("manner", "shown", "message"),
    [
        ("exits", 0, "ended with exit code 1"),
        ("is killed", 2, "ended with signal SIGKILL"),
        ("is garbled", 2, "is not what spectui understands"),
        pytest.param("hangs", 2, "no answer from llama-server", marks=pytest.mark.ci),
    ],
)
def test_a_server_that_fails_ends_a_bench_with_what_was_measured(
    run: Run, spectui: Spectui, tmp_path: Path, manner: str, *, shown: int, message: str
) -> None:
    binary = write_server(tmp_path / "llama-server", manner, n_good=3 if shown else 0)
    # A server that hangs has to be ready in time, too.
    patience = ("--timeout", "4s") if manner == "hangs" else ()
    out = tmp_path / "out.json"
    assert run("bench", *_TOGETHER, "--server-bin", binary, *patience, "--json", out) == 5
    assert_failed(spectui, out, message=message, shown=shown)


def test_a_setting_whose_server_fails_is_a_failed_trial_and_three_end_the_search(
    run: Run, spectui: Spectui, tmp_path: Path
) -> None:
    binary = tmp_path / "llama-server"
    options = (*_TOGETHER, "--server-bin", binary, "--trials", 20)
    write_server(binary, "exits")
    assert run("tune", *options) == 5
    assert "ended with exit code 1" in spectui.err
    write_server(binary, "exits with a draft")
    assert run("tune", *options) == 5, spectui.err
    # Two lines of failed trials, and the error.
    assert spectui.err.count(LAST_WORDS) == 3


def test_a_server_that_does_not_run_as_it_was_started_measures_nothing(
    run: Run, spectui: Spectui, tmp_path: Path
) -> None:
    """Nor is anything of it kept: the same command measures all of it with another server."""
    commands = (("bench",), ("tune", "--trials", "2"), ("sweep", "--draft-max", "2,3"))
    for command, *more in commands:
        binary = write_server(tmp_path / "llama-server", "drafts always")
        assert run(command, *_TOGETHER, *more, "--server-bin", binary) == 5, spectui.err
        assert "the llama-server without speculation drafts as well" in spectui.err
        assert "speedup" not in spectui.out or command == "sweep"
    logs = [path.read_text() for path in data_dir().rglob("cells.jsonl")]
    records = [json.loads(line).get("record", {}) for log in logs for line in log.splitlines()]
    ended = [one["visit"]["cell"] for one in records if one.get("state") in {"complete", "failed"}]
    # The target alone may have had its turn before.
    assert not any(cell["arm"]["speculation"] for cell in ended)
