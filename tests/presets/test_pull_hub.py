"""What the hub answers while a preset's models are fetched, and what keeps it from answering."""

import gzip
import signal
import sys
from pathlib import Path

import pytest
from huggingface_hub import constants

from spectui.presets.pull import PAUSES_S
from tests.support.hub import COMMIT, Hub, Refusal, Served
from tests.support.pull import (
    BIG,
    CHUNK,
    FIRST,
    GOES_ON,
    MIB,
    SMALL,
    TARGET,
    Pull,
    Start,
    last_error,
    part_of,
    put,
    starts,
)

pytest_plugins = ["tests.support.cli_fixtures", "tests.support.pull_fixtures"]

NO_CHECKSUM = b"""{"id": "a/b", "sha": "main", "siblings": [{"rfilename": "Target-.gguf", "size": 1,
"lfs": {"size": 1, "sha256": "/../../x", "pointerSize": 1}}]}"""
ENDLESS = b'{"sha": "main", "siblings": [%b]}'
ONE_BYTE = {"Content-Range": f"bytes 0-0/{len(BIG)}"}
ANOTHER_FILE = {"Content-Range": f"bytes {MIB}-{MIB}/{len(BIG) + 1}"}
BACKWARDS = {"Content-Range": f"bytes {MIB}-{MIB - 1}/{len(BIG)}"}
N_ATTEMPTS = 1 + len(PAUSES_S)


def test_a_connection_that_ends_is_taken_up_where_it_was(
    pull: Pull, hub: Hub, folder: Path
) -> None:
    hub.drops_after.append(2 * MIB + CHUNK + 5)
    assert pull("mine") == 0, pull.err
    assert starts(hub, FIRST) == [0, 2 * MIB + CHUNK]
    assert pull.pauses_s == [1]
    assert "waiting 1 s to go on (" in pull.err
    assert (folder / FIRST).read_bytes() == BIG


def test_a_hub_that_is_gone_costs_only_the_rest(pull: Pull, hub: Hub, folder: Path) -> None:
    hub.drops_after.extend([2 * MIB + 5, *(0 for _ in PAUSES_S)])
    assert pull("mine") == 3
    assert GOES_ON in pull.error
    assert pull.pauses_s == [1, 2, 4, 8, 15, 30, 60]
    assert part_of(folder / FIRST, BIG).read_bytes() == BIG[: 2 * MIB]
    assert not (folder / FIRST).exists()
    hub.fetched.clear()
    assert pull("mine") == 0, pull.err
    assert starts(hub, FIRST) == [2 * MIB]
    assert (folder / FIRST).read_bytes() == BIG


def test_pauses_begin_anew_once_something_came(pull: Pull, hub: Hub) -> None:
    hub.drops_after.extend([0, 0, MIB, 0])
    assert pull("mine", "--only", "target") == 0, pull.err
    assert pull.pauses_s == [1, 2, 1, 2]


def test_who_interrupts_a_pause_is_not_kept_waiting(start: Start, hub: Hub) -> None:
    hub.drops_after.extend(0 for _ in range(N_ATTEMPTS))
    with start() as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("waiting "):
                process.send_signal(signal.SIGINT)
                break
        _out, err = process.communicate()
    assert process.returncode == 130
    assert last_error(err).startswith("error: interrupted; what was fetched is kept")
    assert len(hub.fetched) < N_ATTEMPTS


def test_a_busy_hub_is_asked_again(pull: Pull, hub: Hub, folder: Path) -> None:
    hub.sent_first.extend(Refusal(status=status) for status in (503, 429, 408))
    assert pull("mine", "--only", "draft") == 0, pull.err
    assert pull.pauses_s == [1, 2, 4]
    assert "waiting 1 s to go on (503 Service Unavailable): Draft.gguf" in pull.err
    assert "waiting 2 s to go on (429 Too Many Requests): Draft.gguf" in pull.err
    assert (folder / "Draft.gguf").read_bytes() == SMALL


def test_a_hub_that_stays_busy_is_named(pull: Pull, hub: Hub) -> None:
    hub.file_refused = Refusal(status=502)
    assert pull("mine") == 3
    assert f"{hub.url}/{TARGET} cannot be read now (502 Bad Gateway)" in pull.error
    assert len(pull.pauses_s) == len(PAUSES_S)


def test_what_the_library_warns_of_is_not_shown(start: Start, hub: Hub) -> None:
    hub.warning = "topic; your library is old"
    with start() as process:
        _out, err = process.communicate()
    assert process.returncode == 0, err
    assert "3 files, 6.3 MB to fetch into" in err
    assert "your library is old" not in err


def test_a_server_without_ranges_sends_all_of_it(pull: Pull, hub: Hub, folder: Path) -> None:
    hub.knows_ranges = False
    put(part_of(folder / FIRST, BIG), BIG[: MIB + 5])
    assert pull("mine") == 0, pull.err
    assert (folder / FIRST).read_bytes() == BIG


@pytest.mark.parametrize(
    ("knows_ranges", "asked"),
    [
        (True, [(0, MIB), (MIB, 2 * MIB), (2 * MIB, 3 * MIB), (3 * MIB, len(BIG))]),
        (False, [(0, MIB)]),
    ],
    ids=["ranges", "no-ranges"],
)
def test_a_large_file_is_asked_for_in_pieces(
    pull: Pull,
    hub: Hub,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    knows_ranges: bool,
    asked: list[tuple[int, int]],
) -> None:
    monkeypatch.setattr("spectui.presets.hub.PIECE_BYTES", MIB)
    hub.knows_ranges = knows_ranges
    assert pull("mine", "--file", "*-00001-of-*") == 0, pull.err
    assert [(request.start, request.stop) for request in hub.fetched] == asked
    assert (folder / FIRST).read_bytes() == BIG
    assert not pull.pauses_s


@pytest.mark.parametrize(
    "answer",
    [
        Refusal(status=200, body=b"<html>log in first</html>"),
        Refusal(status=206, body=b"x"),
        Refusal(status=206, headers=ONE_BYTE, body=b"x"),
        Refusal(status=206, headers=ANOTHER_FILE, body=b"x"),
        Refusal(status=206, headers=BACKWARDS),
        Refusal(status=203, headers={"Content-Range": f"bytes {MIB}-{MIB}/{len(BIG)}"}, body=b"x"),
    ],
    ids=["portal", "no-range", "other-range", "other-file", "backwards", "status"],
)
def test_what_is_not_the_file_is_not_written(
    pull: Pull, hub: Hub, folder: Path, answer: Refusal
) -> None:
    part = part_of(folder / FIRST, BIG)
    put(part, BIG[:MIB])
    hub.sent_first.extend([answer] * 2)
    assert pull("mine") == 3
    # Whatever stands in the way may go, but hardly after the second time.
    assert pull.pauses_s == [1]
    assert f"something else than {FIRST} was sent" in pull.error
    assert GOES_ON in pull.error
    assert part.read_bytes() == BIG[:MIB]
    assert pull("mine") == 0, pull.err
    assert (folder / FIRST).read_bytes() == BIG


def test_what_arrives_broken_is_deleted_and_named(pull: Pull, hub: Hub, folder: Path) -> None:
    hub.repos[TARGET][FIRST] = Served(content=BIG, sent=BIG[:-1] + b"?")
    assert pull("mine") == 3
    assert "Target-00001-of-00002.gguf of them/Target-GGUF arrived broken" in pull.error
    assert not list(folder.rglob("*.gguf*"))


def test_a_file_of_another_length_is_not_taken(pull: Pull, hub: Hub, folder: Path) -> None:
    hub.repos[TARGET][FIRST] = Served(content=BIG, sent=BIG + b"more")
    assert pull("mine") == 3
    length = f"{len(BIG) + 4} bytes, not {len(BIG)}"
    assert f"something else than {FIRST} was sent: {length}" in pull.error
    assert part_of(folder / FIRST, BIG).read_bytes() == b""
    assert pull.pauses_s == [1]


def test_a_hub_that_sends_one_round_in_circles_is_not_asked_for_minutes(
    pull: Pull, hub: Hub
) -> None:
    circle = f"{hub.url}/{TARGET}/resolve/{COMMIT}/{FIRST}"
    hub.file_refused = Refusal(status=302, headers={"Location": circle})
    assert pull("mine") == 3
    assert "redirect" in pull.error
    assert pull.pauses_s == [1]


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
    ("refusal", "message"),
    [
        (Refusal(status=200, body=b" " * (64 << 20)), "its listing is longer than 16 MB"),
        (
            Refusal(status=200, headers={"Content-Encoding": "gzip"}, body=gzip.compress(b"{}")),
            "its listing was sent compressed",
        ),
        (Refusal(status=200, body=ENDLESS % b",".join([b"{}"] * 60_000)), "check HF_ENDPOINT"),
        (
            Refusal(status=200, body=ENDLESS % b",".join([b'{"rfilename":"a"}'] * 50_001)),
            "check HF_ENDPOINT",
        ),
        (Refusal(status=200, body=b"[" * 10_000_000), "check HF_ENDPOINT"),
    ],
    ids=["long", "compressed", "nothing", "many", "deep"],
)
def test_a_listing_without_end_is_not_read(
    pull: Pull, hub: Hub, refusal: Refusal, message: str
) -> None:
    hub.listing_refused = refusal
    assert pull("mine") == 3
    assert message in pull.error
    assert len(hub.authorizations) == 1


def test_a_listing_that_takes_for_ever_is_left(
    pull: Pull, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spectui.presets.hub._LISTING_LONGEST_S", 0.0)
    hub.listing_refused = Refusal(status=200, body=b" " * MIB)
    assert pull("mine") == 3
    assert "its listing took longer than 0 s" in pull.error


@pytest.mark.parametrize("status", [302, 500])
@pytest.mark.parametrize("what", ["listing_refused", "file_refused"])
def test_what_a_refusal_says_is_not_read(pull: Pull, hub: Hub, what: str, status: int) -> None:
    where = {"Location": f"{hub.url}/elsewhere"} if status == 302 else {}
    setattr(hub, what, Refusal(status=status, headers=where, body=b" " * (64 << 20)))
    assert pull("mine") == 3
    assert hub.left_unread.wait(30)


@pytest.mark.parametrize(
    ("constant", "value", "message"),
    [
        ("HF_HUB_OFFLINE", True, "HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE is set"),
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
    ("variable", "message"),
    [
        ("ALL_PROXY=socks5://127.0.0.1:1", "run pip install socksio"),
        ("HTTPS_PROXY=ftp://127.0.0.1:1", "HTTP_PROXY names no proxy that can be used (Unknown"),
        ("http_proxy=127.0.0.1:port", "HTTP_PROXY names no proxy that can be used (Invalid"),
        ("SSL_CERT_FILE=/nowhere", "SSL_CERT_DIR names cannot be read (No such file"),
        ("HF_TOKEN=hf_ä", "characters that no token has"),
        ("HF_TOKEN=hf_\x01", "characters that no token has"),
        ("HF_OIDC_RESOURCE=them", "set HF_OIDC_ID_TOKEN as well"),
    ],
    ids=["socks", "scheme", "port", "certificates", "token", "control", "oidc"],
)
def test_an_environment_that_cannot_work_is_explained(
    pull: Pull,
    hub: Hub,
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
    message: str,
) -> None:
    # As where it is not installed.
    monkeypatch.setitem(sys.modules, "socksio", None)
    monkeypatch.setenv(*variable.split("="))
    assert pull("mine") == 3
    assert message in pull.error
    assert not hub.authorizations


def test_a_token_that_cannot_be_read_is_explained(
    pull: Pull, hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HF_TOKEN")
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path))
    assert pull("mine") == 3
    assert f"the token in {tmp_path} cannot be read" in pull.error
    assert not hub.authorizations


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (
            {"../../../Target-x.gguf": Served(content=SMALL)},
            "would not stay in the preset's folder",
        ),
        ({"/Target-x.gguf": Served(content=SMALL)}, "would not stay in the preset's folder"),
        ({f"Target-{'x' * 300}.gguf": Served(content=SMALL)}, "name has more than 200 bytes"),
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
    ids=["outside", "absolute", "long", "unprintable", "no-checksum", "no-match", "many", "none"],
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
