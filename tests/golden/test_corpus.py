"""Every known command, linted, and taken over and written back."""

import json
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spectui import __version__
from tests.golden import commands_support
from tests.golden.conftest import Golden
from tests.support import binaries
from tests.support.cli import Spectui

pytest_plugins = ["tests.support.cli_fixtures"]

HERE = Path(__file__).parent
CORPUS = HERE / "corpus"
REAL = HERE.parent / "data" / "commands" / "commands.toml"
FOLDER = "@FOLDER@"
OWN_FORMATS = {"preset-files": "ini"}
"""The format of a group's own files, which keeps more of them."""

Entry = dict[str, Any]


def groups() -> dict[str, dict[str, Entry]]:
    """All commands by group and name."""
    found = {path.stem: tomllib.loads(path.read_text("utf-8")) for path in CORPUS.glob("*.toml")}
    real = tomllib.loads(REAL.read_text("utf-8"))
    kinds: dict[str, dict[str, Entry]] = {"real": {}, "real-files": {}}
    for name, entry in real.items():
        kind = "real-files" if "file" in entry else "real"
        kinds[kind][name] = entry
    return dict(sorted((found | kinds).items()))


GROUPS = groups()


class Place:
    """A folder in which commands lie, whose own path no text shows."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder = self._root = folder
        self._monkeypatch = monkeypatch

    def given(self, name: str, entry: Entry) -> str:
        """Write the file of an entry, go where it is started; what names it for spectui."""
        folder = self._folder / name
        at = folder / entry.get("at", ".")
        at.mkdir(parents=True, exist_ok=True)
        self._monkeypatch.chdir(at)
        self._root = folder
        command = str(entry["command"])
        if "file" not in entry:
            return command
        path = folder / entry["file"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(command.removeprefix("\n"), "utf-8")
        return f"{path}:{entry['choose']}" if "choose" in entry else str(path)

    def hidden(self, text: str) -> str:
        """The text without the folder's path and the version."""
        version = f'"spectui": "{__version__}"'
        return text.replace(str(self._root), FOLDER).replace(version, '"spectui": "VERSION"')


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """An environment that is the same everywhere."""
    commands_support.isolate(monkeypatch)
    monkeypatch.setenv("HOME", "/home/user")
    monkeypatch.setenv("SPECTUI_TEST_FOLDER", "/m m")
    return Place((tmp_path / "corpus").resolve(), monkeypatch)


def titled(name: str, entry: Entry) -> Iterator[str]:
    """What heads an entry's results: the command as it stands."""
    yield f"== {name}" + (f": {entry['file']}" if "file" in entry else "")
    yield from (f"   | {line}".rstrip() for line in str(entry["command"]).strip("\n").split("\n"))


def indented(text: str) -> Iterator[str]:
    return (f"   {line}".rstrip() for line in text.removesuffix("\n").split("\n") if line)


def linted(spectui: Spectui, place: Place, given: str, *options: str) -> Iterator[str]:
    """Findings, the corrected command, the exit code."""
    code = spectui("lint", "--no-models", "--quiet", "--json", "-", *options, given)
    if not spectui.out:
        yield f"exit {code}"
        yield from indented(place.hidden(spectui.err))
        return
    document = json.loads(place.hidden(spectui.out))
    yield f"exit {code}" + (f", {len(spectui.err)} on stderr" if spectui.err else "")
    for one in document.get("commands", [document]):
        yield from _checked(one)


def _checked(document: dict[str, Any]) -> Iterator[str]:
    """Findings of one command, and the corrected one."""
    if "name" in document:
        yield f"   [{document['name']}]"
    for one in document["findings"]:
        told = f"   {one['severity']} {one['flag']}: {one['what']}; {one['why']}"
        instead = one.get("replacement")
        yield told if instead is None else f"{told} => {instead or '(leave it out)'}"
    yield f"   fixed: {document['fixed']}"
    arguments = document["fixed_arguments"]
    if shlex.split(document["fixed"])[-len(arguments) :] != arguments:
        yield f"   arguments: {json.dumps(arguments, ensure_ascii=False)}"


def exported(spectui: Spectui, place: Place, given: str, *options: str) -> tuple[str, ...]:
    """What ``export`` says, or its refusal with the exit code."""
    code = spectui("export", "--from", given, *options)
    said = place.hidden(spectui.err)
    lines = [f"exit {code}", *indented(said)] if code else list(indented(said))
    return (*lines, *indented(place.hidden(spectui.out)))


def examined(
    spectui: Spectui,
    place: Place,
    name: str,
    entry: Entry,
    *options: str,
    own: tuple[str, ...] = (),
) -> Iterator[str]:
    """An entry, what lint finds in it, and what export makes of it; ``own``, in its own format."""
    given = place.given(name, entry)
    yield from titled(name, entry)
    yield from linted(spectui, place, given, *options)
    yield "-- export"
    yield from exported(spectui, place, given, *options)
    if own:
        yield f"-- {own[-1]}"
        yield from exported(spectui, place, given, *options, *own)
    yield ""


@pytest.mark.parametrize("group", GROUPS)
def test_what_is_said_and_made_of_them(
    group: str, spectui: Spectui, place: Place, golden: Golden
) -> None:
    own = ("--format", OWN_FORMATS[group]) if group in OWN_FORMATS else ()
    entries = GROUPS[group].items()
    lines = [line for entry in entries for line in examined(spectui, place, *entry, own=own)]
    golden(f"corpus/{group}", {"said.txt": "\n".join(lines)})


ASKED = (
    *("smallest", "chat-on-one-gpu", "dense-pair", "legacy-pair", "legacy-memory", "ik-pair"),
    *("ngram-simple", "ngram-ahead-of-a-draft", "mtp", "some-experts-in-ram", "notes-3090-draft"),
)


@pytest.mark.parametrize("kind", ["current", "between", "legacy", "ik"])
def test_what_is_written_for_a_binary(
    kind: str, spectui: Spectui, place: Place, golden: Golden, tmp_path: Path
) -> None:
    binary = binaries.write_binary(tmp_path / "llama-server", getattr(binaries, kind.upper()))
    real, given = GROUPS["real"], ("--server-bin", str(binary))
    lines = [line for name in ASKED for line in examined(spectui, place, name, real[name], *given)]
    golden(f"binary/{kind}", {"said.txt": "\n".join(lines).replace(str(tmp_path), FOLDER)})
