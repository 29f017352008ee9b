"""The one place of the golden net that knows what is inside: adapt it, not the tests.

Commands run in this process, through the program's entry, in a folder whose path is always as long,
on tiny models. Time is virtual: it passes when llama.cpp decodes, by a fixed amount per model and
batch, so that every speed, forecast, trace and verdict is the same on every run and machine.
"""

import json
import os
import re
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeAlias, TypedDict, Unpack

import psutil
import pytest

from spectui import __version__
from spectui.engine.thread import EngineThread
from spectui.llama.library import C, library, llama_cpp_version
from tests.support import attached
from tests.support.cli import Spectui
from tests.support.engine import have_models_here
from tests.support.machine import QUIET, seen_by_watches
from tests.support.models import (
    CLOSE_DRAFT,
    MOE,
    OTHER,
    ROUGH_DRAFT,
    TARGET,
    Tiny,
    write_empty,
)
from tests.support.scripted_server import write_server

PLACE = "/the/place/of/a/test"
"""Stands for the folder of a test, which is as long: tables and line breaks stay as they are."""
COLUMNS = 80
_SOURCE = Path(__file__).parents[2]

MODELS = {
    "target": TARGET,
    "twin": TARGET,
    "close": CLOSE_DRAFT,
    "rough": ROUGH_DRAFT,
    "other": OTHER,
    "moe": MOE,
    "misfit": Tiny(n_extra=200),
}
PROMPTS = (
    ("a", "x", "the rain on the other tin ring"),
    ("b", "x", "one to the other, then on"),
    ("c", "y", "there?"),
    ("d", "y", "all in one ring"),
    ("e", "y", "hello there"),
    ("f", "x", "in the tin on the ring"),
    ("g", "y", "a tin of rain"),
    ("h", "x", "on and on in the rain"),
    ("i", "y", "she sells the other ring"),
    ("j", "x", "in it, on it, at it"),
)


# --- Time -------------------------------------------------------------------------------------

_TICKS_PER_S = 1 << 40
"""A power of two: sums and differences of times are exact."""

Foreign: TypeAlias = Any
"""What ctypes passes on."""
Cost = Callable[[str, int], float]
"""Seconds of a decode of so many tokens with the model of that name."""


_TARGETS = frozenset({"target", "moe"})


def memory_bound(model: str, n_tokens: int) -> float:
    """A batch costs little more than a token, and a draft a tenth: speculation pays."""
    return (0.001 if model not in _TARGETS else 0.010) * (1 + 0.04 * (n_tokens - 1))


def slight(model: str, n_tokens: int) -> float:
    """A long batch costs nearly as much as its tokens one by one: a gain of about 30 %."""
    return 0.010 * (1 + 0.7 * (n_tokens - 1)) if model in _TARGETS else 0.0005


def compute_bound(model: str, n_tokens: int) -> float:
    """Every token of a batch costs as much as the first: speculation does not pay."""
    return (0.002 if model not in _TARGETS else 0.010) * n_tokens


def even(model: str, n_tokens: int) -> float:
    """Somewhere between: what is gained is about what is lost."""
    return (0.002 if model not in _TARGETS else 0.010) * (1 + 0.45 * (n_tokens - 1))


class VirtualTime:
    """A clock that advances when llama.cpp decodes, and at no other time."""

    def __init__(self, cost: Cost) -> None:
        self.cost = cost
        self._ticks = 0
        self._lock = threading.Lock()
        self._name_of_model: dict[int, str] = {}
        self._name_of_context: dict[int, str] = {}

    def __call__(self) -> float:
        return self._ticks / _TICKS_PER_S

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        load, begin = C.llama_model_load_from_file, C.llama_init_from_model
        decode = C.llama_decode

        def loaded(path: bytes, *arguments: Foreign) -> Foreign:
            model = load(path, *arguments)
            if model:
                self._name_of_model[_address(model)] = Path(os.fsdecode(path)).stem
            return model

        def begun(model: Foreign, *arguments: Foreign) -> Foreign:
            context = begin(model, *arguments)
            if context:
                name = self._name_of_model.get(_address(model), "")
                self._name_of_context[_address(context)] = name
            return context

        def decoded(context: Foreign, batch: Foreign) -> Foreign:
            status = decode(context, batch)
            seconds = self.cost(self._name_of_context[_address(context)], batch.n_tokens)
            with self._lock:
                self._ticks += round(seconds * _TICKS_PER_S)
            return status

        monkeypatch.setattr(C, "llama_model_load_from_file", loaded)
        monkeypatch.setattr(C, "llama_init_from_model", begun)
        monkeypatch.setattr(C, "llama_decode", decoded)
        monkeypatch.setattr(time, "perf_counter", self)
        # What a thread waits for another is the machine's.
        defaults = EngineThread.__init__.__kwdefaults__
        assert defaults is not None
        monkeypatch.setitem(defaults, "clock", self)


def _address(pointer: Foreign) -> int:
    return int(pointer) if isinstance(pointer, int) else int(getattr(pointer, "value", 0) or 0)


# --- The machine ------------------------------------------------------------------------------


def install_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let hardware and surroundings be the same everywhere."""
    memory = psutil.virtual_memory()._replace(total=32 << 30, available=16 << 30)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory)
    monkeypatch.setattr("spectui.engine.demand.free_ram", lambda: memory.available)
    monkeypatch.setattr(psutil, "cpu_count", lambda logical=True: 8 if logical else 4)
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    usage = shutil.disk_usage("/")._replace(total=200 << 30, used=100 << 30, free=100 << 30)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage)
    for name, value in _MEASURED.items():
        monkeypatch.setattr(name, lambda *_, value=value: value)
    seen_by_watches(monkeypatch, QUIET)
    for name in list(os.environ):
        if name.startswith(("LLAMA_", "SPECTUI_", "HF_", "GGML_")) or name in _TERMINAL:
            monkeypatch.delenv(name)
    monkeypatch.setenv("GGML_NO_BACKTRACE", "1")
    # The machine of another process would be the real one.
    have_models_here(monkeypatch)


_MEASURED = {
    "spectui.monitor.machine._cpu_name": "A processor",
    "spectui.monitor.machine._gpus": ((), None, None),
    "psutil.Process.name": "python",
    "spectui.cores.usable_processors": 1 << 16,
    "spectui.cli.run_tune.find_server": Path("llama-server"),
    "spectui.llama.search._running": (),
    "spectui.llama.native.wide_features": (),
    "spectui.doctor.page._unused_lines": (),
    "spectui.doctor.examination.ram_limit": 12.5e9,
}
"""What functions say of the machine, by their names inside."""
_TERMINAL = ("NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "TTY_COMPATIBLE", "LINES")


# --- The command line -------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Said:
    line: str
    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        """One text: the command line, its exit code and both streams."""
        parts = [f"$ {self.line}", f"exit code {self.code}"]
        parts += [f"--- {name}\n{text}" for name, text in (("out", self.out), ("err", self.err))]
        return "\n".join(part.rstrip("\n") for part in parts).rstrip("\n") + "\n"

    @property
    def document(self) -> str:
        return document_text(self.out)


class Ways(TypedDict, total=False):
    """How a scripted server behaves."""

    manner: str
    """That of ``tests.support.scripted_server``."""
    n_good: int
    """Answers before that shows."""
    on_ms: float
    """What a token takes with speculation; without it, 10."""
    parts: bool
    """Whether the output is another one with speculation."""


class Place:
    """A folder with models, prompts and servers, in which commands run."""

    def __init__(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self.folder = folder
        self._monkeypatch = monkeypatch
        self._spectui = Spectui(monkeypatch, capsys)
        monkeypatch.setenv("COLUMNS", str(COLUMNS))
        self.time = VirtualTime(memory_bound)
        self.time.install(monkeypatch)
        self._at: tuple[str, Callable[[], None]] | None = None

    def run(self, *arguments: object) -> Said:
        """Run a command; texts are normalised."""
        with self._listening():
            code = self._spectui(*arguments)
        return Said(
            line=self.normal(" ".join(["spectui", *map(str, arguments)])),
            code=code,
            out=self.normal(self._spectui.out),
            err=self.normal(self._spectui.err),
        )

    @contextmanager
    def _listening(self) -> Iterator[None]:
        write, (awaited, then) = sys.stderr.write, self._at or ("", lambda: None)
        self._at = None

        def written(text: str) -> int:
            n = write(text)
            if awaited in text:
                then()
            return n

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys.stderr, "write", written)
            yield

    def both(self, name: str, *arguments: object) -> dict[str, str]:
        """What a command says to people, and the document that it writes, as two files."""
        said = self.run(*arguments, "--json", "result.json")
        texts = {f"{name}.txt": said.text}
        if (self.folder / "result.json").exists():
            texts[f"{name}.json"] = self.read("result.json")
            (self.folder / "result.json").unlink()
        return texts

    def page(self, name: str, *arguments: object) -> dict[str, str]:
        return {f"{name}.txt": self.run(*arguments).text}

    def pages(self, **commands: tuple[object, ...]) -> dict[str, str]:
        texts = (self.page(name.replace("_", "-"), *words) for name, words in commands.items())
        return dict(item for text in texts for item in text.items())

    def read(self, name: str) -> str:
        """A file that a command wrote, normalised; a document as ``document_text``."""
        text = self.normal((self.folder / name).read_text("utf-8"))
        return document_text(text) if name.endswith(".json") else text

    def server(self, name: str, **ways: Unpack[Ways]) -> None:
        """Write a program that passes for llama-server; see ``tests.support.scripted_server``."""
        self._monkeypatch.setattr("tests.support.scripted_server.ON_MS", ways.get("on_ms", 8.0))
        n_good = ways.get("n_good", 1_000_000)
        path = write_server(self.folder / name, ways.get("manner", "is good"), n_good=n_good)
        if ways.get("parts", False):
            source = path.read_text("utf-8")
            assert source.count(_TOKENS) == 1
            path.write_text(source.replace(_TOKENS, "[t + is_on for t in range(n)]"), "utf-8")

    def at(self, text: str, then: Callable[[], None]) -> None:
        """Do something as soon as this is written to stderr by the next command."""
        self._at = text, then

    def interrupt_at(self, text: str) -> None:
        self.at(text, lambda: signal.raise_signal(signal.SIGINT))

    def write_bad_files(self) -> None:
        """Files that are not what their names say."""
        (self.folder / "text.gguf").write_text("not a model")
        (self.folder / "empty.gguf").touch()
        write_empty(self.folder / "header.gguf")
        whole = (self.folder / "target.gguf").read_bytes()
        (self.folder / "truncated.gguf").write_bytes(whole[: len(whole) * 2 // 3])
        for name, text in _BAD_TEXTS.items():
            (self.folder / name).write_text(text)

    def normal(self, text: str) -> str:
        """Mask what is this run's or this machine's own."""
        return normal(text.replace(str(self.folder), PLACE).replace(str(_SOURCE), "/the/source"))


_TOKENS = "list(range(n))"
"""What the scripted server outputs."""
_BAD_TEXTS = {
    "broken.jsonl": '{"prompt": "fine"}\n{"prompt": 3}\n',
    "long.jsonl": json.dumps({"id": "long", "prompt": "ring " * 300}),
    "empty.jsonl": "",
    "unknown-option.toml": "[options]\nspeed = 3",
    "wrong-value.toml": "[options]\ndraft-max = 'many'",
    "wrong-type.toml": "options = 3",
    "unknown-table.toml": "[option]\nctx-size = 1",
    "unclosed.toml": "[options",
    "out-of-range.toml": "[options]\nctx-size = -1",
    "no-switch.toml": "[options]\nno-mmap = 1",
    "many-options.toml": "[options]\nmodel = 'none.gguf'\ndraft-max = 8\nspec-type = 'ngram-mod'",
    "run.sh": "llama-server -m target.gguf",
    "twice.toml": "[options]\ncache-type-k-draft = 'q8_0'\nspec-draft-type-k = 'f16'",
}


@contextmanager
def furnished(models: Path) -> Iterator[Path]:
    """A folder with all of that, whose path is as long as ``PLACE``."""
    folder = Path(tempfile.mkdtemp(prefix="golden-", dir="/tmp"))
    assert len(str(folder)) == len(PLACE)
    try:
        for path in models.iterdir():
            (folder / path.name).hardlink_to(path)
        lines = [
            json.dumps({"id": name, "category": category, "prompt": text})
            for name, category, text in PROMPTS
        ]
        (folder / "prompts.jsonl").write_text("\n".join(lines[:6]))
        (folder / "ten.jsonl").write_text("\n".join(lines))
        more = [
            json.dumps({"id": f"{name}2", "category": category, "prompt": f"{text} again"})
            for name, category, text in PROMPTS[:6]
        ]
        (folder / "sixteen.jsonl").write_text("\n".join((*lines, *more)))
        yield folder
    finally:
        shutil.rmtree(folder)


# --- Others that are spoken to ----------------------------------------------------------------


def scripted_answers(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, str]]:
    """Servers on another machine, by name: each gives its address."""
    # This process listens, and has llama.cpp loaded.
    monkeypatch.setattr("spectui.server.watch.locator.runs_llama", lambda _process: False)
    changes: dict[str, dict[str, attached.Play]] = {
        "all": {},
        "no-metrics": {"/metrics": attached.error(501, "off")},
        "no-slots": {"/slots": attached.error(501, "off")},
        "no-props": {"/props": attached.error(501, "off")},
        "no-drafts": {"/metrics": attached.page(attached.metrics_text(attached.OLD_METRICS))},
        "loading": {"/health": attached.error(503, "Loading model")},
        "locked": {name: attached.error(401, "Invalid API Key") for name in _PAGES},
        "no-server": {name: attached.page("hello") for name in _PAGES},
    }
    for name, plays in changes.items():
        with attached.serving() as script:
            script.plays |= plays
            yield name, script.address


_PAGES = ("/health", "/props", "/v1/models", "/metrics", "/slots")


# --- What is masked ---------------------------------------------------------------------------


_LIBRARY_PLACE = str(library()).rpartition(" of ")[2]
"""Where results say that this machine's library is from."""
_MASKED = (
    (re.compile(r"its library:\s[^()]+\([\w-]+\)"), "its library: <file>"),
    (re.compile(rf"(?<=> of ){re.escape(_LIBRARY_PLACE)}"), "<library>"),
    (re.compile(re.escape(version("llama-cpp-python"))), "<llama-cpp-python>"),
    (re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?)?"), "<date>"),
    (re.compile(r"(127\.0\.0\.1|localhost|--port)([: ])\d+"), r"\1\2<port>"),
    (re.compile(re.escape(llama_cpp_version())), "<llama.cpp>"),
    (re.compile(r'("engine_commit": ?")[^"]+'), r"\1<commit>"),
    (re.compile(r"\(commit (?!c0ffee12)[0-9a-f]+\)"), "(commit <commit>)"),
    (re.compile(r"listens at port \d{5}"), "listens at port 12345"),
    (re.compile(r"%, [\d.]+ [kMG]?B/s, [^,]+ left,"), "%, <rate>,"),
    (re.compile(r" / busy'"), "'"),
    (re.compile(r"about [\d.]+ (s|min|h)\b"), "about <time>"),
    (re.compile(rf'("spectui": "|version ){re.escape(__version__)}'), r"\1<spectui>"),
)
"""What differs from run to run and from machine to machine.

Versions of this package, the binding and llama.cpp; dates, with or without a time; ports; how long
something will take or how fast it is fetched; a last word of the scripted server that may be late.
"""

_WALL = {
    *("took_s", "wall_s", "left_s", "elapsed_s", "remaining_s", "load_s", "served_s"),
    "answered_in_s",
}
"""Seconds of the wall clock, by their names in documents."""


def normal(text: str) -> str:
    for pattern, replacement in _MASKED:
        text = pattern.sub(replacement, text)
    return text


def document_text(text: str) -> str:
    """A document for people: keys in order, wall-clock times masked, numbers of six digits."""
    return folded(_rounded(json.loads(text))) + "\n"


def folded(value: object, indent: int = 0) -> str:
    """JSON whose parts stand on a line of their own where they fit."""
    line = json.dumps(value, ensure_ascii=False, sort_keys=True)
    if indent + len(line) <= _WIDTH or not isinstance(value, dict | list) or not value:
        return line
    space = " " * (indent + 1)
    if isinstance(value, list):
        parts = [space + folded(each, indent + 1) for each in value]
        return "[\n" + ",\n".join(parts) + "\n" + " " * indent + "]"
    parts = [f"{space}{json.dumps(key)}: {folded(value[key], indent + 1)}" for key in sorted(value)]
    return "{\n" + ",\n".join(parts) + "\n" + " " * indent + "}"


_LIBRARY: dict[str, object] = {"name": "<library>", "features": [], "unused": []}
_LIBRARY |= {name: f"<{name}>" for name in ("file", "origin")}
_WIDTH = 200


def _rounded(value: object, name: str = "") -> object:
    if isinstance(value, dict):
        if "features" in value and "origin" in value:
            # A llama.cpp library, which is this machine's.
            value = dict.fromkeys(value) | _LIBRARY
        return {key: _rounded(each, key) for key, each in value.items()}
    if isinstance(value, list):
        return [_rounded(each) for each in value]
    if not isinstance(value, float):
        return value
    if name in _WALL:
        return "<s>"
    # Below a billionth stands what rounding leaves of zero.
    return float(f"{value:.6g}") if abs(value) > 1e-9 else 0.0
