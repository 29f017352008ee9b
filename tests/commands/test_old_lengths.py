"""What lengths of drafts of older builds become: the same in lint, export and take-over."""

import shlex

from spectui.commands.items import divide
from spectui.commands.lint.checking import fixed
from spectui.commands.reader import Reader
from spectui.commands.rewriting import rewritten
from spectui.commands.sources.reading import read_command
from spectui.commands.translation import drafting_of, translated
from tests.support.tables import rules, table

READER = Reader()


def lengths(words: tuple[str, ...]) -> dict[str, str]:
    """What is said of drafts' lengths, less the shortest, which never changed."""
    names = ("draft-max", "draft-p-min", "size-n", "size-m", "n-max", "n-min")
    return {
        given.name: given.values[-1]
        for given in divide(words)
        if given.name.endswith(names) and given.name != "draft-min"
    }


@table(("drafting", "today"), rules()["lengths"])
def test_one_rule_for_all_who_ask(drafting: str, today: str) -> None:
    expected = dict(one.split("=") for one in today.split())
    command = read_command(f"llama-server -m t {drafting} -np 1")
    # What is the default today is left to the server.
    assert expected.items() - {("draft-p-min", "0.0")} <= (
        lengths(fixed(command, READER).arguments).items()
    )
    exported = rewritten(drafting_of(command, READER).command, READER)[0]
    assert lengths(exported.arguments) == expected, shlex.join(exported.arguments)


def test_a_length_is_told_unless_the_drafter_has_its_own() -> None:
    for own, is_told in (("", True), (" --spec-ngram-simple-size-m 12", False)):
        command = read_command(f"-m t --spec-type ngram-simple --draft-max 5{own}")
        assert ("written for 5" in " ".join(translated(command, READER).notes)) is is_told
