"""Makes ``stored/``: files as today's spectui leaves them on a user's disk.

Run once, with ``python -m tests.golden.make_stored``, and never after a change of what is stored:
later versions have to read what earlier ones wrote. Machine, versions and paths are neutral.
"""

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

from spectui.cli import main
from tests.golden import commands_support as inside
from tests.support.models import CLOSE_DRAFT, ROUGH_DRAFT, TARGET, Tiny, write_tiny
from tests.support.mtp import write_qwen35

STORED = Path(__file__).parent / "stored"
MODELS = Path("/models")
"""Where models lie in what is stored."""

PROMPTS = """\
{"id": "a", "category": "x", "prompt": "the rain on the other tin ring"}
{"id": "b", "category": "x", "prompt": "one to the other, then on"}
{"id": "c", "category": "y", "messages": [{"role": "user", "content": "there?"}]}
{"id": "d", "category": "y", "prompt": "all in one ring"}
{"id": "e", "category": "y", "prompt": "hello there"}
{"id": "f", "category": "x", "prompt": "in the tin on the ring"}
{"id": "g", "category": "z", "prompt": "the other one of the others"}
"""
CONFIG = """\
theme = "nord"
ascii = true
keep_sessions = true
record_chats = false
monitor_hz = 2.5
model_folders = ["/models", "~/more models"]

[keys]
"live.stop" = "escape"
"tune.resume" = "r"
"""
PAIR = ("-m", "target.gguf", "-md", "draft.gguf")
HOW = ("-c", 256, "-t", 1, "--temp", 0, "--prompts", "prompts.jsonl")
COMMON = (*PAIR, *HOW)
SWEEP = (
    *("sweep", *COMMON, "-md", "other.gguf", "-n", 8, "--name", "stored"),
    *("--draft-max", "2,4", "--spec-type", "draft-simple", "--spec-type", "ngram-mod"),
    *("--spec-type", "ngram-simple", "--spec-ngram-simple-size-n", 2),
    *("--spec-ngram-simple-size-m", "6,9", "--spec-type", "ngram-cache,draft-simple"),
)
"""A draft among them has another vocabulary, so that its cells fail."""
TUNE = ("tune", *COMMON, "-n", 12, "--trials", 5, "--quiet")
TRACES = {
    "pair": (*COMMON, "-md", "rough.gguf", "-n", 24, "--keep-text", "--draft-max", 8),
    "bare": (*COMMON, "-n", 24, "--no-costs", "--temp", 0.8, "--seed", 3, "--draft-max", 4),
    "mtp": ("-m", "mtp.gguf", *HOW, "-n", 16, "--keep-text", "--draft-max", 4),
    "no-draft": ("-m", "target.gguf", *HOW, "-n", 48, "--keep-text"),
}


def write_models(folder: Path) -> None:
    """The models of all that is stored; equal recipes give equal files."""
    recipes = {
        "target": TARGET,
        "draft": CLOSE_DRAFT,
        "rough": ROUGH_DRAFT,
        "other": Tiny(n_extra=3, is_reversed=True),
    }
    for name, recipe in recipes.items():
        write_tiny(recipe, folder / f"{name}.gguf")
    write_qwen35(Tiny(), folder / "mtp.gguf", n_mtp=1)
    (folder / "prompts.jsonl").write_text(PROMPTS, "utf-8")


def _run(*arguments: object) -> None:
    sys.argv = ["spectui", *map(str, arguments)]
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0, arguments


def _make(folder: Path) -> None:
    os.environ["SPECTUI_HOME"] = str(folder / "home")
    os.chdir(folder)
    write_models(folder)
    data = folder / "home" / "data"
    with inside.neutral():
        _run(*SWEEP)
        _run(*TUNE)
        for name, arguments in TRACES.items():
            _run("trace", *arguments, "--out", folder / f"{name}.trace.json.gz")
    inside.make_studies(f"sqlite:///{data / 'studies.sqlite3'}")
    shutil.rmtree(STORED, ignore_errors=True)
    STORED.mkdir()
    inside.make_session(STORED / "session.jsonl")
    (STORED / "config.toml").write_text(CONFIG, "utf-8")
    shutil.copy(data / "sweeps" / "stored" / "cells.jsonl", STORED / "sweep.jsonl")
    for path in [*folder.glob("*.trace.json.gz"), *(data / "traces").glob("*.gz")]:
        shutil.copy(path, STORED)
    statements = inside.dumped(data / "studies.sqlite3")
    owner = json.dumps({"host": os.uname().nodename, "pid": os.getpid()})
    statements = statements.replace(str(folder), str(MODELS)).replace(owner, inside.OWNER)
    (STORED / "studies.sql").write_text(statements, "utf-8")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        _make(Path(name).resolve())
