"""What ``ARCHITECTURE.md`` promises: a drafter and a command cost the files that it names."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

import spectui
from tests.support.models import CLOSE_DRAFT, TARGET, TinyPath

pytest_plugins = ["tests.support.fixtures"]

ROOT = Path(__file__).parent.parent
SOURCE = Path(spectui.__file__).parent

DRAFTER = {
    "options/drafters.py": (
        (
            "Ngram = NgramSimple |",
            '''class NgramToy(NgramDrafter, frozen=True, kw_only=True, tag="ngram-toy"):
    """Says the last token again."""

    remembers = False

    size_m: Annotated[int, _SIZE_M] = 2


Ngram = NgramToy | NgramSimple |''',
        ),
        ("] = (NgramSimple,", "] = (NgramToy, NgramSimple,"),
    ),
    "speculative/ngram.py": (
        ("    NgramSimple,\n)", "    NgramSimple,\n    NgramToy,\n)"),
        (
            "    match options:\n",
            """    match options:
        case NgramToy(size_m=size_m):
            from spectui.speculative.ngram_toy import NgramToyDrafter

            return NgramToyDrafter(size_m)
""",
        ),
    ),
}
"""Replacements by file, beside the drafter's own."""
TOY_DRAFTER = '''
"""Says the last token again."""

from spectui.speculative.drafters import Draft, Drafter


class NgramToyDrafter(Drafter):
    def __init__(self, size_m):
        self._size_m = size_m

    def draft(self, last, n_max):
        n = min(self._size_m, n_max)
        return Draft(tokens=(last,) * n, probabilities=(1.0,) * n)
'''
COMMAND = {"cli/__init__.py": (('    "verify": "', '    "greet": "Greet.",\n    "verify": "'),)}
TOY_COMMAND = '''
"""``spectui greet``."""

import click


@click.command(name="greet")
def command():
    """Greet."""
    click.echo("hello")
'''


OPTION = {
    "cli/doctor.py": (
        (
            "    given: Given\n",
            """    given: Given
    toy: int = option("--toy", type=Whole(1), default=3, help="A toy.")
""",
        ),
    )
}


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    """A copy of the package that may be changed."""
    copy = tmp_path / "copy" / "spectui"
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "presets", copy.parent / "presets")
    return copy


def change(scratch: Path, changes: Mapping[str, tuple[tuple[str, str], ...]]) -> None:
    for name, replacements in changes.items():
        text = (scratch / name).read_text("utf-8")
        for old, new in replacements:
            assert text.count(old) == 1, (name, old)
            text = text.replace(old, new)
        (scratch / name).write_text(text, "utf-8")


def run(scratch: Path, *arguments: object, **environment: str) -> str:
    own = {"PYTHONPATH": str(scratch.parent), "SPECTUI_HOME": str(scratch.parent / "home")}
    done = subprocess.run(
        [sys.executable, "-m", "spectui", *map(str, arguments)],
        env={**os.environ, **own, **environment},
        cwd=scratch.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def named(place: str) -> set[str]:
    """Files that the document names for adding something."""
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    [row] = re.findall(rf"^\| {place} \|(.*)\|$", text, re.MULTILINE)
    return {name.removeprefix("spectui/") for name in re.findall(r"`([\w/.]+\.py)`", row)}


@pytest.mark.ci
def test_a_drafter_costs_the_files_that_are_named(scratch: Path, tiny: TinyPath) -> None:
    assert {name for name in named("drafter") if "<" not in name} >= DRAFTER.keys()
    change(scratch, DRAFTER)
    (scratch / "speculative" / "ngram_toy.py").write_text(TOY_DRAFTER, "utf-8")
    pair = ("-m", tiny(TARGET), "-c", 256, "-t", 1, "-n", 12)
    toy = ("--spec-type", "ngram-toy", "--spec-ngram-toy-size-m", 3)
    prompts = scratch.parent / "prompts.txt"
    prompts.write_text("the rain on the other tin ring")
    document = json.loads(run(scratch, "bench", *pair, *toy, "--prompts", prompts, "--json", "-"))
    assert document["config"]["ngram"] == {"kind": "ngram-toy", "size_m": 3}
    assert document["prompts"][0]["n_drafted"] > 0

    command = ("llama-server", "-m", "t.gguf", "--spec-type", "ngram-toy")
    # A llama-server that runs on this machine does not know it.
    kept = run(scratch, "export", "--from", " ".join(command), "--dialect", "llama.cpp")
    assert kept.split() == list(command)
    table = run(
        scratch, "sweep", *pair, "--spec-type", "ngram-toy", "--spec-ngram-toy-size-m", "2,4",
        "--prompts", prompts,
    )  # fmt: skip
    assert "ngram-toy: m 2" in table
    assert "ngram-toy: m 4" in table
    record = scratch.parent / "trace.json.gz"
    draft = ("-md", tiny(CLOSE_DRAFT))
    run(scratch, "trace", *pair, *draft, "--prompts", prompts, "--out", record)
    replayed = json.loads(run(scratch, "replay", record, "--json", "-"))
    kinds = [one.get("ngram", {}).get("kind") for one in replayed["configs"]]
    assert "ngram-toy" in kinds


def test_a_command_costs_the_files_that_are_named(scratch: Path) -> None:
    assert named("command") >= COMMAND.keys()
    change(scratch, COMMAND)
    (scratch / "cli" / "greet.py").write_text(TOY_COMMAND, "utf-8")
    assert run(scratch, "greet") == "hello\n"
    assert "greet Greet." in " ".join(run(scratch, "--help").split())


def test_an_option_of_a_command_costs_its_field(scratch: Path) -> None:
    change(scratch, OPTION)
    assert "--toy N" in run(scratch, "doctor", "--help")
    assert json.loads(run(scratch, "doctor", "--toy", 5, "--json", "-"))["schema"]
    typed = {"COMP_WORDS": "spectui doctor --to", "COMP_CWORD": "2"}
    assert "plain,--toy\n" in run(scratch, _SPECTUI_COMPLETE="bash_complete", **typed)
