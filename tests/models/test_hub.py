"""``models find``, on a hub of loopback with tiny models."""

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spectui.models.candidates import Origin, Repository, candidates
from spectui.models.gguf import read_gguf
from spectui.models.header import GgufFile
from tests.support.architectures import write_eagle3, write_pair
from tests.support.cli import Spectui
from tests.support.hub import TOKEN, LoopbackHub, Repo, loopback_hub
from tests.support.models import Tiny, TinyPath, write_tiny

pytest_plugins = ["tests.support.fixtures", "tests.support.cli_fixtures"]

SMALL = Tiny(n_layers=1)
BIG = Tiny(n_layers=8)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackHub]:
    with loopback_hub() as one:
        constants = "huggingface_hub.constants"
        monkeypatch.setattr(f"{constants}.ENDPOINT", one.endpoint)
        template = one.endpoint + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(f"{constants}.HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(f"{constants}.HF_HUB_CACHE", str(tmp_path / "hub"))
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        monkeypatch.setattr("huggingface_hub.utils._http.time.sleep", lambda _s: None)
        yield one


@pytest.fixture
def target(tmp_path: Path, tiny: TinyPath) -> Path:
    """A target by whose file's name the hub is searched."""
    path = tmp_path / "Tiny3-8B-Q4_K_M.gguf"
    path.symlink_to(tiny(BIG))
    return path


@pytest.fixture
def small(tiny: TinyPath) -> Path:
    return tiny(SMALL)


def n_params(path: Path) -> int:
    return sum(tensor.n_elements for tensor in read_gguf(path).tensors)


def found(spectui: Spectui, target: Path, *more: object, code: int = 0) -> dict[str, Any]:
    arguments = ("models", "find", "-m", target, "-c", 256, "--quiet", *more)
    assert spectui(*arguments, "--json", "-") == code, spectui.err
    document: dict[str, Any] = json.loads(spectui.out) if code == 0 else {}
    return document


def rows(document: dict[str, Any]) -> dict[str, str | None]:
    return {model["path"]: model["reason"] for model in document["models"]}


def test_drafts_that_fit_a_target_are_found_by_their_headers_and_none_is_fetched(
    spectui: Spectui, hub: LoopbackHub, target: Path, small: Path, tmp_path: Path
) -> None:
    head, odd = tmp_path / "head.gguf", tmp_path / "odd.gguf"
    write_tiny(replace(SMALL, renamed=(100, "odd")), odd)
    write_eagle3(Tiny(), head)
    total = n_params(small)
    hub.repos = {
        "a/Tiny3-0.6B-GGUF": Repo(
            files=dict.fromkeys(("Tiny3-0.6B-Q4_0.gguf", "b-Q8_0.gguf", "mmproj.gguf"), small),
            n_params=total,
            downloads=9,
        ),
        "a/Tiny3-0.7B-GGUF": Repo(files={"odd.gguf": odd}, n_params=total + 1),
        "a/Tiny3-8B-eagle3": Repo(files={"head.gguf": head}),
        "a/Tiny3-8B-GGUF": Repo(files={"same.gguf": target}, n_params=n_params(target)),
        "a/Other-0.6B-GGUF": Repo(files={"other.gguf": small}, n_params=total),
    }
    document = found(spectui, target)
    assert rows(document) == {
        "a/Tiny3-0.6B-GGUF/b-Q8_0.gguf": None,
        "a/Tiny3-8B-eagle3/head.gguf": None,
        "a/Tiny3-0.7B-GGUF/odd.gguf": "token 100 differs: '_' (target), 'odd' (draft)",
    }
    assert document["models"][1]["facts"]["drafts_as"] == "draft-eagle3"
    fetch = "hf download a/Tiny3-0.6B-GGUF b-Q8_0.gguf"
    assert (document["command"], document["models"][0]["fetch"]) == (fetch, fetch)
    assert not (tmp_path / "hub").exists()
    # Of a file its beginning; the token goes to the hub and not where it sends them on to.
    content = hub.asked("/cdn/")
    assert all("range" in headers for headers in content)
    assert all("authorization" not in headers for headers in content)
    assert all(TOKEN in headers["authorization"] for headers in hub.asked("/api/models"))
    assert spectui("models", "find", "-m", target, "-c", 256) == 0
    assert spectui.out.count("hf download a/") == 2
    assert TOKEN not in spectui.out + spectui.err


def test_files_of_mtp_layers_are_found_by_a_targets_name(
    spectui: Spectui, hub: LoopbackHub, tmp_path: Path
) -> None:
    trunk, alone = write_pair("qwen35", tmp_path)
    target = trunk.rename(tmp_path / "Y-2B-Q4_0.gguf")
    files = {"Y-Q4_0.gguf": target, "mtp-Y.gguf": alone}
    hub.repos["q/Y-2B-GGUF"] = Repo(files=files)
    assert rows(found(spectui, target)) == {"q/Y-2B-GGUF/mtp-Y.gguf": None}
    assert spectui("models", "find", "-m", target, "-c", 256) == 0


def test_a_draft_of_a_mixture_of_experts_is_small_beside_what_a_token_reads() -> None:
    repos = [
        Repository(name=f"a/M-{size}", files=("m.gguf",), n_params=size)
        for size in (10**9, 2 * 10**9, 500_000_000, 30_000_000, None)
    ]
    origin = Origin(names=("M",), families=("M",))
    listed = candidates(origin, 3e9, lambda text, *, limit: repos[: limit * (text == "M")], 9)
    assert [one.n_params for one in listed] == [30_000_000, 500_000_000, 10**9]


def test_at_most_the_limit_of_headers_is_read_and_what_was_searched_for_is_told(
    spectui: Spectui, hub: LoopbackHub, target: Path, small: Path
) -> None:
    hub.repos = {
        f"a/Tiny3-{n}B-GGUF": Repo(files={"x.gguf": small}, n_params=n_params(small) - n)
        for n in range(9)
    }
    assert len(found(spectui, target)["models"]) == 8
    hub.repos.clear()
    assert spectui("models", "find", "-m", target) == 0
    assert "searched for Tiny-0, Tiny3-8B, Tiny3" in " ".join(spectui.out.split())


def test_what_keeps_from_the_hub_is_one_sentence(
    spectui: Spectui, hub: LoopbackHub, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    found(spectui, target, code=5)
    assert "HF_HUB_OFFLINE keeps from asking the hub; unset it" in spectui.err
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    for endpoint, reason in (
        ("hub", "HF_ENDPOINT cannot be reached"),
        ("http://127.0.0.1:1", "127.0.0.1 cannot be reached"),
    ):
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", endpoint)
        found(spectui, target, code=5)
        assert reason in spectui.err
    assert hub.requests == []


@pytest.mark.parametrize(
    "case",
    [
        ("429", "answers 429; try again later, or sign in"),
        ("500", "answers 500; try again"),
        ("odd", "the answer of 127.0.0.1 is none of a hub"),
        ("slow", "has not answered in time; try again"),
        ("401", "answers 401; try again later, or sign in"),
    ],
)
def test_a_search_that_fails_is_one_sentence(
    spectui: Spectui,
    hub: LoopbackHub,
    target: Path,
    monkeypatch: pytest.MonkeyPatch,
    case: tuple[str, str],
) -> None:
    manner, reason = case
    monkeypatch.setattr("spectui.models.hub._PATIENCE_S", 0.1)
    hub.manner = manner
    found(spectui, target, code=5)
    assert reason in spectui.err
    assert spectui.err.count("\n") == 1
    assert TOKEN not in spectui.err


@pytest.mark.parametrize(
    "case",
    [
        ("403 GatedRepo", "it is gated; accept its terms on 127.0.0.1"),
        ("404 RepoNotFound", "has no such repository, or not for you"),
        ("500", "answers 500"),
        ("cut", "127.0.0.1 cannot be reached"),
        # A server that sends no parts of files sends as much as is read.
        ("whole", "None"),
    ],
)
def test_a_repository_that_fails_is_a_row_with_its_reason(
    spectui: Spectui, hub: LoopbackHub, target: Path, small: Path, case: tuple[str, str]
) -> None:
    manner, reason = case
    total, hub.n_cut, hub.share_before_cut = n_params(small), 1, 0.01
    hub.repos = {
        "a/Tiny3-1B": Repo(files={"a.gguf": small}, n_params=total, manner=manner),
        "a/Tiny3-2B": Repo(files={"b.gguf": small}, n_params=total),
    }
    reasons = rows(found(spectui, target))
    assert reasons.pop("a/Tiny3-2B/b.gguf") is None
    assert reason in str(reasons)


def test_without_huggingface_hub_it_says_what_to_install(
    spectui: Spectui, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "spectui.models.hub", None)
    assert spectui("models", "find", "-m", target) == 2
    assert "install spectui with its extra hub" in spectui.err


def test_a_target_without_its_option_is_named_with_it(spectui: Spectui, target: Path) -> None:
    assert spectui("models", "find", target) == 2
    assert "missing option -m / --model" in spectui.err
    assert spectui("models", "find") == 2
    assert "missing option -m / --model" in spectui.err


@pytest.mark.parametrize(
    ("name", "basename", "base", "file", "families"),
    [
        ("Qwen3 32B", "Qwen3", "Qwen/Qwen3-32B", "qwen", ["Qwen3", "qwen"]),
        ("Meta Llama 3.1 70B", "Meta-Llama-3.1", "", "x-70B-Q4_0", ["Llama-3", "x"]),
        ("", "", "", "Qwen2.5-Coder-32B-Instruct-Q4_K_M-00001-of-00002", ["Qwen2"]),
        (
            "R1 Llama 70B",
            "",
            "meta/Llama-3.3-70B",
            "GLM-4.5-Air-UD-Q4_K_XL",
            ["R1", "GLM-4", "Llama-3"],
        ),
    ],
)
def test_families_are_told_by_headers_and_names_of_files(
    name: str, basename: str, base: str, file: str, families: list[str]
) -> None:
    metadata = {
        "general.name": name,
        "general.basename": basename,
        "general.base_model.0.repo_url": base and f"https://huggingface.co/{base}",
    }
    gguf = GgufFile(metadata=metadata, array_lengths={}, tensors=())
    assert list(Origin.of(gguf, f"{file}.gguf").families) == families
