"""Options that no table has, newer or misspelt ones; and programs beside llama-server."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from spectui.commands import server_options
from spectui.commands.finding import Severity
from spectui.commands.launch import translated
from spectui.commands.lint.checking import check, lint
from spectui.commands.programs import program_of, started_by
from spectui.commands.reader import Reader
from spectui.commands.server_options import drawn_from
from spectui.commands.sources.reading import read_command
from spectui.commands.takeover import take_over
from spectui.errors import BadInputError
from spectui.options.option import Dialect
from tests.support.cli import Spectui
from tests.support.commands import setup_of
from tests.support.tables import rules, table

pytest_plugins = ["tests.support.cli_fixtures"]

CURRENT, LEGACY, IK = (Reader(dialect=dialect) for dialect in Dialect)
NEWER = (
    "--moe-cache-cpu-share 0.5",
    "--new-switch",
    "--new-pair -1 2.5",
    "-nn -.5",
)
"""Options that no table has: of builds newer than the tables, as far as spectui can tell."""


@table("reader", [CURRENT, LEGACY, IK])
def test_an_option_newer_than_the_tables_is_a_warning_and_stays(reader: Reader) -> None:
    for newer in NEWER:
        command = read_command(f"llama-server -m m.gguf -md d.gguf {newer} -c 64")
        [one] = [one for one in lint(command, reader) if one.what.startswith("spectui does not")]
        assert command.items[one.at].words == tuple(newer.split())
        assert (one.severity, one.replacement, one.edits) == (Severity.WARNING, None, {})
        assert drawn_from(reader.dialect) in one.why
        assert check(command, reader).corrected.arguments == command.arguments
        if reader is not LEGACY:
            launch = translated(command, reader)
            assert newer in launch.command.text
            assert any(note.startswith("passed on") and newer in note for note in launch.notes)
        taken = take_over(command)
        assert taken.extra == tuple(newer.split())
        export = setup_of(taken).launch(reader.dialect)
        assert newer in export.command.text
        assert any(newer in comment for comment in export.comments)


ONCE_NEWER = (
    "--reasoning-budget 0",
    "--spec-synth-len 2.5",
    "--kv-unified-per-slot 4096",
    "--lazy-mode on",
    "--ctx-checkpoints 4",
    "--models-max 2",
    "--log-jsonl",
    "-ncffn 4",
    "--video-fps 2",
    "--moe-cache-mib 8000",
    "--spec-draft-sampling probabilistic",
    "--spec-draft-n-ubatch 64",
)
"""Options of which older tables know nothing, and which spectui's own command line has not."""
INVENTED = (*NEWER, "--quantum-cache auto", "--spec-tree-width 4 2", "-zq {}", "--no-future")


@pytest.fixture(name="older_tables")
def without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Tables of a time before some options, as they are for a server that is newer than they."""
    gone = {option.split()[0] for option in ONCE_NEWER}
    cached = [one for one in vars(server_options).values() if hasattr(one, "cache_clear")]
    folder = Path(server_options.__file__).with_name("tables")
    for file in folder.glob("*.txt"):
        lines = file.read_text("utf-8").splitlines(keepends=True)
        text = "".join(line for line in lines if line[0] == "#" or gone.isdisjoint(line.split()))
        (tmp_path / file.name).write_text(text, "utf-8")
    monkeypatch.setattr(server_options, "_TABLES", tmp_path)
    for one in cached:
        one.cache_clear()
    yield
    monkeypatch.undo()
    for one in cached:
        one.cache_clear()


@pytest.mark.usefixtures("older_tables")
def test_combinations_of_options_that_no_table_has_are_no_error() -> None:
    chance = random.Random(7)  # noqa: S311 - the same in every run
    known = ("-c 4096", "-ngl 99", "-fa on", "--jinja", "-np 1", "--spec-type draft-mtp", "-cmoe")
    for _ in range(40):
        new = chance.sample((*ONCE_NEWER, *INVENTED), chance.randrange(1, 7))
        options = [*new, *chance.sample(known, 3)]
        chance.shuffle(options)
        command = read_command(f"llama-server -m m.gguf {' '.join(options)}")
        found = lint(command, CURRENT)
        assert [one.what for one in found if one.severity is Severity.ERROR] == []
        told = {one.flag: one.why for one in found if one.what.startswith("spectui does not know")}
        assert told.keys() == {option.split()[0] for option in new}
        assert all(drawn_from(CURRENT.dialect) in why for why in told.values())
        assert check(command, CURRENT).corrected.arguments == command.arguments


def test_an_unknown_variable_is_a_warning_and_stays() -> None:
    for name in ("LLAMA_ARG_NGL", "LLAMA_ARG_BRAND_NEW_THING"):
        command = read_command(f"{name}='9 9' llama-server -m a")
        [one] = lint(command, CURRENT)
        assert (one.severity, one.flag, one.replacement) == (Severity.WARNING, name, None)
        assert drawn_from(Dialect.LLAMA_CPP) in one.why
        assert check(command, CURRENT).corrected.text == command.text
        for reader in (CURRENT, IK):
            launch = translated(command, reader)
            assert launch.command.start.environment == ((name, "9 9"),)
            assert any(name in note for note in launch.notes)


@table(("word", "program"), rules()["programs"])
def test_the_program_of_a_word(word: str, program: str) -> None:
    assert program_of(word) == (None if program == "?" else program)


@table(("text", "program", "right"), rules()["others"])
def test_another_program_is_told_and_read_as_the_server(
    text: str, program: str, right: str
) -> None:
    command = read_command(text)
    assert started_by(command) == program
    [told] = [one for one in lint(command, Reader()) if one.flag == program]
    assert (told.severity, told.replacement) == (
        Severity.NOTE,
        right.split(" -m ", maxsplit=1)[0].rpartition(" ")[2],
    )
    assert check(command, Reader()).corrected.text == right
    assert not [one for one in lint(command, Reader()) if one.severity is Severity.ERROR]
    launch = translated(command, Reader())
    assert launch.command.text == right
    assert any(told.what in note for note in launch.notes)


def test_a_program_with_other_options_is_refused() -> None:
    for text in ("numactl -N 0 ./bin/llama-bench -m a", "llama-run a.gguf hi", "./quantize a b Q8"):
        with pytest.raises(BadInputError, match="which is no llama-server"):
            read_command(text)


# A server without a model, and variables that nobody reads


@table("text", ["llama-server", "llama-server -c 5"])
def test_a_server_without_a_model_is_a_router(spectui: Spectui, text: str) -> None:
    assert spectui("lint", text) == 0
    assert "note: no model is named" in spectui.out
    assert "llama-server starts as a router" in spectui.out
    assert spectui("lint", "--dialect", "ik", text) == 0
    assert "stops where it finds none" in " ".join(spectui.out.split())
