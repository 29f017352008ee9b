"""Names, templates and models of the hub that llama.cpp and ik_llama.cpp take otherwise."""

from spectui.commands.items import words_of
from spectui.commands.lint.checking import lint
from spectui.commands.reader import Reader
from spectui.commands.sources.reading import read_command
from spectui.commands.translation import translated
from spectui.options.dialect import Dialect
from spectui.severity import Severity
from tests.support.tables import rules, table

OURS, IK = Dialect.LLAMA_CPP, Dialect.IK


def stops(text: str, dialect: Dialect) -> list[str]:
    """The options at which a server stops, by lint."""
    found = lint(read_command(text), Reader(dialect=dialect))
    return [one.flag for one in found if one.severity is Severity.ERROR]


def written(text: str, dialect: Dialect) -> str:
    """The arguments of the exported command."""
    launch = translated(read_command(text), Reader(dialect=dialect))
    return " ".join(words_of(launch.command.items))


@table(("text", "ours", "ik"), rules()["stops"])
def test_what_each_stops_at(text: str, ours: str, ik: str) -> None:
    assert " ".join(stops(text, OURS)) == ours
    assert ik in {"?", " ".join(stops(text, IK))}


@table(
    ("text", "dialect", "arguments"),
    [
        ("llama-server -dr smollm2 -c 5", OURS, "--docker-repo smollm2 -c 5"),
        ("llama-server -m x -dr -amb 512", IK, "-m x -dr -amb 512"),
        ("llama-server -hf a/b:Q4 -hff f.gguf -rtr -mla 3", IK, "-hfr a/b -hff f.gguf -rtr -mla 3"),
        ("llama-server -hf a/b:Q4 -hff f.gguf", OURS, "-hf a/b:Q4 -hff f.gguf"),
    ],
)
def test_what_is_written(text: str, dialect: Dialect, arguments: str) -> None:
    assert written(text, dialect) == arguments
