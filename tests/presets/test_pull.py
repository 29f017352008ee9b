"""Fetching the models of a preset, against a hub on loopback."""

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from spectui.errors import BadInputError
from spectui.presets import find_preset
from spectui.presets.plan import (
    PullEvent,
    PullProgress,
    Step,
)
from spectui.presets.pull import PAUSES_S, Watch, plan_pull
from spectui.presets.pull import pull as pull_models
from tests.support.hub import Hub, Refusal, Served
from tests.support.pull import (
    BIG,
    CHUNK,
    DRAFT,
    FIRST,
    GOES_ON,
    MIB,
    MINE,
    SECOND,
    SMALL,
    TARGET,
    Pull,
    part_of,
    put,
    starts,
)
from tests.support.tables import table

pytest_plugins = ["tests.support.cli_fixtures", "tests.support.pull_fixtures"]


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
    # Where the hub sends for the bytes is another's server.
    assert set(hub.authorizations) == {f"Bearer {MINE}"}
    assert {request.authorization for request in hub.fetched} == {None}

    assert pull("mine") == 0, pull.err
    assert len(hub.fetched) == 3
    assert "3 files, 0 B to fetch into" in pull.err
    assert "checking" not in pull.err


def test_a_disk_that_is_too_small_is_found_before_the_first_byte(
    pull: Pull, hub: Hub, folder: Path
) -> None:
    hub.repos[TARGET][SECOND] = Served(content=BIG, claimed_bytes=10**16)
    assert pull("mine") == 3
    assert f"{folder} has " in pull.error
    assert "10,000.00 TB are still to be fetched" in pull.error
    assert not hub.fetched
    assert not folder.exists()


@table("content", [b"mine", SMALL[::-1]])
def test_a_file_of_the_users_own_is_left_as_it_is(pull: Pull, folder: Path, content: bytes) -> None:
    put(folder / "Draft.gguf", content)
    assert pull("mine") == 3
    assert f"{folder / 'Draft.gguf'} is there and is not what {DRAFT} has now" in pull.error
    assert (folder / "Draft.gguf").read_bytes() == content


def pull_draft(on_step: Callable[[Step], None]) -> None:
    """Fetch just the draft; ``on_step`` is called as a step begins."""

    def on_event(event: PullEvent) -> None:
        if isinstance(event, PullProgress) and event.done_bytes == 0:
            on_step(event.step)

    pull_models(plan_pull(find_preset("mine"), globs=("Draft.gguf",)), Watch(on_event=on_event))


@pytest.mark.usefixtures("pull")
@table("moment", list(Step))
def test_a_file_that_appears_meanwhile_is_never_replaced(folder: Path, moment: Step) -> None:
    def appear(step: Step) -> None:
        if step is moment:
            put(folder / "Draft.gguf", b"mine")

    with pytest.raises(BadInputError, match="is there and is not what"):
        pull_draft(appear)
    assert (folder / "Draft.gguf").read_bytes() == b"mine"


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


def test_what_arrives_broken_is_deleted_and_named(pull: Pull, hub: Hub, folder: Path) -> None:
    hub.repos[TARGET][FIRST] = Served(content=BIG, sent=BIG[:-1] + b"?")
    assert pull("mine") == 3
    assert "Target-00001-of-00002.gguf of them/Target-GGUF arrived broken" in pull.error
    assert not list(folder.rglob("*.gguf*"))


def test_what_is_not_the_file_is_not_written(pull: Pull, hub: Hub, folder: Path) -> None:
    part = part_of(folder / FIRST, BIG)
    for answer in (
        Refusal(status=200, body=b"<html>log in first</html>"),
        Refusal(status=206, body=b"x"),
        Refusal(status=206, headers={"Content-Range": f"bytes 0-0/{len(BIG)}"}, body=b"x"),
    ):
        put(part, BIG[:MIB])
        hub.sent_first.extend([answer] * 2)
        assert pull("mine") == 3
        assert f"something else than {FIRST} was sent" in pull.error
        assert part.read_bytes() == BIG[:MIB]
    assert pull("mine") == 0, pull.err
    assert (folder / FIRST).read_bytes() == BIG


MANY = b",".join([b'{"rfilename":"a"}'] * 50_001)


def test_a_listing_that_cannot_be_is_not_read(pull: Pull, hub: Hub, folder: Path) -> None:
    packed = {"Content-Encoding": "gzip"}
    for refusal, message in (
        (Refusal(status=401, headers={"X-Error-Code": "RepoNotFound"}), "or it is private"),
        (Refusal(status=500), "500 Internal Server Error"),
        (Refusal(status=200, body=b"<html>log in first</html>"), "check HF_ENDPOINT"),
        (Refusal(status=200, body=b" " * (64 << 20)), "its listing is longer than 16 MB"),
        (Refusal(status=200, headers=packed, body=gzip.compress(b"{}")), "was sent compressed"),
        (Refusal(status=200, body=b'{"siblings": [%b]}' % MANY), "check HF_ENDPOINT"),
        (Refusal(status=200, body=b"[" * 10_000_000), "check HF_ENDPOINT"),
    ):
        hub.listing_refused = refusal
        assert pull("mine") == 3
        assert message in pull.error
        assert not folder.exists()


def test_what_the_hub_names_is_not_trusted(pull: Pull, hub: Hub, home: Path) -> None:
    before = sorted(home.parent.rglob("*"))
    for name, message in (
        ("../../../Target-x.gguf", "would not stay in the preset's folder"),
        ("/Target-x.gguf", "would not stay in the preset's folder"),
        (f"Target-{'x' * 300}.gguf", "name has more than 200 bytes"),
        ("Target-\x1b[2J.gguf", "'Target-\\x1b[2J.gguf'"),
        ("Tarket.gguf", f"no file of {TARGET} matches Target-*.gguf: it has Tarket.gguf"),
    ):
        hub.repos[TARGET] = {name: Served(content=SMALL)}
        assert pull("mine") == 3
        assert message in pull.error
    assert not hub.fetched
    assert sorted(home.parent.rglob("*")) == before
