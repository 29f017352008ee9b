"""What values options take: the table beside the real llama-server's help and refusals."""

import re
import shlex
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spectui.commands.lint.checking import lint
from spectui.commands.server_options import Arity, flags_of, server_option
from spectui.commands.sources.reading import read_command
from spectui.commands.values import Values, listed_flags, values_of
from spectui.options.dialect import Dialect
from spectui.server.binary import examine
from spectui.severity import Severity
from tests.commands.test_commands import asked
from tests.commands.test_lint import CURRENT, put_right
from tests.support.tables import rules, table

pytest_plugins = ["tests.support.fixtures"]

PROBES = (
    *("abc", "16k", "1.5", "-1", "0", "2000", "1,2,a", "99999999999999", "1e400", "0x10", "nan"),
    *("x:0.5", "a=int:1", "5+1", "0-7", "f16", "{}"),
)
REFUSED = re.compile(r"error while handling argument")
NOT_ALONE = frozenset(
    {"--port", "--chat-template", "--device", "--spec-draft-device", "--mmproj-device"}
)
"""Options with values that stop the server later than at the option, or on some machines."""
OPTIONS = sorted(
    {
        option.long_flag
        for flag in listed_flags() & flags_of(Dialect.LLAMA_CPP)
        if (option := server_option(flag)) is not None and values_of(flag) is not None
    }
)


def known(flag: str) -> Values:
    values = values_of(flag)
    assert values is not None, flag
    return values


def words_of(flag: str, value: str) -> list[str]:
    option = server_option(flag)
    assert option is not None
    return [flag, *[value] * (2 if option.arity is Arity.TWO else 1)]


@table("dialect", [Dialect.LLAMA_CPP, Dialect.IK])
def test_every_option_with_a_value_is_listed(dialect: Dialect) -> None:
    for flag in flags_of(dialect):
        option = server_option(flag)
        assert option is not None
        is_switch = not option.counts.get(dialect)
        listed = any(one in listed_flags(dialect) for one in option.flags)
        assert listed != is_switch, flag


def taken_by(flag: str) -> frozenset[str]:
    return frozenset(value for value in PROBES if known(flag).read(value) is not None)


def telling(flag: str) -> list[str]:
    """The fewest values whose refusal tells an option from any that takes more than it does."""
    others = {frozenset(PROBES), *map(taken_by, OPTIONS)}
    others = {other for other in others if taken_by(flag) < other}
    told = []
    while others:
        refused = [value for value in PROBES if value not in taken_by(flag)]
        told.append(max(refused, key=lambda value: sum(value in other for other in others)))
        others = {other for other in others if told[-1] not in other}
    return told


def test_both_ends_of_a_range_are_in_it() -> None:
    values = Values(what="a number", number="whole", low=1, high=3)
    assert [values.read(text) for text in ("0", "1", "3", "4")] == [None, "1", "3", None]


@pytest.mark.ci
@pytest.mark.server
@pytest.mark.parametrize("flag", [flag for flag in OPTIONS if flag not in NOT_ALONE])
def test_the_real_server_stops_where_the_table_says(
    flag: str, tmp_path: Path, llama_server_binary: Path
) -> None:
    # It reads all of those that it takes at once.
    taken = sorted(taken_by(flag))
    everything = [word for value in taken for word in words_of(flag, value)]
    said = asked(llama_server_binary, ["-m", "none.gguf", *everything], tmp_path)
    assert not REFUSED.search(said), said
    for value in telling(flag):
        said = asked(llama_server_binary, ["-m", "none.gguf", *words_of(flag, value)], tmp_path)
        assert REFUSED.search(said), f"{value}: {said}"


@pytest.mark.server
def test_the_words_are_those_of_the_real_help(
    llama_server_binary: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SPECTUI_HOME", str(tmp_path))
    told = {
        flag: set(option.value.strip("{}").split(","))
        for option in examine(str(llama_server_binary)).options
        if option.value is not None and option.value.startswith("{")
        for flag in option.flags
    }
    assert {"--pooling", "--rope-scaling", "--split-mode"} <= told.keys()
    for flag, words in told.items():
        assert set(known(flag).words) == words, flag


@table(("text", "expected"), rules()["spellings"])
def test_another_spelling_is_put_right(text: str, expected: str) -> None:
    assert put_right(text) == expected


# No program can be given a NUL.
@given(
    value=st.text(st.characters(exclude_characters="\0"), max_size=8),
    flag=st.sampled_from(OPTIONS),
)
@example(value="0", flag="--chat-template")
@example(value="\x1f0", flag="--batch-size")
@example(value="\x1f0", flag="--adaptive-decay")
@example(value="0\x1f", flag="--adaptive-decay")
@example(value="\u20030x1", flag="--adaptive-decay")
@example(value="0x1p9999", flag="--adaptive-decay")
@example(value="\u0661", flag="--batch-size")
@example(value="9" * 5000, flag="--batch-size")
@example(value=f"0-{'9' * 5000}", flag="--cpu-range")
def test_any_value_is_read_or_refused(value: str, flag: str) -> None:
    read = known(flag).read(value)
    assert read is None or known(flag).read(read) == read
    # With Jinja any text is a template.
    plain = ["--no-jinja"] if flag == "--chat-template" else []
    text = shlex.join(["llama-server", "-m", "t", *plain, *words_of(flag, value)])
    errors = {
        one.flag for one in lint(read_command(text), CURRENT) if one.severity is Severity.ERROR
    }
    if read is None:
        assert flag in errors
