"""A hub, a preset and the command that fetches it as fixtures.

Test modules take them with ``pytest_plugins``, with those of the command line.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from huggingface_hub import close_session, constants

from tests.support.hub import Hub, Served, serving
from tests.support.pull import (
    BIG,
    DRAFT,
    FIRST,
    MINE,
    PRESET,
    SECOND,
    SMALL,
    TARGET,
    Pull,
    is_ambient,
)


@pytest.fixture
def hub() -> Iterator[Hub]:
    """A hub with the models of the preset."""
    with serving() as hub:
        hub.repos[TARGET] = {
            FIRST: Served(content=BIG),
            SECOND: Served(content=BIG[::-1]),
            "Q4_0/Other.gguf": Served(content=b"other"),
            "README.md": Served(content=b"read me"),
        }
        hub.repos[DRAFT] = {"Draft.gguf": Served(content=SMALL)}
        yield hub


@pytest.fixture
def preset_path(home: Path) -> Path:
    """A preset of one's own."""
    path = home / "config" / "presets" / "mine.toml"
    path.parent.mkdir(parents=True)
    path.write_text(PRESET)
    return path


@pytest.fixture
def folder(home: Path) -> Path:
    """Where its models belong."""
    return home / "cache" / "models" / "mine"


@pytest.fixture
def pull(
    preset_path: Path, hub: Hub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Pull]:
    """In this process, where huggingface_hub has read its variables long ago."""
    assert preset_path.is_file()
    for name in filter(is_ambient, list(os.environ)):
        monkeypatch.delenv(name)
    monkeypatch.setenv("HF_TOKEN", MINE)
    for name, value in (("HF_HUB_DISABLE_TELEMETRY", "1"), ("HF_HUB_VERBOSITY", "error")):
        # The command would set them, and leave them set.
        monkeypatch.setenv(name, value)
    values = {
        "ENDPOINT": hub.url,
        "HUGGINGFACE_CO_URL_TEMPLATE": f"{hub.url}/{{repo_id}}/resolve/{{revision}}/{{filename}}",
        "HF_HUB_DISABLE_TELEMETRY": True,
        "HF_HUB_DISABLE_IMPLICIT_TOKEN": False,
        "HF_HUB_OFFLINE": False,
        "HF_HUB_USER_AGENT_ORIGIN": None,
    }
    for name, constant in values.items():
        monkeypatch.setattr(constants, name, constant)
    pull = Pull(monkeypatch, capsys)
    # Proxies and certificates are read when the client is made.
    close_session()
    yield pull
    close_session()
