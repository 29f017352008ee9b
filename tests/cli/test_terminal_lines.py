"""What commands write to a terminal: broken at words, and nothing left of the live display."""

import io
import re
from pathlib import Path

import pyte
import pytest

from spectui.cli.output import filled
from tests.support.terminal import Terminal, drawn

pytest_plugins = ["tests.support.cli_fixtures", "tests.support.fixtures"]

_SIZE = (60, 80)
_CTRL_C = "\x03"
_COMMANDS = re.compile(r"((# )?llama-server -m|spectui tune) ")


def test_an_interrupted_search_leaves_whole_words_and_no_box(
    pair: list[object], prompts: Path, tmp_path: Path
) -> None:
    arguments = ["tune", *map(str, pair), "--prompts", str(prompts), "-n", "200", "--ignore-eos"]
    arguments += ["--trials", "9"]
    # Notes of a busy machine take lines: nothing may be scrolled away.
    shown = pyte.Screen(_SIZE[1], 4 * _SIZE[0])
    with Terminal(arguments, tmp_path, size=_SIZE) as terminal:
        terminal.child.logfile_read = io.StringIO()
        terminal.see("trial 0: ")
        terminal.press(_CTRL_C)
        terminal.end()
        assert terminal.exit_code == 130
        written = terminal.child.logfile_read.getvalue()
    pyte.Stream(shown).feed(written)
    lines = [line.rstrip() for line in shown.display]
    assert not [line for line in lines if line.startswith(("╭", "│", "╰"))]
    told = " ".join(lines)
    assert "Nothing was decided: no setting was confirmed" in told
    assert "and the same command goes on from there" in told
    wide = [line for line in drawn(written).splitlines() if len(line) > _SIZE[1]]
    assert [line for line in wide if not _COMMANDS.match(line.lstrip())] == []


def test_a_refusal_is_broken_at_words(tmp_path: Path) -> None:
    with Terminal(["bench", "--spec-type", ""], tmp_path, size=_SIZE) as terminal:
        lines = drawn(terminal.end()).splitlines()
        assert terminal.exit_code == 2
    assert max(map(len, lines)) <= _SIZE[1]
    assert "'ngram-map-k4v'," in " ".join(lines).split()


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("verifying takes 68 % of it", ["verifying takes", "68 % of it"]),
        ("give the same spectui tune again", ["give the same", "spectui tune again"]),
        ("now raise --draft-max", ["now raise", "--draft-max"]),
        ("in /a/long/folder/of/models", ["in", "/a/long/folder/of/models"]),
    ],
)
def test_a_line_is_broken_at_blanks_that_part_nothing(text: str, lines: list[str]) -> None:
    assert filled(text, 18).splitlines() == lines
