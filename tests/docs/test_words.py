"""What the pages say of the program is so: options, variables, keys, messages, terms."""

import ast
import re
from collections.abc import Iterator
from functools import cache

import click
import msgspec

from spectui.cli import app
from spectui.settings import Settings
from tests.support.markdown import DOCS, ROOT, Document, written
from tests.support.tables import table

_SOURCE = ROOT / "spectui"
_OPTION = re.compile(r"(?<![\w/.=:-])--?[a-zA-Z][\w-]*")
_VARIABLE = re.compile(r"(?<!-)\b[A-Z]{2,}[A-Z0-9]*_[A-Z0-9_]*[A-Z0-9]\b")
_OF_OTHERS = frozenset({"-DGGML_CUDA", "-DGGML_HIP", "-DGGML_VULKAN", "-DGGML_RPC"})
"""Options of CMake and pip."""
_ELSEWHERE = frozenset({"CMAKE_ARGS", "SKBUILD_WHEEL_CMAKE"})
"""Variables that are read when something is installed."""
_KEY_ID = re.compile(r"`\"?([a-z]+\.[a-z_]+)\"?`")


# --- Options, variables, keys -----------------------------------------------------------------


def _commands(command: click.Command = app) -> Iterator[click.Command]:
    yield command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from _commands(found)


@cache
def _options() -> frozenset[str]:
    """Those of the program, and of the llama-servers that it knows."""
    own = {
        name
        for command in _commands()
        for parameter in command.get_params(click.Context(command))
        if isinstance(parameter, click.Option)
        for name in (*parameter.opts, *parameter.secondary_opts)
    }
    tables = [path.read_text("utf-8") for path in (_SOURCE / "commands/tables").iterdir()]
    servers = {option for table in tables for option in _OPTION.findall(table)}
    return frozenset(own | servers | _OF_OTHERS)


@table("document", written())
def test_every_option_and_every_environment_variable_exists(document: Document) -> None:
    variables = {name for code in document.code for name in _VARIABLE.findall(code)}
    assert {name for name in variables if name not in _sources()} <= _ELSEWHERE
    named = {option for code in document.code for option in _OPTION.findall(code)}
    # `--spec-ngram-…` stands for all that begin so.
    cut = {option for option in named if option.endswith("-")}
    assert all(any(known.startswith(option) for known in _options()) for option in cut)
    assert named - cut - _options() == set()


@cache
def _sources() -> str:
    return "\n".join(path.read_text("utf-8") for path in _SOURCE.rglob("*.py"))


def test_every_key_is_one_of_the_program() -> None:
    page = Document(DOCS / "configuration.md")
    ids = set(_KEY_ID.findall(page.text)) - {"config.toml"}
    assert len(ids) > 10
    assert {name for name in ids if f'"{name}"' not in _sources()} == set()


def test_the_settings_are_told_with_their_defaults() -> None:
    page = Document(DOCS / "configuration.md")
    first, *_ = (block.text for block in page.blocks if block.language == "toml")
    assert msgspec.toml.decode(first, type=Settings) == Settings()
    named = msgspec.toml.decode(first)
    assert named.keys() == {field.name for field in msgspec.structs.fields(Settings)}


# --- Messages ---------------------------------------------------------------------------------


@cache
def _sentences() -> tuple[str, ...]:
    """Texts of the program; a null stands for what is put in."""
    found = []
    for path in _SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.JoinedStr):
                parts = (str(getattr(part, "value", "")) for part in node.values)
                kinds = (isinstance(part, ast.Constant) for part in node.values)
                joined = (text if fixed else "\0" for text, fixed in zip(parts, kinds, strict=True))
                found.append("".join(joined))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
    return tuple(found)


def test_every_message_is_one_of_the_program() -> None:
    page = (DOCS / "troubleshooting.md").read_text("utf-8")
    for message in re.findall(r"^### (.+)$", page, re.MULTILINE):
        parts = [part.strip() for part in message.split("…") if part.strip()]
        pattern = re.compile(".*".join(map(re.escape, parts)), re.DOTALL)
        assert any(map(pattern.search, _sentences())), message
