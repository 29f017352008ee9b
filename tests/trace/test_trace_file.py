"""Trace files: what is written comes back, and nothing else is believed."""

import gzip
import hashlib
import json
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectui.errors import BadInputError
from spectui.speculative.decoder import Stop
from spectui.trace.file import read_trace, write_trace
from spectui.trace.record import Chains, Trace, bare, without_text
from spectui.trace.replay import Grid, replay_grid
from tests.support.disk import no_file_above
from tests.support.replay import COSTS, DRAFT, SCENE, TARGET, Scene, record, scenes, trace_of

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
    recordings = (replace(record(scene)[0], id=f"x{n}") for n, scene in enumerate(scenes))
    trace = trace_of(*recordings)
    alone = replace(
        recorded(trace_of(*trace.recordings[:1]), chains={}), drafts={}, costs={"ngram": COSTS}
    )
    for written in (trace, bare(trace), alone):
        write_trace(written, path)
        assert read_trace(path) == written
        # The same trace gives the same bytes.
        content = path.read_bytes()
        write_trace(read_trace(path), path)
        assert path.read_bytes() == content
    assert [file.name for file in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("schedule", ["server", "fast"])
def test_costs_of_less_work_than_llama_servers_are_set_aside(path: Path, schedule: str) -> None:
    trace = read_trace(path)
    kept = json.loads(gzip.decompress(path.read_bytes()))["trace"] | {"schedule": schedule}
    payload = json.dumps(kept)
    digest = hashlib.sha256(payload.encode()).hexdigest()
    envelope = f'{{"schema":"spectui.trace/4","sha256":"{digest}","trace":{payload}}}'
    path.write_bytes(gzip.compress(envelope.encode()))
    assert read_trace(path) == (trace if schedule == "server" else replace(trace, costs={}))


def test_the_same_trace_gives_the_same_bytes(path: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.trace.json.gz"
    write_trace(read_trace(path), again)
    assert again.read_bytes() == path.read_bytes()


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    trace = trace_of(record(SCENE)[0])
    with no_file_above(100), pytest.raises(BadInputError, match="File too large"):
        write_trace(trace, tmp_path / "x.gz")
    assert not list(tmp_path.glob("x*"))


def test_what_was_cut_off_changed_or_appended_is_refused(path: Path) -> None:
    content = path.read_bytes()
    n = len(content)

    def flipped(at: int) -> bytes:
        return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]

    for damaged in (
        *(content[: int(n * share)] for share in (0.1, 0.5, 0.99)),
        # Early, late, in the checksum and in the size.
        *(flipped(at) for at in (n // 3, n // 2, n - 8, n - 1)),
        content + b"and more",
    ):
        path.write_bytes(damaged)
        with pytest.raises(BadInputError, match=r"is no whole trace .*record it again with"):
            read_trace(path)


def test_another_version_and_a_file_that_was_edited_are_refused(path: Path) -> None:
    whole = path.read_bytes()
    for old, new, reason in (
        ("spectui.trace/4", "spectui.trace/3", r"another version's trace \(spectui.trace/3"),
        ("spectui.trace/4", "spectui.trace/5", r"another version's trace \(spectui.trace/5"),
        ('"category":"code"', '"category":"chat"', r"changed, .*\(its digest does not fit"),
    ):
        path.write_bytes(whole)
        edit(path, old, new)
        with pytest.raises(BadInputError, match=reason):
            read_trace(path)


def test_what_is_no_trace_is_refused(path: Path) -> None:
    for content, reason in (
        *((content, "no whole trace of spectui's") for content in (b"", b"GGUF", b"{}")),
        *(
            (gzip.compress(text), "no whole trace of spectui's")
            for text in (
                *(b"", b"{}", b"[]", b'{"schema":"spectui.tune/1"}'),
                b'{"schema":"","sha256":"","trace":NaN}',
                b'{"schema":"\xff","sha256":"","trace":{}}',
                b'{"trace":' + b"[" * 100_000,
            )
        ),
        (
            gzip.compress(b'{"schema":"spectui.tune/1","sha256":"","trace":{}}'),
            "no trace \\(spectui.tune/1",
        ),
    ):
        path.write_bytes(content)
        with pytest.raises(BadInputError, match=f"{reason}.*; record it again with spectui trace"):
            read_trace(path)
    for nowhere in (path.with_name("absent"), path.parent):
        with pytest.raises(
            BadInputError, match=f"{nowhere}.*no .*file.*; give a file that spectui trace"
        ):
            read_trace(nowhere)


CURVES = ("verify_s", "verify_growth_s", "again_s", "again_growth_s")
FORGED: dict[str, Callable[[Trace], Trace]] = {
    "cut output": lambda trace: recorded(trace, output=trace.recordings[0].output[:-1]),
    "another's chains": lambda trace: recorded(trace, chains={"another": first(trace)}),
    "deep chains": lambda trace: chains(trace, depth=10**9),
    "no chains": lambda trace: chains(trace, depth=0),
    "no probabilities": lambda trace: chains(trace, probabilities=()),
    "an end that came before": lambda trace: recorded(
        trace, stop=Stop.END_OF_GENERATION, output=(1,) * 10
    ),
    "small context": lambda trace: recorded(trace, n_ctx=len(trace.recordings[0].prompt)),
    "lengths that come back": lambda trace: costs(trace, lengths=(0, 1, 2, 4, 4)),
    "no lengths": lambda trace: costs(trace, lengths=(), **dict.fromkeys(CURVES, ())),
    "lengths beyond all": lambda trace: costs(trace, lengths=(0, 1, 2, 4, 10**9)),
    "free verifying": lambda trace: costs(trace, verify_s=(0.0,) * 5),
    "endless rollback": lambda trace: costs(trace, rollback_s=1e300),
}


CONTRADICTIONS: dict[str, tuple[Callable[[Trace], Trace], str]] = {
    "target of nothing": (
        lambda trace: replace(trace, target=replace(TARGET, n_vocab=0)),
        r"Expected `int` >= 1 - at `\$\.target\.n_vocab`",
    ),
    "draft of nothing": (
        lambda trace: replace(trace, drafts={"draft": replace(DRAFT, n_vocab=0)}),
        r"Expected `int` >= 1 - at `\$\.drafts\[\.\.\.\]\.n_vocab`",
    ),
}


def first(trace: Trace) -> Chains:
    return trace.recordings[0].chains["draft"]


def recorded(trace: Trace, **changes: object) -> Trace:
    return replace(trace, recordings=(replace(trace.recordings[0], **cast("Any", changes)),))


def chains(trace: Trace, **changes: object) -> Trace:
    return recorded(trace, chains={"draft": replace(first(trace), **cast("Any", changes))})


def costs(trace: Trace, **changes: object) -> Trace:
    return replace(trace, costs={"draft": replace(COSTS, **cast("Any", changes))})


def test_what_no_recording_leaves_is_refused_whatever_its_digest(path: Path) -> None:
    trace = read_trace(path)
    reasons = {forged: rf" \({reason}" for forged, reason in CONTRADICTIONS.values()}
    for forged in (*FORGED.values(), *reasons):
        write_trace(forged(trace), path)
        with pytest.raises(BadInputError, match=f"contradicts itself{reasons.get(forged, '')}"):
            read_trace(path)
    write_trace(trace, path)
    assert read_trace(path) == trace


def test_a_file_that_unpacks_to_no_end_takes_no_more_memory_than_the_largest(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spectui.trace.file._MAX_BYTES", 1 << 21)
    path.write_bytes(gzip.compress(b" " * (1 << 27), compresslevel=1))
    tracemalloc.start()
    with pytest.raises(BadInputError, match="unpacks to more than 2 MiB"):
        read_trace(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 23


@settings(max_examples=30, deadline=None)
@given(scene=scenes())
def test_without_text_the_replay_is_the_same(scene: Scene) -> None:
    recording, _chains = record(scene)
    bare = without_text(recording)
    assert bare.prompt == tuple(range(len(recording.prompt)))
    before = replay_grid([recording], "draft", GRID)
    after = replay_grid([bare], "draft", GRID)
    assert before.whole.drafted.tolist() == after.whole.drafted.tolist()
    assert before.whole.accepted.tolist() == after.whole.accepted.tolist()
