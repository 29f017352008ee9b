"""Exports in the spelling of one binary, whatever the time it was built."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings

from spectui.commands.items import divide
from spectui.commands.launch import ExportSetup, translated
from spectui.commands.reader import Reader
from spectui.commands.sources.reading import read_command
from spectui.errors import BadInputError
from spectui.options.drafters import DraftSimple
from spectui.options.setup import ContextOptions, FlashAttention, ModelOptions
from spectui.options.speculation import Speculation
from spectui.server.binary import ServerBinary, read_help
from tests.commands.test_export_formats import setups
from tests.support.binaries import BETWEEN, CURRENT, IK, LEGACY, OLD_IK, OLDEST
from tests.support.tables import rules, table

BUILDS = {
    "current": CURRENT,
    "between": BETWEEN,
    "legacy": LEGACY,
    "oldest": OLDEST,
    "ik": IK,
    "old ik": OLD_IK,
}
SETUP = ExportSetup(
    target=ModelOptions(path=Path("t.gguf")),
    draft=ModelOptions(path=Path("d.gguf")),
    context=ContextOptions(flash_attn=FlashAttention.ON),
    speculation=Speculation(DraftSimple(draft_max=8, draft_min=1, draft_p_min=0.5)),
    name="t",
)
_CONTEXT = "-c 4096 -b 2048 -ub 512"
_LEGACY = "--draft-max 8 --draft-min 1 --draft-p-min 0.5"
_MODELS = "-md d.gguf -ngld 999"


def reader_of(text: str) -> Reader:
    return ServerBinary(path="/bin/server", options=read_help(text), version=None).reader


def spelled(text: str, setup: ExportSetup = SETUP) -> list[str]:
    reader = reader_of(text)
    return list(setup.launch(reader.dialect, reader).command.arguments)


@pytest.mark.parametrize("build", BUILDS)
@settings(max_examples=30)
@given(setup=setups)
def test_what_is_written_is_taken_or_named(build: str, setup: ExportSetup) -> None:
    taken = reader_of(BUILDS[build])
    try:
        words = spelled(BUILDS[build], setup)
    except BadInputError as refused:
        told = str(refused)
        assert re.search(r"does not take -|knows no -|has no -", told)
        return
    assert {given.flag for given in divide(words)} <= taken.flags


@table(
    ("build", "extra", "words"),
    [
        ("current", ("--no-mmap",), ["--load-mode", "none"]),
        ("current", ("--model_draft", "x"), ["--model_draft", "x"]),
        ("legacy", ("--spec-draft-n-max=4",), ["--draft-max", "4"]),
        ("current", ("--threads=4",), ["--threads", "4"]),
        ("current", ("--port", "9000"), ["--port", "9000"]),
    ],
)
def test_the_users_own_arguments_are_spelled_as_well(
    build: str, extra: tuple[str, ...], words: list[str]
) -> None:
    found = spelled(BUILDS[build], replace(SETUP, extra=extra))
    assert found[-len(words) :] == words


@table(
    ("build", "extra", "flag"),
    [
        ("current", ("--swa-full",), "--swa-full"),
        ("legacy", ("--spec-type", "ngram-simple"), "--spec-type"),
        ("current", ("--spec-type", "ngram-mod"), "--spec-type ngram-mod"),
        ("between", (), "--spec-type draft-simple"),
    ],
)
def test_what_a_binary_does_not_take_is_named(
    build: str, extra: tuple[str, ...], flag: str
) -> None:
    with pytest.raises(BadInputError, match=f"^this llama-server (does not take|knows no) {flag}"):
        spelled(BUILDS[build], replace(SETUP, extra=extra))


@table(("text", "written", "told"), rules()["told"])
def test_what_is_written_otherwise_is_told(text: str, written: str, told: str) -> None:
    launch = translated(read_command(f"llama-server {text}"), Reader())
    assert written in launch.command.text
    assert any(told in note for note in launch.notes)
