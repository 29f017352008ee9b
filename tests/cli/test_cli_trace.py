"""``spectui trace`` and ``spectui replay`` as a user meets them."""

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from shutil import copy
from typing import Any

import pytest

from spectui.cli.run_replay import cliff_warnings
from spectui.engine.commands import RecordChains
from spectui.engine.driver import Engine
from spectui.engine.events import ChainsRecorded
from spectui.options.drafters import NGRAM_KINDS
from spectui.options.setup import SamplingConfig
from spectui.trace.file import read_trace, write_trace
from tests.support.cli import PROMPTS, Spectui, done
from tests.support.models import CLOSE_DRAFT, OTHER, ROUGH_DRAFT, TARGET, Tiny, TinyPath
from tests.support.replay import COSTS

pytest_plugins = ["tests.support.fixtures", "tests.support.cli_fixtures"]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def recorded(tiny: TinyPath, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace of six prompts, without text, recorded once."""
    folder = tmp_path_factory.mktemp("recorded")
    prompts, path = folder / "prompts.jsonl", folder / "x.trace.json.gz"
    prompts.write_text("\n".join(PROMPTS))
    pair = ("-m", tiny(TARGET), "-md", tiny(CLOSE_DRAFT), "-c", 256, "-t", 1, "-n", 12)
    arguments = (*pair, "--temp", 0, "--prompts", prompts, "--draft-max", 8, "--out", path)
    out, _err = done(folder / "home", "trace", *arguments)
    assert out.splitlines()[-1] == str(path)
    return path


@pytest.fixture
def trace(recorded: Path, tmp_path: Path) -> Path:
    """A copy of that trace."""
    return Path(copy(recorded, tmp_path))


def configs(spectui: Spectui, *arguments: object) -> list[dict[str, Any]]:
    assert spectui("replay", *arguments, "--json", "-") == 0
    document = json.loads(spectui.out)
    assert document["schema"] == "spectui.replay/1"
    found: list[dict[str, Any]] = document["configs"]
    return found


def test_a_replay_counts_what_bench_counts(
    spectui: Spectui, trace: Path, pair: list[object], prompts: Path
) -> None:
    for draft_max, draft_min, p_min in ((3, 0, 0.0), (8, 2, 0.3)):
        setting = ["--draft-max", draft_max, "--draft-min", draft_min, "--draft-p-min", p_min]
        (replayed,) = configs(spectui, trace, *setting)
        bench = ["bench", *pair, "--prompts", prompts, *setting, "--json", "-", "--quiet"]
        assert spectui(*bench) == 0
        measured = json.loads(spectui.out)["speculative"]
        for name in ("n_rounds", "n_drafted", "n_accepted", "mean_accepted_length"):
            assert replayed[name] == measured[name], name
        assert sum(replayed["rounds_by_n_drafted"]) == replayed["n_rounds"]
        assert replayed["tokens_per_s"] > 0


def test_of_a_large_grid_people_see_the_fastest(spectui: Spectui, trace: Path) -> None:
    floors = ",".join(f"0.{n:02d}" for n in range(70))
    grid = ["--draft-max", "1,2,3", "--draft-p-min", floors]
    found = configs(spectui, trace, *grid)
    assert len(found) == 210
    assert spectui("replay", trace, *grid) == 0
    assert "These are the 200 fastest of 210 settings; --json has all." in spectui.out
    best = max(one["speedup"] for one in found)
    rows = [line.split() for line in spectui.out.splitlines()[1:201]]
    speedups = [float(row[-1]) for row in rows]
    assert max(speedups) == pytest.approx(best, abs=0.006)
    assert min(speedups) >= sorted(one["speedup"] for one in found)[-200] - 0.006


def test_the_same_options_are_the_same_ngram_drafters_in_bench_and_replay(
    spectui: Spectui, pair: list[object], prompts: Path, trace: Path, tmp_path: Path
) -> None:
    path = tmp_path / "text.trace.json.gz"
    kept = [*pair, "--prompts", prompts, "--no-costs", "--keep-text", "--draft-max", 8]
    assert spectui("trace", *kept, "--out", path, "--quiet") == 0, spectui.err
    for kind in NGRAM_KINDS:
        (replayed,) = configs(spectui, path, "--draft-max", 3, "--spec-type", kind)[1:]
        # Its own options and defaults are llama-server's.
        options = [*pair[:2], *pair[4:], "--prompts", prompts, "--spec-type", kind]
        assert spectui("bench", *options, "--json", "-", "--quiet") == 0, spectui.err
        measured = json.loads(spectui.out)
        assert measured["config"]["ngram"] == replayed["ngram"]
        for name in ("n_rounds", "n_drafted", "n_accepted"):
            assert replayed[name] == measured["speculative"][name], (kind, name)
    # Text is stored only where it is asked for, and changes no count.
    bare, full = read_trace(trace), read_trace(path)
    assert (bare.has_text, full.has_text) == (False, True)
    assert all(recording.prompt[0] == 0 for recording in bare.recordings)
    assert full.recordings[0].output != bare.recordings[0].output
    grid = ["--draft-max", "1,3,8", "--draft-p-min", "0,0.4"]
    counts = [
        [(c["n_drafted"], c["n_accepted"]) for c in configs(spectui, file, *grid)]
        for file in (trace, path)
    ]
    assert counts[0] == counts[1]


def test_a_trace_goes_to_the_data_folder_by_default(
    spectui: Spectui, pair: list[object], prompts: Path, home: Path
) -> None:
    arguments = [*pair, "--prompts", prompts, "--no-costs", "--json", "-", "--quiet"]
    assert spectui("trace", *arguments) == 0
    document = json.loads(spectui.out)
    assert Path(document["trace"]).parent == home / "data" / "traces"
    assert document["n_prompts"] == 6
    assert document["draft_s"] > 0


def test_drafts_that_do_not_fit_are_left_out(
    spectui: Spectui, tiny: TinyPath, pair: list[object], prompts: Path, tmp_path: Path
) -> None:
    path = tmp_path / "x.trace.json.gz"
    unfit = tiny(Tiny(renamed=(200, "xyzzy")))
    drafts = ["-md", tiny(ROUGH_DRAFT), "-md", unfit, "-md", tiny(OTHER)]
    arguments = ["--prompts", prompts, "--no-costs", "--out", path]
    assert spectui("trace", *pair, *drafts, *arguments) == 0
    assert f"left out {unfit.stem}: " in spectui.err
    names = {found["draft"] for found in configs(spectui, path, "--draft-max", 2)}
    assert unfit.stem not in names
    assert len(names) == 3
    (one,) = configs(spectui, path, "--draft-max", 2, "-md", tiny(ROUGH_DRAFT))
    assert one["draft"] == tiny(ROUGH_DRAFT).stem


def test_wrong_files_are_refused(spectui: Spectui, trace: Path) -> None:
    whole = trace.read_bytes()
    write_trace(replace(read_trace(trace), has_text=True, sampling=SamplingConfig(temp=-1)), trace)
    assert spectui("replay", trace) == 3
    assert spectui.err == (
        f"error: {trace} contradicts itself (it was sampled with a temperature of -1); record it "
        "again with spectui trace\n"
    )
    text = gzip.decompress(whole).decode()
    trace.write_bytes(gzip.compress(text.replace('"n_ctx":256', '"n_ctx":512').encode()))
    assert spectui("replay", trace) == 3
    assert "changed after it was recorded" in spectui.err


def test_a_depth_without_room_is_refused_before_anything_is_loaded(
    spectui: Spectui, pair: list[object], prompts: Path
) -> None:
    for option, size in (("-b", 32), ("-c", 16)):
        arguments = ["--prompts", prompts, "--draft-max", 64, option, size]
        assert spectui("trace", *pair, *arguments) == 2
        assert f"--draft-max 64 does not fit in {option} {size}" in spectui.err
        assert "loading" not in spectui.err


def test_output_can_be_printed_where_greek_cannot(trace: Path, home: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "SPECTUI_HOME": str(home), "PYTHONIOENCODING": "latin-1"}
    command = [sys.executable, "-m", "spectui", "replay", str(trace)]
    done = subprocess.run(
        command, capture_output=True, check=False, env=environment, cwd=tmp_path, timeout=60
    )
    assert done.returncode == 0, done.stderr
    text = done.stdout.decode("latin-1")
    assert "alpha is " in text
    assert "?" not in text


def test_a_cliff_is_warned_of() -> None:
    assert list(cliff_warnings(COSTS)) == []
    steep = replace(COSTS, lengths=(0, 1, 15, 31), verify_s=(0.05, 0.052, 0.1, 0.5))
    steep = replace(steep, again_s=(0.0,) * 4)
    (warning,) = cliff_warnings(steep)
    assert warning == (
        "warning: verifying has a cliff: 32 tokens take 5.0 times as long as 16; keep draft_max "
        "below 31."
    )


def test_a_narrow_table_leaves_out_what_matters_least(
    spectui: Spectui, trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left_out = {
        100: "",
        72: "per round",
        60: "rate, per round, tokens/s",
        40: "min, rate, per round, tokens/s, speedup",
    }
    for width, gone in left_out.items():
        monkeypatch.setenv("COLUMNS", str(width))
        assert spectui("replay", trace, "--draft-max", "1,4") == 0
        assert max(map(len, spectui.out.splitlines())) <= width
        heading, told = spectui.out.splitlines()[0], " ".join(spectui.out.split())
        assert not [one for one in gone.split(", ") if one and f" {one}" in heading]
        assert ("Left out for want of room" in told) is bool(gone)
        assert f"Left out for want of room: {gone}; --json has them." in told or not gone


@pytest.mark.parametrize(
    ("is_full", "code", "told"),
    [(True, 3, "error: stdout cannot be written (No space left on device)"), (False, 141, "")],
    ids=["a full disk", "a reader that left"],
)
def test_a_stdout_that_takes_nothing_costs_no_file(
    trace: Path, home: Path, tmp_path: Path, told: str, *, is_full: bool, code: int
) -> None:
    written = tmp_path / "result.json"
    reader, writer = (0, os.open("/dev/full", os.O_WRONLY)) if is_full else os.pipe()
    if not is_full:
        os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "spectui", "replay", str(trace), "--json", str(written)],
        stdout=writer,
        stderr=subprocess.PIPE,
        env={**os.environ, "SPECTUI_HOME": str(home)},
        check=False,
        timeout=60,
        text=True,
    )
    os.close(writer)
    assert (done.returncode, done.stderr.count("\n")) == (code, int(is_full))
    assert done.stderr.startswith(told)
    assert json.loads(written.read_text())["configs"]


def test_a_trace_replaces_nothing_but_files(
    spectui: Spectui, pair: list[object], prompts: Path, tmp_path: Path
) -> None:
    pipe, link = tmp_path / "pipe", tmp_path / "link.gz"
    os.mkfifo(pipe)
    for path in (Path(os.devnull), pipe):
        assert spectui("trace", *pair, "--prompts", prompts, "--out", path, "--quiet") == 3
        assert "is no regular file" in spectui.err
        assert path.exists()
        assert not path.is_file()
    both = tmp_path / "both"
    for given, told in (
        (("--out", "/proc/x.gz"), "--out /proc/x.gz cannot be written"),
        (("--out", both, "--json", both), "give --out another file"),
    ):
        assert spectui("trace", *pair, "--prompts", prompts, *given, "--quiet") == 3
        assert told in spectui.err
        assert spectui.err.count("\n") == 1
    assert not both.exists()
    target = tmp_path / "real.gz"
    link.symlink_to(target)
    trace = ["trace", *pair, "--prompts", prompts, "--no-costs", "--out", link, "--quiet"]
    assert spectui(*trace) == 0, spectui.err
    assert link.is_symlink()
    assert len(read_trace(target).recordings) == 6


def interrupting(n_before: int) -> Callable[..., ChainsRecorded]:
    """Go along so many outputs, and then be interrupted."""
    whole, calls = Engine.record_chains, count()

    def record_chains(engine: Engine, command: RecordChains) -> ChainsRecorded:
        if next(calls) == n_before:
            raise KeyboardInterrupt
        return whole(engine, command)

    return record_chains


def test_an_interrupted_recording_takes_no_other_traces_place(
    spectui: Spectui,
    trace: Path,
    pair: list[object],
    prompts: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    new = trace.with_name("new.gz")
    options = [*pair, "--prompts", prompts, "--no-costs", "--out", new, "--json", "-", "--quiet"]
    with monkeypatch.context() as patched:
        patched.setattr(Engine, "record_chains", interrupting(1))
        assert spectui("trace", *options) == 130
    assert spectui.err.startswith("error: interrupted; what is complete was written: 1 prompt ")
    document = json.loads(spectui.out)
    assert (document["trace"], document["interrupted"]) == (str(new), True)
    assert len(read_trace(new).recordings) == 1
    before = trace.read_bytes()
    arguments = [*pair, "--prompts", prompts, "--no-costs", "--out", trace, "--quiet"]
    kept = trace.with_name("x.interrupted.trace.json.gz")
    for n_recorded in (2, 3):
        with monkeypatch.context() as patched:
            patched.setattr(Engine, "record_chains", interrupting(n_recorded))
            assert spectui("trace", *arguments) == 130
        assert spectui.err == (
            f"error: interrupted; {trace} is left as it was, and what is complete was written to "
            f"{kept}: {n_recorded} prompts with 1 draft; run the command again for all\n"
        )
        assert spectui.out.splitlines()[-1] == str(kept)
        assert len(read_trace(kept).recordings) == n_recorded
    assert trace.read_bytes() == before
    assert spectui("trace", *arguments) == 0
    assert trace.read_bytes() != before
    assert len(read_trace(trace).recordings) == 6
