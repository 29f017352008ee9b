"""Fetching the models of a preset, against a hub on loopback."""

from pathlib import Path

import pytest
from huggingface_hub import constants

from spectui.presets import find_preset
from tests.support.hub import Hub, Refusal, Served
from tests.support.pull import BIG, DRAFT, FIRST, MINE, SECOND, SMALL, TARGET, Pull, put

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
    preset = find_preset("mine")
    assert preset.is_ready
    assert preset.find_target() == paths[0]
    # Where the hub sends for the bytes is another's server.
    assert set(hub.authorizations) == {f"Bearer {MINE}"}
    assert {request.authorization for request in hub.fetched} == {None}

    assert pull("mine", "--quiet") == 0, pull.err
    assert len(hub.fetched) == 3
    assert pull.err == ""


def test_a_disk_that_is_too_small_is_found_before_the_first_byte(
    pull: Pull, hub: Hub, folder: Path
) -> None:
    hub.repos[TARGET][SECOND] = Served(content=BIG, claimed_bytes=10**16)
    assert pull("mine") == 3
    assert f"{folder} has " in pull.error
    assert "10,000.00 TB are still to be fetched" in pull.error
    assert not hub.fetched
    assert not folder.exists()


def test_a_file_of_the_users_own_is_left_as_it_is(pull: Pull, folder: Path) -> None:
    put(folder / "Draft.gguf", b"mine")
    assert pull("mine") == 3
    assert f"{folder / 'Draft.gguf'} is there and is not what {DRAFT} has now" in pull.error
    assert (folder / "Draft.gguf").read_bytes() == b"mine"


def test_what_arrives_with_another_size_gets_no_name(pull: Pull, hub: Hub, folder: Path) -> None:
    hub.repos[TARGET][FIRST] = Served(content=BIG, sent=BIG[:-1])
    assert pull("mine") == 3
    assert f"{TARGET} cannot be fetched (" in pull.error
    assert not list(folder.rglob("*.gguf"))


def test_a_hub_that_refuses_is_one_sentence(pull: Pull, hub: Hub, folder: Path) -> None:
    for refusal, message in (
        (Refusal(status=401, headers={"X-Error-Code": "RepoNotFound"}), "or it is private"),
        (Refusal(status=403, headers={"X-Error-Code": "GatedRepo"}), "accepted its licence"),
        (Refusal(status=403), "may not be read (403 Forbidden)"),
        (Refusal(status=500), "500 Internal Server Error"),
        (Refusal(status=200, body=b"<html>log in first</html>"), "check the network, HF_ENDPOINT"),
        (Refusal(status=200, body=b"[]"), "check the network, HF_ENDPOINT"),
    ):
        hub.listing_refused = refusal
        assert pull("mine") == 3
        assert message in pull.error
    hub.listing_refused, hub.file_refused = None, Refusal(status=403)
    assert pull("mine") == 3
    assert "may not be read (403 Forbidden)" in pull.error
    assert not list(folder.rglob("*.gguf"))


@pytest.mark.parametrize(
    ("name", "value"), [("HF_TOKEN", "hf_\N{HORIZONTAL ELLIPSIS}"), ("ALL_PROXY", "socks9://x")]
)
def test_an_environment_that_cannot_be_is_one_sentence(
    pull: Pull, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    assert pull("mine") == 3
    assert "check the network, HF_ENDPOINT, HF_TOKEN, proxies" in pull.error
    assert "hf_" not in pull.error


def test_offline_it_says_which_variable_is_set(pull: Pull, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert pull("mine") == 3
    assert "HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE is set" in pull.error


def test_what_the_hub_names_is_not_trusted(pull: Pull, hub: Hub, home: Path) -> None:
    before = sorted(home.parent.rglob("*"))
    for name, message in (
        ("../../../Target-x.gguf", "would not stay in the preset's folder"),
        ("/Target-x.gguf", "would not stay in the preset's folder"),
        ("Target-\x1b[2J.gguf", f"no file of {TARGET} matches Target-*.gguf: it has no .gguf"),
        ("Tarket.gguf", f"no file of {TARGET} matches Target-*.gguf: it has Tarket.gguf"),
    ):
        hub.repos[TARGET] = {name: Served(content=SMALL)}
        assert pull("mine") == 3
        assert message in pull.error
    assert not hub.fetched
    assert sorted(home.parent.rglob("*")) == before
