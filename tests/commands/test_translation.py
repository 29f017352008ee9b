"""Which drafting words are put into today's, left as they are, or refused."""

import pytest

from spectui.commands.reader import Reader
from spectui.commands.sources.reading import read_command
from spectui.commands.translation import drafting_of, translated
from spectui.errors import BadInputError
from spectui.options.dialect import Dialect
from tests.support.tables import rules, table


@table(("dialect", "text", "expected"), rules()["drafting"])
def test_drafting_means_the_same_to_its_reader(dialect: str, text: str, expected: str) -> None:
    command, reader = read_command(f"-m t {text}"), Reader(dialect=Dialect(dialect))
    how, _, words = expected.partition(" ")
    found = drafting_of(command, reader)
    assert (found.speculation is not None) == (how == "translated")
    assert " ".join(found.command.arguments) == f"-m t {words}".strip()


@table(
    ("dialect", "text"),
    [
        (Dialect.IK, "-m t -md d --spec-type draft-simple"),
        (Dialect.LEGACY, "-m t -md d --draft-max 4"),
        (Dialect.LEGACY, "-m t"),
        (Dialect.LLAMA_CPP, "-m t -rtr"),
    ],
)
def test_no_whole_command_is_put_into_another_dialect(dialect: Dialect, text: str) -> None:
    with pytest.raises(BadInputError, match=f"does not translate whole commands to {dialect};"):
        translated(read_command(text), Reader(dialect=dialect))


def test_what_may_be_of_any_dialect_is_written_for_the_one_asked_for() -> None:
    for dialect in (Dialect.LLAMA_CPP, Dialect.IK):
        text = "-m t -c 512"
        assert translated(read_command(text), Reader(dialect=dialect)).text.endswith(text)
