"""Which drafting words are translated for their new reader, left as they are, or refused."""

import pytest

from spectui.commands.reader import Reader
from spectui.commands.recognition import recognise
from spectui.commands.sources.reading import read_command
from spectui.commands.translation import drafting_of
from spectui.errors import BadInputError
from spectui.options.dialect import Dialect
from tests.support.tables import rules, table


@table(("dialect", "text", "expected"), rules()["drafting"])
def test_drafting_means_the_same_to_its_new_reader(dialect: str, text: str, expected: str) -> None:
    command, reader = read_command(f"-m t {text}"), Reader(dialect=Dialect(dialect))
    how, _, words = expected.partition(" ")
    if how == "refused":
        with pytest.raises(BadInputError, match=words):
            drafting_of(command, reader, recognise(command).dialect)
        return
    found = drafting_of(command, reader, recognise(command).dialect)
    assert (found.speculation is not None) == (how == "translated")
    assert " ".join(found.command.arguments) == f"-m t {words}".strip()
