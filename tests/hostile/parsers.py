"""What reads files and answers of others, with seeds to mutate.

Used by the property tests beside it, and by ``benchmarks.soak_inputs``.
"""

import gzip
import hashlib
import json
import tempfile
import tomllib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from spectui.commands.lint.checking import check, lint
from spectui.commands.reader import Reader
from spectui.commands.sources.reading import read_command
from spectui.commands.takeover import take_over
from spectui.live.sessions import read_session, recent_sessions
from spectui.models.gguf import read_gguf
from spectui.options.option import Dialect
from spectui.presets import find_preset
from spectui.prompts import load_prompts
from spectui.server.binary import read_help, read_version
from spectui.server.connection import MalformedError, Page
from spectui.server.metrics import read_counters
from spectui.server.replies import (
    Completion,
    ModelsReply,
    PropsReply,
    SlotsReply,
    TokenizeReply,
)
from spectui.settings import read_settings
from spectui.sweep.store import SweepStore
from spectui.trace.file import read_trace
from tests.support.models import TARGET, write_tiny

TESTS = Path(__file__).parents[1]
STORED = TESTS / "golden" / "stored"
ROOT = TESTS.parent
_SESSION, _SWEEP = STORED / "session.jsonl", STORED / "sweep.jsonl"
_TRACES = sorted(STORED.glob("*.trace.json.gz"))
_GZIP = b"\x1f\x8b"
_ENVELOPE = b'{"schema"'
_REPLIES = (
    (
        b'{"content":"x","tokens":[1,2],"stop_type":"limit","timings":{"predicted_n":2,'
        b'"predicted_ms":9.0,"prompt_ms":1.0,"draft_n":4,"draft_n_accepted":1}}'
    ),
    (
        b'[{"id":0,"n_ctx":5,"speculative":true,"is_processing":true,"id_task":1,'
        b'"params":{"speculative.types":"draft"},"next_token":[{"n_decoded":1,"n_remain":-1}]}]'
    ),
    b'{"data":[{"id":"a","status":{"value":"loaded","args":["--port","8080"]}}]}',
    (
        b"# TYPE llamacpp:prompt_tokens_total counter\nllamacpp:prompt_tokens_total 400\n"
        b'llamacpp:spec_decode_num_accepted_tokens_per_pos_total{position="0"} 50\n'
    ),
    (
        b"-m,    --model FNAME                    model path to load (default: x)\n"
        b"                                        (env: LLAMA_ARG_MODEL)\nversion: 1 (abc)\n"
    ),
)


def _command(path: Path) -> None:
    command = read_command(str(path))
    check(command, Reader(dialect=Dialect.LLAMA_CPP))
    lint(command, Reader(dialect=Dialect.IK))
    take_over(command, other_drafts=True, through_server=True)


def _reply(path: Path) -> None:
    page = Page(path="/x", content=path.read_bytes())
    for kind in (Completion, ModelsReply, PropsReply, SlotsReply, TokenizeReply):
        with suppress(MalformedError):
            page.decode(kind)
    text = path.read_bytes().decode("utf-8", "replace")
    with suppress(ValueError):
        read_counters(text)
    read_help(text)
    read_version(text)


def _session(path: Path) -> None:
    recent_sessions(1, path.parent)
    read_session(path)


def _sweep(path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPECTUI_HOME", str(path.parent / "home"))
        log = path.parent / "home" / "data" / "sweeps" / "a" / "cells.jsonl"
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_bytes(path.read_bytes())
        # As that of the stored one, so that its lines are looked at.
        SweepStore("a", json.loads(_SWEEP.read_bytes().split(b"\n")[0])["spec"]).close()


def _trace(path: Path) -> None:
    content = path.read_bytes()
    if not content.startswith(_GZIP):
        # Of what was mutated before it was packed, and then digested, more is looked at.
        if not content.startswith(_ENVELOPE):
            digest = hashlib.sha256(content).hexdigest().encode()
            head = b'%b:"spectui.trace/4","sha256":"%b","trace":' % (_ENVELOPE, digest)
            content = head + content + b"}"
        path.write_bytes(gzip.compress(content, 1))
    read_trace(path)


def _traces() -> list[bytes]:
    return [*_of(*_TRACES), *map(gzip.decompress, _of(*_TRACES)), *_undigested_traces()]


def _undigested_traces() -> list[bytes]:
    envelopes = map(gzip.decompress, _of(*_TRACES))
    return [content.partition(b'"trace":')[2][:-1] for content in envelopes]


def _settings(path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPECTUI_HOME", str(path.parent))
        (path.parent / "config").mkdir(exist_ok=True)
        (path.parent / "config" / "config.toml").write_bytes(path.read_bytes())
        read_settings()


def _commands() -> list[bytes]:
    """All texts of the corpus of commands."""
    files = sorted((TESTS / "golden" / "corpus").glob("*.toml"))
    tables = (tomllib.loads(file.read_text()) for file in files)
    return [one["command"].encode() for table in tables for one in table.values()]


def _of(*paths: Path) -> list[bytes]:
    return [path.read_bytes() for path in paths]


def _headers() -> list[bytes]:
    with tempfile.NamedTemporaryFile() as file:
        write_tiny(TARGET, Path(file.name))
        content = Path(file.name).read_bytes()
    return [content[:8192], content]


@dataclass(frozen=True)
class Parser:
    """A reader of files, and what it is given."""

    read: Callable[[Path], object]
    """Raises a ``SpectuiError`` where it refuses the file."""
    name: str
    """Of the file."""
    seeds: Callable[[], list[bytes]]
    """Contents that it takes, or nearly."""
    stays_json: bool = False
    """Whether mutations leave JSON, or lines of it: then more than the decoder is reached."""


PARSERS = {
    "command": Parser(_command, "a.txt", _commands),
    "prompts": Parser(
        load_prompts,
        "a.jsonl",
        lambda: [b'{"id": "a", "prompt": "b"}\n{"messages": [{"role": "user", "content": "c"}]}\n'],
    ),
    "session": Parser(_session, "a.jsonl", lambda: _of(_SESSION)),
    "sweep": Parser(_sweep, "a.jsonl", lambda: _of(_SWEEP)),
    "trace": Parser(_trace, "a.trace.json.gz", _traces),
    "preset": Parser(
        lambda path: find_preset(str(path)),
        "a.toml",
        lambda: _of(*sorted((ROOT / "presets").glob("*.toml"))),
    ),
    "settings": Parser(_settings, "a.toml", lambda: _of(STORED / "config.toml")),
    "reply": Parser(_reply, "a.json", lambda: list(_REPLIES)),
    "header": Parser(read_gguf, "a.gguf", _headers),
    "trace's values": Parser(_trace, "a.trace.json.gz", _undigested_traces, stays_json=True),
    "session's values": Parser(_session, "a.jsonl", lambda: _of(_SESSION), stays_json=True),
    "sweep's values": Parser(_sweep, "a.jsonl", lambda: _of(_SWEEP), stays_json=True),
}
"""By what they read."""
TOKENS = [
    *(b"\0", b"\xff", b"\n", b'"', b"'", b"[", b"]" * 9, b"{", b"}", b"<<: *a\n", b"&a ", b"*a"),
    *(b"9" * 40, b"-1", b"1e999", b"NaN", b"null", b"true", b"!!int x", b"!!timestamp 2020-13-45"),
    *(b"$(", b"${A:-", b"$A", b"`", b"\\", b"\x1b]0;t\x07", b"\xed\xa0\x80", b"\xe2\x80\xae"),
    *(one * 5000 for one in (b"/", b"[", b"{", b"(")),
    *(b"= ", b"[[a]]\n", b"2020-01-01", b"%", b"-ot ", b"="),
]
