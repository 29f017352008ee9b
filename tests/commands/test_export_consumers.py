"""Hostile values in every format: what reads it gets them as they are, and does nothing else."""

import json
import subprocess
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import yaml
from hypothesis import given, settings

from spectui.commands.formats import Format, render
from spectui.commands.launch import ExportSetup
from spectui.errors import BadInputError
from spectui.options.dialect import Dialect
from spectui.options.setup import ContextOptions, ModelOptions
from spectui.options.speculation import Speculation
from tests.commands.test_export_formats import interpolated, read_ini, read_llama_swap, setups
from tests.support.binaries import write_script
from tests.support.tables import table

_SCHEMAS = files("check_jsonschema") / "builtin_schemas" / "vendor"
COMPOSE = json.loads((_SCHEMAS / "compose-spec.json").read_text("utf-8"))
"""Of the Compose Specification."""

HOSTILE = {
    "rm": "a'; rm -rf ~ #",
    "quotes": """it's "quoted" `id` $(id)""",
    "variables": "$HOME ${HOME} $$ %h %%",
    "windows": r"C:\new\temp \\",
    "dashes": "--draft-max",
    "spaces": "  two  blanks\t",
    "line ends": "a\nrm -rf nothing\r\nb",
    "glob": "*?[a-z]{x,y}~!",
    "other letters": "é模型🦙\u202e\u2028\x85\ufeff\x1b",
    "yaml": "- &a !!python/object:x [1, 2]: |",
    "operators": "&& || ; > < | (x)",
}
HOLDS_FEWER = {Format.ARGS, Format.INI, Format.LLAMA_SWAP}
"""Formats that cannot hold every value, and then say so."""


def setup_of(value: str) -> ExportSetup:
    """With the value as a model's name, and as one of the user's own arguments."""
    return ExportSetup(
        target=ModelOptions(path=Path(f"/models/{value}.gguf")),
        draft=ModelOptions(path=Path(f"/models/draft {value}.gguf")),
        context=ContextOptions(),
        speculation=Speculation(),
        extra=("--alias", value.lstrip("-")),
        name=value,
    )


def read_back(text: str, format: Format, folder: Path) -> list[str]:  # noqa: A002 - the option's name
    """The arguments that a real consumer finds."""
    match format:
        case Format.LLAMA_SERVER:
            write_script(folder / "llama-server", '#!/bin/sh\nprintf "%s\\0" "$@"\n')
            return printed("PATH=.:$PATH; . ./FILE", text, folder)
        case Format.ARGS:
            script = 'mapfile -t found < FILE; printf "%s\\0" "${found[@]}"'
            return printed(script, text, folder, reader="bash")
        case Format.ENV:
            return printed("set -a; . ./FILE; set +a; env -0", text, folder)
        case Format.JSON:
            return list(json.loads(text)["arguments"])
        case Format.LLAMA_SWAP:
            return read_llama_swap(text)[1]
        case Format.COMPOSE:
            [service] = yaml.safe_load(text)["services"].values()
            return [interpolated(word) for word in service["command"]]
        case Format.INI:
            return list(read_ini(text).popitem()[1].values())


def printed(script: str, text: str, folder: Path, *, reader: str = "sh") -> list[str]:
    (folder / "FILE").write_text(text, "utf-8")
    done = subprocess.run([reader, "-c", script], cwd=folder, check=True, capture_output=True)
    assert done.stderr == b""
    return done.stdout.decode().split("\0")[:-1]


@table("format", list(Format))
@table("what", HOSTILE)
def test_hostile_values_are_inert(what: str, format: Format, tmp_path: Path) -> None:  # noqa: A002 - as above
    setup = setup_of(HOSTILE[what])
    (tmp_path / "kept").touch()
    try:
        text = render(setup.launch(Dialect.LLAMA_CPP), format)
    except BadInputError as refused:
        told = str(refused)
        assert format in HOLDS_FEWER, told
        assert "choose another format" in told
        return
    found = read_back(text, format, tmp_path)
    wanted = [str(setup.target.path), setup.extra[1]]
    match format:
        case Format.COMPOSE:
            assert {f"/models/{setup.target.path.name}", setup.extra[1]} <= set(found)
        case Format.ENV:
            assert f"LLAMA_ARG_MODEL={wanted[0]}" in found
            assert f"LLAMA_ARG_ALIAS={wanted[1]}" in found
        case _:
            assert set(wanted) <= set(found)
    assert {path.name for path in tmp_path.iterdir()} <= {"kept", "FILE", "llama-server"}


@settings(deadline=None)
@given(setup=setups)
def test_compose_files_are_what_the_specification_says(setup: ExportSetup) -> None:
    for one in (setup, replace(setup, has_gpu=True)):
        text = render(one.launch(Dialect.LLAMA_CPP), Format.COMPOSE)
        document: dict[str, Any] = yaml.safe_load(text)
        jsonschema.Draft201909Validator(COMPOSE).validate(document)
