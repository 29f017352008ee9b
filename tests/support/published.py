"""Published commands, and what the programs themselves make of them.

A command of the corpus is shown to spectui as a user would, and to the parser of the llama-server
that would read it. Real shells read the scripts, with a program in place of llama-server that
writes down its arguments.
"""

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import patch

from spectui.cli import main
from tests.support.cli import signals_kept
from tests.support.parsers import HOME, Call, Parser, RecordedParser, options_in

CORPUS = Path(__file__).parent.parent / "commands" / "corpus"
IK_ANSWERS = CORPUS / "ik-answers.json"
_OF_FILES = {
    **dict.fromkeys(("llama-cpp", "files", "pasted"), "llama.cpp"),
    "older": "older",
    "ik": "ik",
}
_SERVER = re.compile(
    r"""(?:"[^"\n]*llama-server(?:\.exe)?"|'[^'\n]*llama-server(?:\.exe)?'"""
    r"""|(?:[^\s"'=;(){}|&<>]*[/\\])?llama-server(?:\.exe)?|(?<=^)\./server)(?=\s|$)""",
    re.MULTILINE,
)
_WROTE_DOWN = """#!/bin/sh
out=$(mktemp "$(dirname "$0")/call.XXXXXX")
env -0 | grep -z '^LLAMA_ARG' | tr '\\n' ' ' >"$out.env"
for word; do printf '%s\\0' "$word"; done >"$out"
"""
_WRAPPER = re.compile(r"^\s*(?:sudo|numactl)\b[^\n]*? (?=/\S*/llama-server\b)", re.MULTILINE)
"""What need not be on this machine, and starts what follows it."""
_REFUSED = re.compile(r'(?:argument: |argument "|option \'|type: )([^\s"\']+)')
_ADVICE = re.compile(r"(?:has been removed\.|is disabled;)(.*)", re.DOTALL)
_OPTION = re.compile(r"--?[A-Za-z]")
UNJUDGED = "left to the server"
"""Kind of commands that lint has nothing against and a parser refuses: devices, patterns, values
without a llama-server of their dialect."""
_TIMEOUT_S = 60
_MOST_DROPPED = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """One command of the corpus; its README tells what the fields mean."""

    name: str
    source: str
    dialect: str
    command: str
    file: str | None = None
    choose: str | None = None
    beside: dict[str, str] = field(default_factory=dict)
    runs: str | list[str] | None = None
    refusable: str | None = None
    stops: str | None = None

    @property
    def reader(self) -> str:
        """The dialect of the llama-server that shall read it."""
        return "ik" if self.dialect == "ik" else "llama.cpp"

    def write(self, folder: Path) -> str:
        """Write its files, and return what is given to spectui."""
        for name, content in self.beside.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(content, "utf-8")
        if self.file is None:
            return self.command
        (folder / self.file).write_text(self.command, "utf-8")
        return self.file if self.choose is None else f"{self.file}:{self.choose}"


def corpus() -> list[Published]:
    return [
        Published(name=f"{file}/{name}", **{"dialect": dialect, **entry})
        for file, dialect in _OF_FILES.items()
        for name, entry in tomllib.loads((CORPUS / f"{file}.toml").read_text("utf-8")).items()
    ]


# What really runs


def calls_of(entry: Published, folder: Path, parser: Parser) -> list[Call] | str:
    """Return the calls of llama-server that a command makes, or why its own reader refuses it."""
    if entry.runs is not None:
        lines = [entry.runs] if isinstance(entry.runs, str) else entry.runs
        return [_call(line) for line in lines]
    if entry.file is not None and entry.file.endswith(".ini"):
        starts = parser.preset(folder / entry.file)
        if isinstance(starts, str):
            return starts
        return list(starts.values()) if entry.choose is None else [starts[entry.choose]]
    return shell_calls(entry.command, folder) or "it starts no llama-server"


def shell_calls(script: str, folder: Path) -> list[Call]:
    """Let a real shell read a script, and return how it starts llama-server."""
    with tempfile.TemporaryDirectory() as name:
        stand_in = Path(name) / "llama-server"
        stand_in.write_text(_WROTE_DOWN)
        stand_in.chmod(0o755)
        subprocess.run(
            ["bash", "-c", _WRAPPER.sub("", _SERVER.sub(str(stand_in), script)) + "\nwait"],
            cwd=folder,
            check=False,
            capture_output=True,
            timeout=_TIMEOUT_S,
            env={"HOME": HOME, "PATH": os.defpath},
        )
        found = [path for path in Path(name).glob("call.*") if path.suffix != ".env"]
        return [_written_down(path) for path in sorted(found, key=lambda one: one.stat().st_mtime)]


def _written_down(path: Path) -> Call:
    words = path.read_text("utf-8").split("\0")[:-1]
    variables = path.with_name(path.name + ".env").read_text("utf-8").split("\0")[:-1]
    named = (line.partition("=") for line in sorted(variables))
    return Call(tuple(words), tuple((name, value) for name, _, value in named))


def _call(line: str) -> Call:
    words = shlex.split(line)
    first = next(index for index, word in enumerate(words) if not re.match(r"[A-Z_]+=", word))
    named = (word.partition("=") for word in words[:first])
    return Call(tuple(words[first + 1 :]), tuple((name, value) for name, _, value in named))


@dataclass(frozen=True, slots=True)
class Dropped:
    option: str
    value: str | None
    reason: str


def understood(
    call: Call, parser: Parser | RecordedParser, folder: Path
) -> tuple[dict[str, Any], list[Dropped]]:
    """Return what a parser understands of a call without the options that it refuses, and those."""
    dropped: list[Dropped] = []
    for _ in range(_MOST_DROPPED):
        answer = parser.ask(call, folder)
        if answer.error is None:
            return answer.fields, dropped
        at = _refused_at(call, answer.error, parser, folder)
        if at is None:
            break
        left = _without(call, at)
        value = call.words[at + 1] if len(call.words) - len(left.words) > 1 else None
        dropped.append(Dropped(call.words[at], value, answer.error))
        call = left
    return {}, dropped


def _refused_at(
    call: Call, error: str, parser: Parser | RecordedParser, folder: Path
) -> int | None:
    """Find the option that a parser refuses: the one that it names, or without which it goes on."""
    words, found = call.words, _REFUSED.search(error)
    spelled = [_normal(word) for word in words]
    if found is None:
        options = (at for at, word in enumerate(words) if _OPTION.match(word))
        answers = [(at, parser.ask(_without(call, at), folder)) for at in options]
        # One may only bring another error, such as the draft that a stage needs.
        goes_on = (at for at, answer in answers if answer.error is None)
        other = (at for at, answer in answers if answer.error != error)
        return next(goes_on, next(other, None))
    if _normal(found[1]) not in spelled:
        return None
    at = spelled.index(_normal(found[1]))
    is_value = not words[at].startswith("-") and at > 0 and words[at - 1].startswith("-")
    return at - is_value


def _without(call: Call, at: int) -> Call:
    words = list(call.words)
    has_value = at + 1 < len(words) and not _OPTION.match(words[at + 1])
    del words[at : at + 1 + has_value]
    return Call(tuple(words), call.variables)


def _normal(word: str) -> str:
    return word.replace("_", "-") if word.startswith("--") else word


# What spectui says


def _as_server(said: "Said") -> list[Call]:
    """The call that lint makes of another program's command without errors; none for others."""
    document = _document(said) if _verdict(said) == "fine" else {}
    told = (finding["what"] for finding in document.get("findings", ()))
    is_other = any(what.startswith("this is a command of") for what in told)
    return [Call(tuple(document["fixed_arguments"]), ())] if is_other else []


@dataclass(frozen=True, slots=True)
class Said:
    code: int
    out: str
    err: str


def run_spectui(*words: str, folder: Path) -> Said:
    out, err, code = StringIO(), StringIO(), 1
    home = {"HOME": HOME, "PATH": os.defpath, "SPECTUI_HOME": str(folder / ".spectui")}
    with (
        chdir(folder),
        patch.dict(os.environ, {**home, "COLUMNS": "200"}, clear=True),
        patch.object(sys, "argv", ["spectui", *words]),
        redirect_stdout(out),
        redirect_stderr(err),
        signals_kept(),
    ):
        try:
            main()
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 1
    return Said(code, out.getvalue(), err.getvalue())


@dataclass(slots=True, kw_only=True)
class Judged:
    entry: Published
    lint: str = ""
    """``fine``, ``errors``, or ``refused``."""
    parser: str = ""
    """``accepted``, or the parser's own words."""
    dialect: str = ""
    """The dialect that lint took by itself."""
    export: str = ""
    """``accepted``, ``passed on`` for options that no table has, ``refused``, ``not accepted``."""
    refusal: str = ""
    wrong: list[tuple[str, str]] = field(default_factory=list)
    """Kinds of disagreement, with what spectui and the parser say."""


@dataclass(frozen=True, slots=True)
class Judge:
    """Holds commands against the parsers."""

    llama_cpp: Parser
    ik: Parser | RecordedParser
    server: Path
    """The llama-server of the first parser."""

    def judge(self, entry: Published) -> Judged:
        with tempfile.TemporaryDirectory() as name:
            folder, judged = Path(name), Judged(entry=entry)
            given = entry.write(folder)
            calls = calls_of(entry, folder, self.llama_cpp)
            for judge in (self._judge_lint, self._judge_export):
                if UNJUDGED in dict(judged.wrong):
                    break
                try:
                    judge(judged, given, calls, folder)
                except LookupError as error:
                    judged.wrong.append(("not recorded", str(error)))
            return judged

    def _parser(self, dialect: str) -> Parser | RecordedParser:
        return self.ik if dialect == "ik" else self.llama_cpp

    def _reader(self, dialect: str) -> tuple[str, str]:
        """The options that name who will read a command."""
        return ("--dialect", "ik") if dialect == "ik" else ("--server-bin", str(self.server))

    def _error(
        self, entry: Published, calls: list[Call] | str, dialect: str, folder: Path
    ) -> str | None:
        if isinstance(calls, str):
            return calls
        if entry.stops is not None and dialect == entry.reader:
            return f"it is read, and {entry.stops}"
        answers = (self._parser(dialect).ask(call, folder).error for call in calls)
        return next((error for error in answers if error is not None), None)

    def _judge_lint(
        self, judged: Judged, given: str, calls: list[Call] | str, folder: Path
    ) -> None:
        entry = judged.entry
        first = run_spectui("lint", "--json", "-", given, folder=folder)
        judged.dialect = _document(first).get("dialect", "")
        for dialect in sorted({judged.dialect, entry.reader} - {"", "llama.cpp-legacy"}):
            said = first
            if dialect != judged.dialect or dialect != "ik":
                reader = self._reader(dialect)
                said = run_spectui("lint", "--json", "-", *reader, given, folder=folder)
            error = self._error(entry, _as_server(said) or calls, dialect, folder)
            lint = _verdict(said)
            if dialect == entry.reader:
                judged.lint, judged.parser = lint, error or "accepted"
            if lint == "refused":
                if entry.refusable is None and error is None:
                    judged.wrong.append(("lint refuses", said.err.strip()))
            elif lint == "fine" and any(name in (error or "") for name in _unknown(said)):
                continue
            elif (lint == "fine") != (error is None) and not (entry.refusable and lint != "fine"):
                told = "; ".join(_errors(said)) or "fine"
                what = f"as {dialect}: {told} | parser: {error or 'accepted'}"
                judged.wrong.append((UNJUDGED if error else "lint", what))

    def _judge_export(
        self, judged: Judged, given: str, calls: list[Call] | str, folder: Path
    ) -> None:
        entry, parser = judged.entry, self._parser(judged.entry.reader)
        reader = self._reader(entry.reader)
        said = run_spectui("export", "--from", given, *reader, folder=folder)
        if said.code != 0:
            judged.export, judged.refusal = "refused", said.err.strip()
            if entry.refusable is None and judged.parser == "accepted":
                judged.wrong.append(("export refuses", judged.refusal))
            return
        written = shell_calls(said.out, folder)
        if len(written) != 1:
            judged.export = "not accepted"
            judged.wrong.append(("export", f"it runs {len(written)} servers: {said.out}"))
            return
        after, refused = understood(written[0], parser, folder)
        judged.export = "passed on" if refused else "accepted"
        reason = parser.ask(written[0], folder).error
        is_told = {one.option for one in refused} <= _passed_on(said)
        if not is_told or not (after or reason is None):
            judged.export = "not accepted"
            judged.wrong.append(("export", f"{written[0]} | parser: {reason}"))
            return
        if isinstance(calls, str):
            named = _REFUSED.search(calls)
            if named is None or named[1] not in said.err:
                judged.wrong.append(("meaning", f"not told: {calls}"))
            return
        if len(calls) != 1:
            if entry.refusable is None:
                judged.wrong.append(("meaning", f"{len(calls)} servers become one"))
            return
        before, dropped = understood(calls[0], parser, folder)
        for change in changes(before, after, said.err, parser, dropped):
            judged.wrong.append(("meaning", change))


def changes(
    before: dict[str, Any],
    after: dict[str, Any],
    told: str,
    parser: Parser | RecordedParser,
    dropped: list[Dropped],
) -> Iterator[str]:
    """Yield what differs in meaning and is not told on stderr.

    A parser that refuses an option and names the one to use instead tells it itself.
    """
    named = options_in(told)
    announced = {name for option in named for name in parser.fields_of(option)}
    for number, one in enumerate(dropped):
        option = one.option.partition("=")[0]
        if advice := _ADVICE.search(one.reason):
            fields = _advised(advice, parser)
            announced |= fields
            values = [json.dumps(after[name]) for name in fields if name in after]
            is_number = one.value is not None and re.fullmatch(r"-?[\d.]+", one.value) is not None
            is_last = all(
                not fields & _advised(other, parser)
                for later in dropped[number + 1 :]
                if (other := _ADVICE.search(later.reason))
            )
            if is_number and is_last and values and str(one.value) not in " ".join(values):
                yield f"{option} {one.value} becomes another value: {values}"
        elif option.startswith("-") and not {option, _normal(option)} & named:
            yield f"{option}, which is refused, is gone without a word"
    for name in sorted(before.keys() | after.keys()):
        old, new = _comparable(before, name), _comparable(after, name)
        if old != new and name not in announced:
            yield f"{name}: {json.dumps(old)[:120]} becomes {json.dumps(new)[:120]}"


def _advised(advice: re.Match[str], parser: Parser | RecordedParser) -> set[str]:
    """The fields that the options set which a parser names in place of a refused one."""
    return {name for word in options_in(advice[1]) for name in parser.fields_of(word)}


def _comparable(fields: dict[str, Any], name: str) -> object:
    value = fields.get(name, "(default)")
    # It is a set: the drafters' order is the program's own.
    return sorted({0, *value}) if name == "speculative.types" and value != "(default)" else value


def _document(said: Said) -> dict[str, Any]:
    return dict(json.loads(said.out)) if said.out.startswith("{") else {}


def _errors(said: Said) -> list[str]:
    findings = _document(said).get("findings", [])
    return [one["what"] for one in findings if one["severity"] == "error"]


def _unknown(said: Said) -> set[str]:
    """The names of the options that lint says no table has, which are keys in a preset."""
    findings = _document(said).get("findings", [])
    told = (one for one in findings if one["what"].startswith("spectui does not know"))
    return {one["flag"].lstrip("-") for one in told}


def _passed_on(said: Said) -> set[str]:
    """The options that export says it passes on unchanged."""
    lines = (line for line in said.err.splitlines() if line.startswith("passed on unchanged"))
    return {word for line in lines for word in options_in(line)}


def _verdict(said: Said) -> str:
    if not _document(said):
        return "refused"
    return "fine" if said.code == 0 else "errors"
