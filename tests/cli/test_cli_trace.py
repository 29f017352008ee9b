"""``spectui trace`` and ``spectui replay`` as a user meets them."""

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import chain, count
from pathlib import Path
from shutil import copy
from typing import Any

import pytest

from spectui.engine.commands import RecordChains
from spectui.engine.driver import Engine
from spectui.engine.events import ChainsRecorded
from spectui.options.drafters import NGRAMS, kind_of, numbers_of
from spectui.trace.file import read_trace, write_trace
from tests.support.cli import PROMPTS, Spectui, done
from tests.support.models import CLOSE_DRAFT, OTHER, ROUGH_DRAFT, TARGET, Tiny, TinyPath

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
    assert str(path) in out.splitlines()
    assert out.splitlines()[-1] == f"  spectui replay {path}"
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


NUMBERS = ("draft_max", "draft_min", "draft_p_min")


def test_a_replay_counts_what_bench_counts(
    spectui: Spectui, trace: Path, pair: list[object], prompts: Path
) -> None:
    found = configs(spectui, trace)
    for setting in ((3, 0, 0.0), (8, 2, 0.3)):
        (replayed,) = (
            one for one in found if tuple(map(one.get, NUMBERS)) == setting and "ngram" not in one
        )
        options = zip(("--draft-max", "--draft-min", "--draft-p-min"), setting, strict=True)
        bench = ["bench", *pair, "--prompts", prompts, *chain(*options), "--json", "-", "--quiet"]
        assert spectui(*bench) == 0
        measured = json.loads(spectui.out)["speculative"]
        for name in ("n_rounds", "n_drafted", "n_accepted", "mean_accepted_length"):
            assert replayed[name] == measured[name], name
        assert replayed["tokens_per_s"] > 0


def test_people_see_the_best_of_each_length(spectui: Spectui, trace: Path) -> None:
    found = configs(spectui, trace)
    assert spectui("replay", trace) == 0
    drafted = [one for one in found if one["n_drafted"]]
    best = max(one["speedup"] for one in drafted)
    _head, first, *_rows = spectui.out.splitlines()
    assert first.endswith(f"{best:.2f}×")
    assert f"{len(found)} settings replayed on 6 prompts" in " ".join(spectui.out.split())


def test_ngram_drafters_are_replayed_as_bench_runs_them(
    spectui: Spectui, pair: list[object], prompts: Path, trace: Path, tmp_path: Path
) -> None:
    path = tmp_path / "text.trace.json.gz"
    kept = [*pair, "--prompts", prompts, "--no-costs", "--keep-text", "--draft-max", 8]
    assert spectui("trace", *kept, "--out", path, "--quiet") == 0, spectui.err
    found = configs(spectui, path)
    alone = [one for one in found if one["draft"] is None]
    for drafter in NGRAMS:
        kind = kind_of(drafter)
        replayed = next(one for one in alone if one["ngram"]["kind"] == kind)
        numbers = ((one.flags[0], replayed["ngram"][one.name]) for one in numbers_of(drafter))
        options = [*pair[:2], *pair[4:], "--prompts", prompts, "--json", "-", "--quiet"]
        own = ("--spec-type", kind, *chain(*numbers))
        assert spectui("bench", *options, *own) == 0, spectui.err
        measured = json.loads(spectui.out)
        assert measured["config"]["ngram"] == replayed["ngram"]
        for name in ("n_rounds", "n_drafted", "n_accepted"):
            assert replayed[name] == measured["speculative"][name], (kind, name)
    # Text is stored only where it is asked for, and changes no count.
    bare, full = read_trace(trace), read_trace(path)
    assert (bare.has_text, full.has_text) == (False, True)
    assert all(recording.prompt[0] == 0 for recording in bare.recordings)
    assert full.recordings[0].output != bare.recordings[0].output
    counts = [
        [
            (one["n_drafted"], one["n_accepted"])
            for one in configs(spectui, file)
            if one["draft"] and "ahead" not in one
        ]
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


def test_drafts_that_do_not_fit_are_left_out(
    spectui: Spectui, tiny: TinyPath, pair: list[object], prompts: Path, tmp_path: Path
) -> None:
    path = tmp_path / "x.trace.json.gz"
    unfit = tiny(Tiny(renamed=(200, "xyzzy")))
    drafts = ["-md", tiny(ROUGH_DRAFT), "-md", unfit, "-md", tiny(OTHER)]
    arguments = ["--prompts", prompts, "--no-costs", "--out", path]
    assert spectui("trace", *pair, *drafts, *arguments) == 0
    assert f"left out {unfit.stem}: " in spectui.err
    names = {found["draft"] for found in configs(spectui, path)} - {None}
    assert unfit.stem not in names
    assert len(names) == 3


def test_wrong_files_are_refused(spectui: Spectui, trace: Path) -> None:
    whole = trace.read_bytes()
    write_trace(replace(read_trace(trace), drafts={}), trace)
    assert spectui("replay", trace) == 3
    assert spectui.err == (
        f"error: {trace} was changed, or contradicts itself (recording a lacks a draft); record it "
        "again with spectui trace\n"
    )
    text = gzip.decompress(whole).decode()
    trace.write_bytes(gzip.compress(text.replace('"n_ctx":256', '"n_ctx":512').encode()))
    assert spectui("replay", trace) == 3
    assert "its digest does not fit" in spectui.err


def test_a_depth_without_room_is_refused_before_anything_is_loaded(
    spectui: Spectui, pair: list[object], prompts: Path
) -> None:
    for option, size in (("-b", 32), ("-c", 16)):
        arguments = ["--prompts", prompts, "--draft-max", 64, option, size]
        assert spectui("trace", *pair, *arguments) == 2
        assert f"raise {option} to 65 or more, or shorten the drafts" in spectui.err
        assert "loading" not in spectui.err


def test_output_can_be_printed_where_signs_cannot(trace: Path, home: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "SPECTUI_HOME": str(home), "PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "spectui", "replay", str(trace)]
    done = subprocess.run(
        command, capture_output=True, check=False, env=environment, cwd=tmp_path, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "? the target alone" in " ".join(done.stdout.decode("ascii").split())


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
    assert (done.returncode, done.stderr.count("\n")) == (code, 1 + int(is_full))
    assert told in done.stderr
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
    assert f"what is complete was written to {new}: 1 prompt with 1 draft" in spectui.err
    document = json.loads(spectui.out)
    assert (document["trace"], document["interrupted"]) == (str(new), True)
    assert len(read_trace(new).recordings) == 1
    before = trace.read_bytes()
    arguments = [*pair, "--prompts", prompts, "--no-costs", "--out", trace, "--quiet"]
    with monkeypatch.context() as patched:
        patched.setattr(Engine, "record_chains", interrupting(2))
        assert spectui("trace", *arguments) == 130
    kept = Path(spectui.out.split()[-1])
    assert f"what is complete was written to {kept}: 2 prompts with 1 draft" in spectui.err
    assert kept.parent.name == "traces"
    assert len(read_trace(kept).recordings) == 2
    assert trace.read_bytes() == before
    assert spectui("trace", *arguments) == 0
    assert trace.read_bytes() != before
    assert len(read_trace(trace).recordings) == 6
