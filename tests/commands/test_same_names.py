"""Names, templates and models of the hub that llama.cpp and ik_llama.cpp take otherwise."""

import ctypes

import llama_cpp
import pytest

from spectui.commands.items import words_of
from spectui.commands.lint.checking import lint
from spectui.commands.reader import Reader
from spectui.commands.server_options import flags_of, server_option
from spectui.commands.sources.reading import read_command
from spectui.commands.translation import translated
from spectui.commands.values import values_of
from spectui.errors import BadInputError
from spectui.options.dialect import Dialect
from spectui.severity import Severity
from tests.support.tables import table

OURS, IK = Dialect.LLAMA_CPP, Dialect.IK


def stops(text: str, dialect: Dialect) -> list[str]:
    """The options at which a server stops, by lint."""
    found = lint(read_command(text), Reader(dialect=dialect))
    return [one.flag for one in found if one.severity is Severity.ERROR]


def written(text: str, dialect: Dialect) -> str:
    """The arguments of the exported command."""
    launch = translated(read_command(text), Reader(dialect=dialect))
    return " ".join(words_of(launch.command.items))


def test_one_spelling_is_two_options() -> None:
    options = {
        flag
        for dialect in Dialect
        for flag in flags_of(dialect)
        if (one := server_option(flag)) and flag in one.ambiguous
    }
    assert options == {"-dr"}


@table(
    ("text", "ours", "ik"),
    [
        ("llama-server -dr smollm2 -c 512", [], ["--docker-repo"]),
        ("llama-server -dr=smollm2 -m x", ["-dr=smollm2"], ["-dr=smollm2"]),
        ("llama-server -m x -dr -c 512", ["--dry-run"], []),
        ("llama-server -m x -dr", ["--dry-run"], []),
        # A template is looked up where it is not left to Jinja.
        ("llama-server -m x --chat-template nope", [], ["--chat-template"]),
        ("llama-server -m x --jinja --chat-template nope", [], []),
        ("llama-server -m x --no-jinja --chat-template nope", ["--chat-template"], None),
        ("llama-server -m x --no-jinja --chat-template phi4", [], None),
        ("llama-server -m x --no-jinja --chat-template ''", [], None),
        ("llama-server -m x --no-jinja --jinja --chat-template nope", [], None),
        # One finds the file of a model of the hub by itself.
        ("llama-server -hfr a/b", [], ["-hfr"]),
        ("llama-server -hfr a/b:Q4_K_M", [], ["-hfr"]),
        ("llama-server -hfr a/b -hff c.gguf", [], []),
        ("llama-server -hfr a/b -m c.gguf", [], []),
        ("llama-server -m x --device ''", ["--device"], []),
        ("llama-server -m x --lora-scaled", ["--lora-scaled"], ["--lora-scaled"]),
        # What is no option with its value is not corrected to one without.
        ("llama-server -m x -draft-params", [], []),
    ],
)
def test_what_each_stops_at(text: str, ours: list[str], ik: list[str] | None) -> None:
    assert stops(text, OURS) == ours
    if ik is not None:
        assert stops(text, IK) == ik


def test_names_of_templates_are_the_librarys() -> None:
    function = llama_cpp.llama_cpp._lib.llama_chat_builtin_templates
    n_names = function(None, 0)
    names = (ctypes.c_char_p * n_names)()
    function(names, ctypes.c_size_t(n_names))
    known = values_of("--chat-template")
    assert known is not None
    assert set(known.words) - {""} == {(one or b"").decode() for one in names}


@table(
    ("text", "dialect", "arguments"),
    [
        ("llama-server -dr smollm2 -c 5", OURS, "--docker-repo smollm2 -c 5"),
        ("llama-server -dr smollm2 -m x", IK, "-m x"),
        ("llama-server -m x -dr -amb 512", OURS, "-m x"),
        ("llama-server -m x -dr -amb 512", IK, "-m x -dr -amb 512"),
        ("llama-server -hf a/b:Q4 -hff f.gguf", IK, "-hfr a/b -hff f.gguf"),
        ("llama-server -hf a/b:Q4 -hff f.gguf", OURS, "-hf a/b:Q4 -hff f.gguf"),
    ],
)
def test_what_is_written(text: str, dialect: Dialect, arguments: str) -> None:
    assert written(text, dialect) == arguments


@table(
    "model",
    [
        *("", "-dr smollm2", "--models-dir d", "--models-preset p.ini", "-hf a/b:Q4_K_M"),
        *("--gpt-oss-20b-default", "--embd-gemma-default", "--fim-qwen-3b-default"),
    ],
)
def test_a_model_that_it_cannot_load(model: str) -> None:
    with pytest.raises(BadInputError, match=r"-m FILE|--hf-file FILE"):
        written(f"llama-server {model} -c 512", IK)
