"""Mutated files of every kind: each is read, or refused in a sentence."""

import tomllib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spectui.commands.lint.checking import fixed, lint
from spectui.commands.reader import Reader
from spectui.commands.sources.reading import read_command
from spectui.commands.takeover import take_over
from spectui.errors import SpectuiError
from spectui.models.gguf import read_gguf
from spectui.monitor.recording import load
from spectui.options.dialect import Dialect
from spectui.presets import find_preset
from spectui.prompts import load_prompts
from spectui.server.connection import MalformedError, Page
from spectui.server.replies import (
    CompletionReply,
    ModelsReply,
    PropsReply,
    SlotsReply,
    TokenizeReply,
)
from spectui.sessions import read_session, recent_sessions
from spectui.settings import read_settings
from spectui.sweep.grid import find_grid
from spectui.sweep.store import SweepStore
from spectui.trace.file import read_trace
from tests.support.models import TARGET, TinyPath

pytest_plugins = ["tests.support.fixtures"]
TESTS = Path(__file__).parents[1]
STORED = TESTS / "golden" / "stored"
ROOT = TESTS.parent


def _command(path: Path) -> None:
    command = read_command(str(path))
    fixed(command, Reader(dialect=Dialect.LLAMA_CPP))
    lint(command, Reader(dialect=Dialect.IK))
    take_over(command, other_drafts=True, through_server=True)


def _reply(path: Path) -> None:
    page = Page(path="/x", content=path.read_bytes(), headers={})  # type: ignore[arg-type] # unread
    for kind in (CompletionReply, ModelsReply, PropsReply, SlotsReply, TokenizeReply):
        with suppress(MalformedError):
            page.decode(kind)


def _session(path: Path) -> None:
    recent_sessions(1, path.parent)
    read_session(path)


def _sweep(path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPECTUI_HOME", str(path.parent / "home"))
        log = path.parent / "home" / "data" / "sweeps" / "a" / "cells.jsonl"
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_bytes(path.read_bytes())
        SweepStore("a", {}).close()


def _settings(path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPECTUI_HOME", str(path.parent))
        (path.parent / "config").mkdir(exist_ok=True)
        (path.parent / "config" / "config.toml").write_bytes(path.read_bytes())
        read_settings()


def _commands() -> list[bytes]:
    """All texts of the corpus of commands, and all files."""
    found: list[bytes] = []
    for file in sorted((TESTS / "golden" / "corpus").glob("*.toml")):
        for case in tomllib.loads(file.read_text()).values():
            texts = [case["command"], *case.get("files", {}).values()]
            found += [text.encode() for text in texts if isinstance(text, str)]
    return found


def _of(*paths: Path) -> list[bytes]:
    return [path.read_bytes() for path in paths]


SEEDS: dict[str, tuple[Callable[[Path], object], str, list[bytes]]] = {
    "command": (_command, "a.txt", _commands()),
    "prompts": (
        load_prompts,
        "a.jsonl",
        [b'{"id": "a", "prompt": "b"}\n{"messages": [{"role": "user", "content": "c"}]}\n'],
    ),
    "session": (_session, "a.jsonl", _of(STORED / "session.jsonl")),
    "sweep": (_sweep, "a.jsonl", _of(STORED / "sweep.jsonl")),
    "trace": (read_trace, "a.trace.json.gz", _of(*sorted(STORED.glob("*.trace.json.gz")))),
    "recording": (load, "a.jsonl", [(TESTS / "data" / "monitor-gpu.jsonl").read_bytes()[:20_000]]),
    "preset": (
        lambda path: find_preset(str(path)),
        "a.toml",
        _of(*sorted((ROOT / "presets").glob("*.toml"))),
    ),
    "grid": (
        lambda path: find_grid(str(path)),
        "a.toml",
        _of(*sorted((ROOT / "spectui" / "sweep" / "grids").glob("*.toml"))),
    ),
    "settings": (_settings, "a.toml", _of(STORED / "config.toml")),
    "reply": (
        _reply,
        "a.json",
        [
            (
                b'{"content":"x","tokens":[1,2],"stop_type":"limit","timings":{"predicted_n":2,'
                b'"predicted_ms":9.0,"prompt_ms":1.0,"draft_n":4,"draft_n_accepted":1}}'
            ),
            (
                b'[{"id":0,"n_ctx":5,"speculative":true,"is_processing":true,"id_task":1,'
                b'"params":{"speculative.types":"draft"},"next_token":[{"n_decoded":1,"n_remain":-1}]}]'
            ),
            b'{"data":[{"id":"a","status":{"value":"loaded","args":["--port","8080"]}}]}',
        ],
    ),
}
TOKENS = [
    *(b"\0", b"\xff", b"\n", b'"', b"'", b"[", b"]" * 9, b"{", b"}", b"<<: *a\n", b"&a ", b"*a"),
    *(b"9" * 40, b"-1", b"1e999", b"NaN", b"null", b"true", b"!!int x", b"!!timestamp 2020-13-45"),
    *(
        b"$(",
        b"${A:-",
        b"$A",
        b"`",
        b"\\",
        b"\x1b]0;t\x07",
        b"\xed\xa0\x80",
        b"\xe2\x80\xae",
        b"/" * 5000,
    ),
    *(b"[" * 5000, b"{" * 5000, b"(" * 5000, b"= ", b"[[a]]\n", b"2020-01-01", b"%", b"-ot ", b"="),
]


@st.composite
def _mutated(draw: st.DrawFn, seeds: list[bytes]) -> bytes:
    content = draw(st.sampled_from(seeds))
    for _ in range(draw(st.integers(1, 4))):
        start, length = draw(st.integers(0, len(content))), draw(st.integers(0, 30))
        part = draw(
            st.sampled_from(TOKENS)
            | st.binary(max_size=4)
            | st.just(content[start : start + draw(st.integers(0, 200))])
        )
        content = content[:start] + part + content[start + length :]
    return content


@pytest.mark.parametrize("kind", SEEDS)
def test_a_mutated_file_is_read_or_refused(kind: str, tmp_path: Path) -> None:
    read, name, seeds = SEEDS[kind]

    @settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
    @given(_mutated(seeds))
    def holds(content: bytes) -> None:
        path = tmp_path / name
        path.write_bytes(content)
        with suppress(SpectuiError):
            read(path)

    holds()


def test_a_mutated_header_is_read_or_refused(tiny: TinyPath, tmp_path: Path) -> None:
    seed = tiny(TARGET).read_bytes()

    @given(_mutated([seed[:8192], seed]))
    def holds(content: bytes) -> None:
        path = tmp_path / "a.gguf"
        path.write_bytes(content)
        with suppress(SpectuiError):
            read_gguf(path)

    holds()
