"""Trace files: what is written comes back, and nothing else is believed."""

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectui.errors import BadInputError
from spectui.replay.file import check_pair, read_trace, without_text, write_trace
from spectui.replay.grid import Grid, replay_grid
from tests.support.replay import DRAFT, SCENE, TARGET, Scene, record, scenes, trace_of

GRID = Grid(draft_max=(1, 3, 6), draft_min=(0, 2), draft_p_min=(0.0, 0.5))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a trace of one recording."""
    path = tmp_path / "x.trace.json.gz"
    write_trace(trace_of(record(SCENE)[0]), path)
    return path


def edit(path: Path, old: str, new: str) -> None:
    text = gzip.decompress(path.read_bytes()).decode()
    assert old in text
    path.write_bytes(gzip.compress(text.replace(old, new, 1).encode()))


@settings(max_examples=30, deadline=None)
@given(scenes=st.lists(scenes(), min_size=1, max_size=3))
def test_what_is_written_comes_back(
    tmp_path_factory: pytest.TempPathFactory, scenes: list[Scene]
) -> None:
    path = tmp_path_factory.mktemp("traces") / "folder" / "x.trace.json.gz"
    trace = trace_of(*(record(scene)[0] for scene in scenes))
    write_trace(trace, path)
    assert read_trace(path) == trace
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_the_same_trace_gives_the_same_bytes(path: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.trace.json.gz"
    write_trace(read_trace(path), again)
    assert again.read_bytes() == path.read_bytes()


@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_a_file_that_was_cut_off_is_refused(path: Path, share: float) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    with pytest.raises(BadInputError, match="cut off or damaged"):
        read_trace(path)


def test_a_file_that_was_edited_is_refused(path: Path) -> None:
    edit(path, '"category":"code"', '"category":"chat"')
    with pytest.raises(BadInputError, match="changed after it was recorded"):
        read_trace(path)


@pytest.mark.parametrize("schema", ["spectui.trace/2", "spectui.trace/0"])
def test_another_version_is_refused(path: Path, schema: str) -> None:
    edit(path, "spectui.trace/1", schema)
    with pytest.raises(BadInputError, match=f"another version's trace \\({schema}"):
        read_trace(path)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "no trace of spectui's"),
        (b"GGUF", "cannot be read as a trace"),
        (gzip.compress(b"[]"), "no trace of spectui's"),
        (gzip.compress(json.dumps({"schema": "spectui.tune/1"}).encode()), "no trace of spectui's"),
        (
            gzip.compress(b'{"schema":"spectui.tune/1","sha256":"","trace":{}}'),
            "no trace \\(spectui.tune/1",
        ),
    ],
    # Compressed bytes have the time in them, and xdist wants the same names everywhere.
    ids=["empty", "other magic", "no object", "no envelope", "other document"],
)
def test_what_is_no_trace_is_refused(path: Path, content: bytes, reason: str) -> None:
    path.write_bytes(content)
    with pytest.raises(BadInputError, match=reason):
        read_trace(path)


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    for path in (tmp_path / "absent", tmp_path):
        with pytest.raises(BadInputError, match=str(path)):
            read_trace(path)


def test_chains_that_do_not_fit_are_refused(path: Path) -> None:
    trace = read_trace(path)
    (recording,) = trace.recordings
    for wrong in (
        replace(recording, output=recording.output[:-1]),
        replace(recording, chains={"another": recording.chains["draft"]}),
    ):
        write_trace(replace(trace, recordings=(wrong,)), path)
        with pytest.raises(BadInputError, match="contradicts itself"):
            read_trace(path)


def test_a_trace_of_another_pair_is_refused(path: Path) -> None:
    trace = read_trace(path)
    check_pair(trace, TARGET, {"draft": DRAFT})
    with pytest.raises(BadInputError, match=r"another target \(target\.gguf, 10 parameters"):
        check_pair(trace, replace(TARGET, size_bytes=41), {"draft": DRAFT})
    with pytest.raises(BadInputError, match="another draft draft"):
        check_pair(trace, TARGET, {"draft": replace(DRAFT, n_params=2)})
    with pytest.raises(BadInputError, match="knows no draft other"):
        check_pair(trace, TARGET, {"other": DRAFT})


@settings(max_examples=30, deadline=None)
@given(scene=scenes())
def test_without_text_the_replay_is_the_same(scene: Scene) -> None:
    recording, chains = record(scene)
    bare = without_text(recording)
    assert bare.prompt == tuple(range(len(recording.prompt)))
    before = replay_grid(recording, chains, GRID)
    after = replay_grid(bare, bare.chains["draft"], GRID)
    assert before.n_drafted.tolist() == after.n_drafted.tolist()
    assert before.n_accepted.tolist() == after.n_accepted.tolist()
