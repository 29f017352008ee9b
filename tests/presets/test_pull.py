"""Fetching the models of a preset, against a hub on loopback."""

import fcntl
import hashlib
import json
import os
import re
import shutil
import signal
from collections.abc import Callable
from io import StringIO
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from spectui.cli.progress.screen import Screen
from spectui.errors import BadInputError
from spectui.presets import find_preset
from spectui.presets.plan import (
    PullEvent,
    PullPaused,
    PullProgress,
    Step,
    is_remembered,
    remember,
)
from spectui.presets.pull import Watch, plan_pull
from spectui.presets.pull import pull as pull_models
from tests.support.hub import COMMIT, Hub, Served
from tests.support.pull import (
    BIG,
    CHUNK,
    DRAFT,
    FIRST,
    GOES_ON,
    MIB,
    MINE,
    PRESET,
    SECOND,
    SMALL,
    TARGET,
    Pull,
    Start,
    last_error,
    lock,
    part_of,
    put,
    starts,
)

pytest_plugins = ["tests.support.cli_fixtures", "tests.support.pull_fixtures"]

SHIPPED_NAME = "Qwen3-235B-A22B-Q4_K_M-00001-of-00003.gguf"


def test_what_is_fetched_makes_the_preset_ready_and_is_not_fetched_again(
    pull: Pull, hub: Hub, folder: Path
) -> None:
    assert pull("mine") == 0, pull.err
    paths = [folder / FIRST, folder / SECOND, folder / "Draft.gguf"]
    assert pull.out.splitlines() == [
        f"{role}\t{path}" for role, path in zip(("target", "target", "draft"), paths, strict=True)
    ]
    assert [path.read_bytes() for path in paths] == [BIG, BIG[::-1], SMALL]
    assert "3 files, 6.3 MB to fetch into" in pull.err
    assert "3.1 MB of 3.1 MB: fetching Target-00001-of-00002.gguf" in pull.err
    assert "checking Draft.gguf" in pull.err
    preset = find_preset("mine")
    assert preset.is_ready
    assert preset.find_target() == paths[0]
    assert not list(folder.rglob("*.part"))

    assert pull("mine") == 0, pull.err
    assert len(hub.fetched) == 3
    assert "3 files, 0 B to fetch into" in pull.err
    assert "checking" not in pull.err


def test_variables_are_honoured_and_nothing_is_written_elsewhere(
    start: Start, hub: Hub, home: Path, folder: Path
) -> None:
    with start(token=MINE) as process:
        _out, err = process.communicate()
    assert process.returncode == 0, err
    assert (folder / FIRST).read_bytes() == BIG
    # Where the hub sends for the bytes is another's server.
    assert set(hub.authorizations) == {f"Bearer {MINE}"}
    assert {request.authorization for request in hub.fetched} == {None}
    assert sorted(path.name for path in home.iterdir()) == ["cache", "config"]
    assert not hub.strange


def test_a_dry_run_tells_what_there_is_and_writes_nothing(
    pull: Pull, hub: Hub, folder: Path
) -> None:
    put(part_of(folder / FIRST, BIG), BIG[:MIB])
    put(folder / "Draft.gguf", SMALL)
    before = sorted(folder.rglob("*"))
    assert pull("mine", "--dry-run") == 0, pull.err
    assert "target  3.1 MB, 1 MB there" in pull.out
    assert "draft   10 B, there, to be checked" in pull.out
    assert "3 files, 5.2 MB to fetch into" in pull.out

    assert pull("mine", "--dry-run", "--json", "-") == 0, pull.err
    document = json.loads(pull.out)
    assert document["schema"] == "spectui.pull/1"
    assert document["missing_bytes"] == 2 * len(BIG) - MIB
    assert document["free_bytes"] > 0
    states = ["partial", "missing", "unchecked"]
    assert [file["state"] for file in document["files"]] == states
    assert document["files"][0] == {
        "role": "target",
        "repo": TARGET,
        "commit": COMMIT,
        "name": FIRST,
        "path": str(folder / FIRST),
        "size_bytes": len(BIG),
        "present_bytes": MIB,
        "sha256": hashlib.sha256(BIG).hexdigest(),
        "state": "partial",
    }
    assert not hub.fetched
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (["--only", "target"], ["Target-00001-of-00002.gguf", "Target-00002-of-00002.gguf"]),
        (["--only", "draft"], ["Draft.gguf"]),
        (["--file", "*-00002-of-*", "--file", "D*"], ["Target-00002-of-00002.gguf", "Draft.gguf"]),
    ],
    ids=["target", "draft", "globs"],
)
def test_less_can_be_fetched(pull: Pull, options: list[str], names: list[str]) -> None:
    assert pull("mine", *options) == 0, pull.err
    assert [Path(line.split("\t")[1]).name for line in pull.out.splitlines()] == names


@pytest.mark.parametrize("glob", ["", "."])
def test_a_glob_that_matches_nothing_is_a_mistake(pull: Pull, hub: Hub, glob: str) -> None:
    assert pull("mine", "--file", glob) == 2
    assert f"{glob!r} can match no file" in pull.err
    assert not hub.authorizations


def test_companions_of_models_are_left_out(pull: Pull, hub: Hub) -> None:
    hub.repos[TARGET]["Q8_0/Target-mmproj-f16.gguf"] = Served(content=SMALL)
    assert pull("mine", "--only", "target") == 0, pull.err
    assert [Path(line).name for line in pull.out.splitlines()] == [
        Path(FIRST).name,
        Path(SECOND).name,
    ]


@pytest.mark.parametrize("options", [[], ["--only", "draft"]], ids=["all", "draft"])
def test_models_that_would_be_mixed_up_are_refused(
    pull: Pull, hub: Hub, preset_path: Path, options: list[str]
) -> None:
    hub.repos[TARGET] = {"Big-Q4_K_M.gguf": Served(content=BIG)}
    hub.repos[DRAFT] = {"Small-Q4_K_M.gguf": Served(content=SMALL)}
    files = PRESET.replace("Target-*.gguf", "*Q4_K_M.gguf").replace("Draft.gguf", "*Q4_K_M.gguf")
    preset_path.write_text(files)
    assert pull("mine", *options) == 3
    taken, by = (f"Small-Q4_K_M.gguf of {DRAFT}", f"target *Q4_K_M.gguf of {TARGET}")
    if not options:
        taken, by = (f"Big-Q4_K_M.gguf of {TARGET}", f"draft *Q4_K_M.gguf of {DRAFT}")
    assert f"preset mine would take {taken} for the {by} as well" in pull.error
    assert not hub.fetched


def test_who_interrupts_keeps_what_was_fetched(
    start: Start, pull: Pull, hub: Hub, folder: Path
) -> None:
    hub.holds_after = 29 * CHUNK
    with start() as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "1.9 MB of 3.1 MB" in line:
                process.send_signal(signal.SIGINT)
                break
        _out, err = process.communicate()
    assert process.returncode == 130
    assert last_error(err).startswith("error: interrupted; what was fetched is kept")
    assert GOES_ON in err
    assert part_of(folder / FIRST, BIG).read_bytes() == BIG[: 29 * CHUNK]

    hub.holds_after = None
    assert pull("mine") == 0, pull.err
    assert starts(hub, FIRST) == [0, 29 * CHUNK]
    assert (folder / FIRST).read_bytes() == BIG


def test_a_partial_of_another_version_is_cleared_away(pull: Pull, folder: Path) -> None:
    old = part_of(folder / FIRST, b"of last week")
    put(old, b"of last")
    assert pull("mine") == 0, pull.err
    assert not old.exists()


def test_a_disk_that_is_too_small_is_found_before_the_first_byte(
    pull: Pull, hub: Hub, folder: Path
) -> None:
    hub.repos[TARGET][SECOND] = Served(content=BIG, claimed_bytes=10**16)
    assert pull("mine") == 3
    assert f"{folder} has " in pull.error
    assert "10,000.00 TB are still to be fetched" in pull.error
    assert not hub.fetched
    assert not folder.exists()


def test_a_disk_that_fills_up_keeps_what_there_is(
    start: Start, pull: Pull, hub: Hub, folder: Path
) -> None:
    # A file that may not grow is refused by the kernel as one on a full disk is.
    limited = "import os, resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (2 << 20,) * 2)"
    with start("-c", f"{limited}; os.execv(sys.executable, [sys.executable, *sys.argv[1:]])") as it:
        _out, err = it.communicate()
    assert it.returncode == 3
    assert "cannot be written (File too large)" in last_error(err)
    assert GOES_ON in last_error(err)
    assert part_of(folder / FIRST, BIG).read_bytes() == BIG[: 2 * MIB]

    assert pull("mine") == 0, pull.err
    assert starts(hub, FIRST) == [0, 2 * MIB]


@pytest.mark.parametrize("content", [b"mine", SMALL[::-1]], ids=["size", "checksum"])
def test_a_file_of_the_users_own_is_left_as_it_is(pull: Pull, folder: Path, content: bytes) -> None:
    put(folder / "Draft.gguf", content)
    assert pull("mine") == 3
    assert f"{folder / 'Draft.gguf'} is there and is not what {DRAFT} has now" in pull.error
    assert (folder / "Draft.gguf").read_bytes() == content


def put_other(path: Path) -> None:
    """A file of the name, and of another size."""
    put(path, b"mine")


def put_dangling_link(path: Path) -> None:
    """A link to a disk that is not there."""
    path.parent.mkdir(parents=True)
    path.symlink_to("/nowhere/Draft.gguf")


@pytest.mark.parametrize("put_it", [put_other, put_dangling_link])
def test_a_foreign_file_is_told_before_anything_is_fetched(
    pull: Pull, hub: Hub, folder: Path, put_it: Callable[[Path], None]
) -> None:
    put_it(folder / "Draft.gguf")
    assert pull("mine", "--dry-run", "--json", "-") == 0, pull.err
    document = json.loads(pull.out)
    assert document["files"][2]["state"] == "foreign"
    assert document["files"][2]["present_bytes"] == 0
    assert document["missing_bytes"] == 2 * len(BIG) + len(SMALL)
    assert pull("mine", "--dry-run") == 0, pull.err
    assert "draft   10 B, another file has its name" in pull.out

    assert pull("mine") == 3
    assert f"{folder / 'Draft.gguf'} is there and is not what {DRAFT} has now" in pull.error
    assert "leave it out with --only or --file" in pull.error
    assert not hub.fetched
    assert pull("mine", "--only", "target") == 0, pull.err


def test_a_file_that_was_fetched_otherwise_is_checked_once(
    pull: Pull, hub: Hub, folder: Path
) -> None:
    put(folder / "Draft.gguf", SMALL)
    assert pull("mine", "--only", "draft") == 0, pull.err
    assert "checking Draft.gguf" in pull.err
    assert pull("mine", "--only", "draft") == 0, pull.err
    assert "checking Draft.gguf" not in pull.err
    assert not hub.fetched


@pytest.mark.parametrize("content", [BIG, b"of last week"], ids=["this-version", "another"])
def test_only_one_at_a_time_fetches_a_file(
    pull: Pull, hub: Hub, folder: Path, content: bytes
) -> None:
    part = part_of(folder / FIRST, content)
    put(part, content[:MIB])
    with part.open("ab") as held:
        lock(held)
        assert pull("mine") == 3
    assert f"{part} is being fetched by another spectui" in pull.error
    assert part.read_bytes() == content[:MIB]
    assert not hub.fetched


def test_what_another_process_finished_meanwhile_is_taken(
    pull: Pull, hub: Hub, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = folder / "Draft.gguf"
    flock = fcntl.flock

    def finish_first(file: int, operation: int) -> None:
        """Between opening and locking."""
        monkeypatch.setattr(fcntl, "flock", flock)
        part = part_of(path, SMALL)
        part.write_bytes(SMALL)
        part.rename(path)
        flock(file, operation)

    monkeypatch.setattr(fcntl, "flock", finish_first)
    assert pull("mine", "--only", "draft") == 0, pull.err
    assert not hub.fetched
    assert sorted(file.name for file in folder.iterdir()) == ["Draft.gguf", "Draft.gguf.sha256"]


def pull_draft(on_step: Callable[[Step], None]) -> None:
    """Fetch just the draft; ``on_step`` is called as a step begins."""

    def on_event(event: PullEvent) -> None:
        if isinstance(event, PullProgress) and event.done_bytes == 0:
            on_step(event.step)

    pull_models(plan_pull(find_preset("mine"), globs=("Draft.gguf",)), Watch(on_event=on_event))


@pytest.mark.usefixtures("pull")
@pytest.mark.parametrize("moment", list(Step))
def test_a_file_that_appears_meanwhile_is_never_replaced(folder: Path, moment: Step) -> None:
    def appear(step: Step) -> None:
        if step is moment:
            put(folder / "Draft.gguf", b"mine")

    with pytest.raises(BadInputError, match="is there and is not what"):
        pull_draft(appear)
    assert (folder / "Draft.gguf").read_bytes() == b"mine"


@pytest.mark.usefixtures("pull")
def test_the_right_file_may_appear_meanwhile(folder: Path) -> None:
    pull_draft(lambda _step: put(folder / "Draft.gguf", SMALL))
    assert sorted(file.name for file in folder.iterdir()) == ["Draft.gguf", "Draft.gguf.sha256"]


@pytest.mark.usefixtures("pull")
def test_nobody_else_has_the_file_until_it_is_checked(folder: Path) -> None:
    seen: list[Step] = []

    def try_it(step: Step) -> None:
        seen.append(step)
        path = part_of(folder / "Draft.gguf", SMALL)
        with path.open("ab") as part, pytest.raises(BlockingIOError):
            lock(part)

    pull_draft(try_it)
    assert seen == [Step.FETCHING, Step.CHECKING]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["demo"], "preset demo names no model to fetch"),
        (["demo", "--only", "draft"], "preset demo names no draft to fetch"),
        (
            ["mine", "--only", "draft", "--file", "T*", "--file", "x"],
            "preset mine has no file that matches T* or x: it has Draft.gguf; give another --file",
        ),
    ],
    ids=["no-models", "no-drafts", "no-match"],
)
def test_nothing_to_fetch_is_said(pull: Pull, arguments: list[str], message: str) -> None:
    assert pull(*arguments) == 3
    assert message in pull.error


@pytest.mark.parametrize(
    "name",
    [
        "config/presets/mine.toml",
        "cache/models/mine/Draft.gguf",
        f"cache/models/mine/{FIRST}",
        f"cache/models/mine/{part_of(Path(FIRST), BIG)}",
    ],
    ids=["preset", "model", "missing", "partial"],
)
def test_the_document_overwrites_neither_preset_nor_models(
    pull: Pull, hub: Hub, home: Path, folder: Path, name: str
) -> None:
    put(folder / "Draft.gguf", SMALL)
    put(part_of(folder / FIRST, BIG), BIG[:MIB])
    path = home / name
    before = path.read_bytes() if path.exists() else None
    assert pull("mine", "--json", path) == 3
    assert re.search(rf"{re.escape(str(path))} is (an input of this run|a model)", pull.error)
    assert (path.read_bytes() if path.exists() else None) == before
    assert not hub.fetched


def test_the_document_tells_what_is_there_afterwards(
    pull: Pull, tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def usage(_path: Path) -> SimpleNamespace:
        used_bytes = sum(file.stat().st_size for file in folder.rglob("*"))
        return SimpleNamespace(free=1000 - used_bytes)

    monkeypatch.setattr(shutil, "disk_usage", usage)
    path = tmp_path / "pull.json"
    assert pull("mine", "--only", "draft", "--json", path, "--quiet") == 0
    assert pull.err == ""
    document: dict[str, Any] = json.loads(path.read_text())
    assert document["missing_bytes"] == 0
    assert document["free_bytes"] == usage(path).free < 1000
    assert [file["state"] for file in document["files"]] == ["verified"]


def test_names_that_are_no_text_do_not_break_the_document(
    pull: Pull, home: Path, preset_path: Path
) -> None:
    odd = preset_path.with_name(os.fsdecode(b"m\xff.toml"))
    preset_path.rename(odd)
    assert pull(odd, "--dry-run", "--json", "-") == 0, pull.err
    document = json.loads(pull.out)
    assert document["preset"] == "m\N{REPLACEMENT CHARACTER}"
    folder = home / "cache" / "models" / "m\N{REPLACEMENT CHARACTER}"
    assert document["folder"] == str(folder)
    assert document["files"][0]["path"] == str(folder / FIRST)


def test_a_checksum_is_remembered_until_the_file_changes(tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    path.write_bytes(SMALL)
    sha256 = hashlib.sha256(SMALL).hexdigest()
    assert not is_remembered(path, sha256)
    remember(path, sha256)
    assert is_remembered(path, sha256)
    assert not is_remembered(path, "0" * 64)
    assert (tmp_path / "x.gguf.sha256").read_text() == f"{sha256}  x.gguf\n"
    later = path.stat().st_mtime_ns + 1_000_000_000
    os.utime(path, ns=(later, later))
    assert not is_remembered(path, sha256)


@pytest.mark.usefixtures("pull")
def test_progress_tells_the_rate_since_this_run_began(folder: Path) -> None:
    put(part_of(folder / FIRST, BIG), BIG[:MIB])
    seconds = count()
    seen: list[PullEvent] = []
    watch = Watch(on_event=seen.append, clock=lambda: next(seconds))
    pull_models(plan_pull(find_preset("mine")), watch)
    first = [
        (progress.done_bytes, progress.bytes_per_s)
        for progress in seen
        if isinstance(progress, PullProgress)
        and progress.file == Path(FIRST).name
        and progress.step is Step.FETCHING
    ]
    # The clock gains a second each time that it is read.
    assert first[:3] == [
        (MIB, 0),
        (MIB + CHUNK, CHUNK / 2),
        (MIB + 2 * CHUNK, 2 * CHUNK / 3),
    ]
    done_bytes, bytes_per_s = first[-1]
    assert done_bytes == len(BIG)
    assert bytes_per_s == pytest.approx((2 * MIB + 1) / len(first))


def shown(width: int, *events: PullEvent) -> str:
    """What a terminal of so many columns shows."""
    console = Console(file=StringIO(), force_terminal=True, width=width)
    screen = Screen(console, clock=lambda: 10.0)
    for event in events:
        screen.on_pull(event)
    screen.close()
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


HALF_WAY = PullProgress(
    file=SHIPPED_NAME,
    step=Step.FETCHING,
    done_bytes=18_600_000_000,
    size_bytes=39_800_000_000,
    bytes_per_s=25_300_000,
)


@pytest.mark.parametrize(
    ("width", "text"),
    [
        (40, "47 %, 25.3 MB/s, 13 min 58 s left"),
        (80, "47 %, 25.3 MB/s, 13 min 58 s left, 18.6 GB of 39.8 GB: fetching Qwen3"),
        (140, f"18.6 GB of 39.8 GB: fetching {SHIPPED_NAME}"),
    ],
)
def test_a_narrow_terminal_shows_the_numbers_first(width: int, text: str) -> None:
    assert text in shown(width, HALF_WAY)
    assert "acceptance" not in shown(width, HALF_WAY)


def test_a_pause_is_shown_at_once() -> None:
    pause = PullPaused(file=SHIPPED_NAME, reason="503 Service Unavailable", pause_s=60)
    assert "waiting 1 min 00 s to go on" in shown(40, HALF_WAY, pause)
