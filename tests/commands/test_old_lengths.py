"""What lengths of drafts of older builds become: the same in lint, export and take-over."""

import shlex

from spectui.commands.items import divide
from spectui.commands.lint.checking import fixed
from spectui.commands.reader import Reader
from spectui.commands.rewriting import rewritten
from spectui.commands.sources.reading import read_command
from spectui.commands.takeover import take_over
from spectui.commands.translation import drafting_of
from spectui.options.dialect import Dialect
from tests.support.tables import table

READER = Reader()


def lengths(words: tuple[str, ...]) -> dict[str, str]:
    """What is said of drafts' lengths, less the shortest, which never changed."""
    names = ("draft-max", "draft-p-min", "size-n", "size-m", "n-max", "n-min")
    return {
        given.name: given.values[-1]
        for given in divide(words)
        if given.name.endswith(names) and given.name != "draft-min"
    }


@table(
    ("drafting", "expected"),
    [
        ("--spec-type ngram-simple --draft-max 5", {"spec-ngram-simple-size-m": "12"}),
        ("--spec-type ngram-simple --draft-max 16", {"spec-ngram-simple-size-m": "16"}),
        (
            "--spec-type ngram-simple --draft-max 5 --spec-ngram-size-n 8",
            {"spec-ngram-simple-size-n": "8", "spec-ngram-simple-size-m": "8"},
        ),
        (
            "--spec-type ngram-mod --draft-max 32",
            {"spec-ngram-mod-n-max": "32", "spec-ngram-mod-n-min": "0"},
        ),
        (
            "--spec-type ngram-mod --draft-max 32 --draft-min 4",
            {"spec-ngram-mod-n-max": "32", "spec-ngram-mod-n-min": "4"},
        ),
        (
            "-md d --spec-type ngram-simple,draft-simple --draft-max 8",
            {"draft-max": "8", "draft-p-min": "0.0"},
        ),
        ("-md d --draft-max 8", {"draft-max": "8", "draft-p-min": "0.75"}),
        ("-md d --spec-type draft:n_max=4", {"draft-max": "4", "draft-p-min": "0.75"}),
        ("-md d --spec-type draft:p_min=0.5", {"draft-max": "16", "draft-p-min": "0.5"}),
        ("-mtp --draft-max 2", {"draft-max": "2", "draft-p-min": "0.75"}),
    ],
)
def test_one_rule_for_all_who_ask(drafting: str, expected: dict[str, str]) -> None:
    command = read_command(f"llama-server -m t {drafting} -np 1")
    # What is the default today is left to the server.
    assert expected.items() - {("draft-p-min", "0.0")} <= (
        lengths(fixed(command, READER).arguments).items()
    )
    exported = rewritten(drafting_of(command, READER, Dialect.LLAMA_CPP).command, READER)[0]
    assert lengths(exported.arguments) == expected, shlex.join(exported.arguments)


@table(
    ("drafting", "expected"),
    [
        ("--spec-type ngram-simple --draft-max 5", {"spec-ngram-simple-size-m": ("12",)}),
        ("-md d --spec-type draft:n_max=4", {"draft-max": ("4",), "draft-p-min": ("0.75",)}),
    ],
)
def test_the_screen_and_what_measures_take_over_the_same(
    drafting: str, expected: dict[str, tuple[str, ...]]
) -> None:
    options = take_over(read_command(f"llama-server -m t {drafting}")).options
    assert {name: options.get(name) for name in expected} == expected
