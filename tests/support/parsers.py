"""The parsers of llama-servers as oracles: what they accept, and what they understand.

llama.cpp's is the program that ``tools/build_llama_server.py parser`` builds. ik_llama.cpp's is not
built here: its answers are recorded, by ``python -m benchmarks.published_commands``.
"""

import functools
import json
import os
import re
import shlex
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HOME = "/home/user"
"""Where ``~`` is for every program that a command is shown to."""
_OPTION = re.compile(r"(?<![\w-])--?[A-Za-z][\w-]*")
_VALUES = ("1", "off", "q8_0", "a=CPU", "a.gguf:0.5", "CUDA1", "none", "draft", "mtp")
_SAMPLES = ((), *((value,) for value in _VALUES))
_TIMEOUT_S = 60


@dataclass(frozen=True, slots=True)
class Call:
    words: tuple[str, ...]
    variables: tuple[tuple[str, str], ...] = ()
    """Those of its environment that it reads."""

    def __str__(self) -> str:
        """One line of the shell."""
        named = [f"{name}={shlex.quote(value)}" for name, value in self.variables]
        return " ".join([*named, shlex.join(self.words)])


@dataclass(frozen=True, slots=True)
class Answer:
    error: str | None
    """Why it is not accepted."""
    fields: dict[str, Any] = field(default_factory=dict)
    """The fields that are unlike those of a call without words."""


class Parser:
    """A program that reads arguments as a llama-server does."""

    def __init__(self, program: Path) -> None:
        self.program = program
        self.answers: dict[str, Answer] = {}
        self.fields: dict[str, frozenset[str]] = {}

    def ask(self, call: Call, folder: Path | None = None) -> Answer:
        """Return the answer to a call, which is read in a folder."""
        if str(call) not in self.answers:
            done = self._run("command", *call.words, folder=folder, variables=call.variables)
            self.answers[str(call)] = self._answer(done)
        return self.answers[str(call)]

    def fields_of(self, option: str) -> frozenset[str]:
        """Find the fields that an option sets, by giving it values of all kinds."""
        if option not in self.fields:
            calls = (("command", option, *sample) for sample in _SAMPLES)
            told = (self._answer(self._run(*words)).fields for words in calls)
            self.fields[option] = frozenset(name for fields in told for name in fields)
        return self.fields[option]

    def preset(self, path: Path) -> dict[str, Call] | str:
        """Return how the router starts each model of a preset file, or its refusal."""
        done = self._run("preset", str(path))
        if done.returncode != 0:
            return _reason(done.stderr)
        return {name: Call(tuple(words)) for name, words in json.loads(done.stdout).items()}

    @functools.cached_property
    def _defaults(self) -> dict[str, Any]:
        return dict(json.loads(self._run("command").stdout))

    def _answer(self, done: "subprocess.CompletedProcess[str]") -> Answer:
        if done.returncode != 0:
            return Answer(_reason(done.stderr) or f"it ended with exit code {done.returncode}")
        if not done.stdout.startswith("{"):
            return Answer("it prints something and ends")
        found, usual = json.loads(done.stdout.splitlines()[-1]), self._defaults
        return Answer(None, {name: value for name, value in found.items() if value != usual[name]})

    def _run(
        self, *words: str, folder: Path | None = None, variables: Iterable[tuple[str, str]] = ()
    ) -> "subprocess.CompletedProcess[str]":
        # An option may write a file where the program runs.
        with tempfile.TemporaryDirectory() as own:
            return subprocess.run(
                [str(self.program), *words],
                cwd=folder or own,
                check=False,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_TIMEOUT_S,
                env={"HOME": HOME, "PATH": os.defpath, **dict(variables)},
            )


class RecordedParser:
    def __init__(self, path: Path) -> None:
        document = json.loads(path.read_text("utf-8"))
        self.answers = {
            line: Answer(told) if isinstance(told, str) else Answer(None, told)
            for line, told in document["answers"].items()
        }
        self.fields = {name: frozenset(fields) for name, fields in document["fields"].items()}

    def ask(self, call: Call, folder: Path | None = None) -> Answer:
        """Return the answer to a call, unless the parser was not asked this (LookupError)."""
        del folder
        if str(call) not in self.answers:
            raise LookupError(f"ik_llama.cpp's parser was not asked this: {call}")
        return self.answers[str(call)]

    def fields_of(self, option: str) -> frozenset[str]:
        """Return the fields that an option sets; none for an option that was not tried."""
        return self.fields.get(option, frozenset())


def options_in(text: str) -> set[str]:
    return {word.rstrip("-") for word in _OPTION.findall(text)}


def _reason(stderr: str) -> str:
    lines = [line.strip() for line in stderr.partition("\nusage:")[0].splitlines()]
    told = [line for line in lines if line and not line.startswith(("warn", "DEPRECATED"))]
    return " ".join(told[:2])[:300]
