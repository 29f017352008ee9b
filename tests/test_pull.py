"""Fetching the models of a preset, against a hub on loopback."""

import fcntl
import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from io import StringIO
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import constants
from rich.console import Console

from spectui.cli.progress import Screen
from spectui.presets import fetch, find_preset
from spectui.presets.checksum import is_remembered, remember
from spectui.presets.plan import PullProgress, Step
from spectui.presets.wanted import plan_pull
from tests.support.cli import Spectui
from tests.support.hub import COMMIT, Hub, Refusal, Served, serving

MIB = 1 << 20
FIRST, SECOND = "Q8_0/Target-00001-of-00002.gguf", "Q8_0/Target-00002-of-00002.gguf"
TARGET, DRAFT = "them/Target-GGUF", "them/Draft-GGUF"
PRESET = f"""
[target]
repo = "{TARGET}"
files = ["Target-*.gguf"]

[[draft]]
repo = "{DRAFT}"
files = ["Draft.gguf"]
"""
MINE = "hf_mine"
SMALL = b"GGUF draft"
BIG = bytes(range(256)) * (3 * MIB // 256) + b"!"
MODULE = ["-m", "spectui", "models", "pull", "mine"]
NO_CHECKSUM = b"""{"id": "a/b", "sha": "main", "siblings": [{"rfilename": "Target-.gguf", "size": 1,
"lfs": {"size": 1, "sha256": "/../../x", "pointerSize": 1}}]}"""
GOES_ON = "the same command goes on"


def last_error(err: str) -> str:
    """The one sentence at the end of stderr."""
    assert "Traceback" not in err
    [error] = [line for line in err.splitlines() if line.startswith("error: ")]
    assert err.endswith(f"{error}\n")
    return error


class Pull(Spectui):
    """``spectui models pull`` in this process."""

    def __call__(self, *arguments: object) -> int:
        return super().__call__("models", "pull", *arguments)

    @property
    def error(self) -> str:
        return last_error(self.err)


Start = Callable[..., "subprocess.Popen[str]"]
"""``spectui models pull`` as a program."""


@pytest.fixture
def hub() -> Iterator[Hub]:
    with serving() as hub:
        hub.repos[TARGET] = {
            FIRST: Served(content=BIG),
            SECOND: Served(content=BIG[::-1]),
            "Q4_0/Other.gguf": Served(content=b"other"),
            "README.md": Served(content=b"read me", is_plain=True),
        }
        hub.repos[DRAFT] = {"Draft.gguf": Served(content=SMALL)}
        yield hub


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with a preset of one's own."""
    home = tmp_path / "home"
    path = home / "config" / "presets" / "mine.toml"
    path.parent.mkdir(parents=True)
    path.write_text(PRESET)
    monkeypatch.setenv("SPECTUI_HOME", str(home))
    return home


@pytest.fixture
def folder(home: Path) -> Path:
    """Where the models belong."""
    return home / "cache" / "models" / "mine"


@pytest.fixture
def pull(
    home: Path, hub: Hub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Pull:
    """In this process, where huggingface_hub has read its variables long ago."""
    assert home.is_dir()
    monkeypatch.setattr(constants, "ENDPOINT", hub.url)
    template = f"{hub.url}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_TELEMETRY", True)
    monkeypatch.setenv("HF_HUB_DISABLE_TELEMETRY", "1")
    monkeypatch.setenv("HF_TOKEN", MINE)
    return Pull(monkeypatch, capsys)


@pytest.fixture
def start(home: Path, hub: Hub) -> Start:
    """As a program, with the variables of huggingface_hub that are given."""
    # Those of the one who runs the tests would be honoured.
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    kept |= {"HF_HOME": str(home / "huggingface"), "HF_ENDPOINT": hub.url}

    def start(*before: str, token: str = "") -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, *before, *MODULE],
            env=kept | {"HF_TOKEN": token},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return start


def part_of(path: Path, content: bytes) -> Path:
    """Where a file is gathered."""
    return path.with_name(f"{path.name}.{hashlib.sha256(content).hexdigest()[:12]}.part")


def starts(hub: Hub, name: str) -> list[int]:
    """From where on a file was asked for."""
    return [request.start for request in hub.fetched if request.name == name]


def put(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


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
    assert "fetching Target-00001-of-00002.gguf: 3.1 MB of 3.1 MB" in pull.err
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


def test_a_connection_that_ends_is_taken_up_where_it_was(
    pull: Pull, hub: Hub, folder: Path
) -> None:
    hub.drops_after.append(2 * MIB + MIB // 2)
    assert pull("mine") == 0, pull.err
    assert starts(hub, FIRST) == [0, 2 * MIB]
    assert (folder / FIRST).read_bytes() == BIG


def test_a_hub_that_is_gone_costs_only_the_rest(pull: Pull, hub: Hub, folder: Path) -> None:
    hub.drops_after.extend([2 * MIB + MIB // 2, 0])
    assert pull("mine") == 3
    assert GOES_ON in pull.error
    assert part_of(folder / FIRST, BIG).read_bytes() == BIG[: 2 * MIB]
    assert not (folder / FIRST).exists()
    assert pull("mine") == 0, pull.err
    assert starts(hub, FIRST) == [0, 2 * MIB, 2 * MIB]
    assert (folder / FIRST).read_bytes() == BIG


def test_a_server_without_ranges_sends_all_of_it(pull: Pull, hub: Hub, folder: Path) -> None:
    hub.knows_ranges = False
    put(part_of(folder / FIRST, BIG), BIG[: MIB + 5])
    assert pull("mine") == 0, pull.err
    assert (folder / FIRST).read_bytes() == BIG


def test_who_interrupts_keeps_what_was_fetched(
    start: Start, pull: Pull, hub: Hub, folder: Path
) -> None:
    hub.holds_after = 2 * MIB
    with start() as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "2.1 MB of 3.1 MB" in line:
                process.send_signal(signal.SIGINT)
                break
        _out, err = process.communicate()
    assert process.returncode == 130
    assert last_error(err).startswith("error: interrupted; what was fetched is kept")
    assert GOES_ON in err
    assert part_of(folder / FIRST, BIG).read_bytes() == BIG[: 2 * MIB]

    hub.holds_after = None
    assert pull("mine") == 0, pull.err
    assert starts(hub, FIRST) == [0, 2 * MIB]
    assert (folder / FIRST).read_bytes() == BIG


@pytest.mark.parametrize("sent", [BIG[:-1] + b"?", BIG + b"more"], ids=["other", "longer"])
def test_what_arrives_broken_is_deleted_and_named(
    pull: Pull, hub: Hub, folder: Path, sent: bytes
) -> None:
    hub.repos[TARGET][FIRST] = Served(content=BIG, sent=sent)
    assert pull("mine") == 3
    assert "Target-00001-of-00002.gguf of them/Target-GGUF arrived broken" in pull.error
    assert not list(folder.rglob("*.gguf*"))


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
    assert "10000000.00 GB are still to be fetched" in pull.error
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


@pytest.mark.parametrize(
    ("refusal", "message"),
    [
        (
            Refusal(status=403, headers={"X-Error-Code": "GatedRepo"}),
            "accepted its licence",
        ),
        (Refusal(status=404, headers={"X-Error-Code": "EntryNotFound"}), "404 Not Found"),
        (Refusal(status=403), "set HF_TOKEN to a token that may read it"),
    ],
    ids=["gated", "file-gone", "forbidden"],
)
def test_a_file_that_is_refused_is_explained(
    pull: Pull, hub: Hub, refusal: Refusal, message: str
) -> None:
    hub.file_refused = refusal
    assert pull("mine") == 3
    assert message in pull.error
    assert f"{hub.url}/{TARGET}" in pull.error


@pytest.mark.parametrize(
    ("refusal", "message"),
    [
        (Refusal(status=401, headers={"X-Error-Code": "RepoNotFound"}), "or it is private"),
        (Refusal(status=404, headers={"X-Error-Code": "RepoNotFound"}), "there is no repository"),
        (
            Refusal(
                status=401,
                headers={"X-Error-Message": "Invalid credentials in Authorization header"},
            ),
            "set HF_TOKEN to a token that may read it",
        ),
        (Refusal(status=500), "500 Internal Server Error"),
        (Refusal(status=200, body=b"<html>log in first</html>"), "check HF_ENDPOINT"),
        (Refusal(status=200, body=b'{"id": "a/b", "siblings": [{}]}'), "check HF_ENDPOINT"),
        (Refusal(status=200, body=NO_CHECKSUM), "check HF_ENDPOINT"),
    ],
    ids=["private", "missing", "token", "down", "portal", "nonsense", "no-checksum"],
)
def test_a_repository_that_is_refused_is_explained(
    pull: Pull, hub: Hub, folder: Path, refusal: Refusal, message: str
) -> None:
    hub.listing_refused = refusal
    assert pull("mine") == 3
    assert message in pull.error
    assert not folder.exists()


@pytest.mark.parametrize(
    ("constant", "value", "message"),
    [
        ("HF_HUB_OFFLINE", True, "HF_HUB_OFFLINE is set"),
        ("ENDPOINT", "http://127.0.0.1:1", "http://127.0.0.1:1 cannot be reached"),
        ("ENDPOINT", "nowhere", "nowhere cannot be reached"),
    ],
    ids=["offline", "closed-port", "no-url"],
)
def test_no_network_is_explained(
    pull: Pull, monkeypatch: pytest.MonkeyPatch, constant: str, value: object, message: str
) -> None:
    monkeypatch.setattr(constants, constant, value)
    assert pull("mine") == 3
    assert message in pull.error


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (
            {"../../../Target-x.gguf": Served(content=SMALL)},
            "would not stay in the preset's folder",
        ),
        ({"/Target-x.gguf": Served(content=SMALL)}, "would not stay in the preset's folder"),
        ({"Target-\x1b[2J.gguf": Served(content=SMALL)}, "'Target-\\x1b[2J.gguf'"),
        ({"Target-x.gguf": Served(content=SMALL, is_plain=True)}, "could not be checked"),
        (
            {"Tarket.gguf": Served(content=SMALL)},
            f"no file of {TARGET} matches Target-*.gguf: it has Tarket.gguf",
        ),
        (
            {f"{number:02}.gguf": Served(content=SMALL) for number in range(14)},
            "09.gguf, 10.gguf, 11.gguf and 2 more; correct the preset",
        ),
        ({"\x1b.gguf": Served(content=SMALL)}, "it has no .gguf file at all"),
    ],
    ids=["outside", "absolute", "unprintable", "no-checksum", "no-match", "many", "none"],
)
def test_what_the_hub_names_is_not_trusted(
    pull: Pull, hub: Hub, home: Path, files: dict[str, Served], message: str
) -> None:
    before = sorted(home.parent.rglob("*"))
    hub.repos[TARGET] = files
    assert pull("mine") == 3
    assert message in pull.error
    assert not hub.fetched
    assert sorted(home.parent.rglob("*")) == before


@pytest.mark.parametrize("content", [b"mine", SMALL[::-1]], ids=["size", "checksum"])
def test_a_file_of_the_users_own_is_left_as_it_is(pull: Pull, folder: Path, content: bytes) -> None:
    put(folder / "Draft.gguf", content)
    assert pull("mine") == 3
    assert f"{folder / 'Draft.gguf'} is there and is not what {DRAFT} has now" in pull.error
    assert (folder / "Draft.gguf").read_bytes() == content


def test_a_file_that_was_fetched_otherwise_is_checked_once(
    pull: Pull, hub: Hub, folder: Path
) -> None:
    put(folder / "Draft.gguf", SMALL)
    assert pull("mine", "--only", "draft") == 0, pull.err
    assert "checking Draft.gguf" in pull.err
    assert pull("mine", "--only", "draft") == 0, pull.err
    assert "checking Draft.gguf" not in pull.err
    assert not hub.fetched


def test_only_one_at_a_time_fetches_a_file(pull: Pull, hub: Hub, folder: Path) -> None:
    part = part_of(folder / FIRST, BIG)
    put(part, BIG[:MIB])
    with part.open("ab") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert pull("mine") == 3
    assert f"{part} is being fetched by another spectui" in pull.error
    assert part.read_bytes() == BIG[:MIB]
    assert not hub.fetched


def test_two_files_of_one_name_are_refused(pull: Pull, hub: Hub, home: Path) -> None:
    hub.repos[DRAFT] = {FIRST: Served(content=SMALL)}
    path = home / "config" / "presets" / "mine.toml"
    path.write_text(PRESET.replace('["Draft.gguf"]', '["Target-*.gguf"]'))
    assert pull("mine") == 3
    assert f"have different files of the name {FIRST}" in pull.error


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


def test_the_document_tells_what_is_there_afterwards(pull: Pull, tmp_path: Path) -> None:
    path = tmp_path / "pull.json"
    assert pull("mine", "--only", "draft", "--json", path, "--quiet") == 0
    assert pull.err == ""
    document: dict[str, Any] = json.loads(path.read_text())
    assert document["missing_bytes"] == 0
    assert [file["state"] for file in document["files"]] == ["verified"]


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
    seen: list[PullProgress] = []
    fetch.pull(plan_pull(find_preset("mine")), seen.append, clock=lambda: next(seconds))
    first = [
        (progress.done_bytes, progress.bytes_per_s)
        for progress in seen
        if progress.file == Path(FIRST).name and progress.step is Step.FETCHING
    ]
    # The clock gains a second each time that it is read.
    assert first == [
        (MIB, 0),
        (2 * MIB, MIB / 2),
        (3 * MIB, 2 * MIB / 3),
        (len(BIG), pytest.approx((2 * MIB + 1) / 4)),
    ]
    assert {progress.step for progress in seen} == {Step.FETCHING, Step.CHECKING}


def test_a_terminal_shows_the_rate_and_what_is_left() -> None:
    console = Console(file=StringIO(), force_terminal=True, width=100)
    screen = Screen(console, clock=lambda: 10.0)
    screen.on_pull(
        PullProgress(
            file="x.gguf",
            step=Step.FETCHING,
            done_bytes=1_000_000_000,
            size_bytes=4_000_000_000,
            bytes_per_s=25_000_000,
        )
    )
    screen.close()
    assert isinstance(console.file, StringIO)
    shown = console.file.getvalue()
    assert "fetching x.gguf: 1 GB of 4 GB, 25 MB/s, about 2 min 00 s left" in shown
    assert "acceptance" not in shown
