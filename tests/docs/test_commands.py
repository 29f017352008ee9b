"""Every command in README and ``docs/`` is one that the program takes; ``test_runs`` runs them."""

import re
import tomllib
from collections.abc import Sequence
from pathlib import Path

import click
import pytest

from spectui.cli import app
from tests.support.markdown import ROOT, Document, programs, spectui_commands, written
from tests.support.tables import table

pytest_plugins = ["tests.support.cli_fixtures"]

_PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
_INSTALLERS = frozenset({"python3", "pip", "pytest", "uv", "pipx"})
"""Other programs that stand in blocks of ``sh``; all else has another language."""
_EXTRA = re.compile(r"\.\[([\w,]+)\]")
_COMMANDS = spectui_commands(*written())


def _name(arguments: Sequence[str]) -> str:
    return " ".join(arguments)[:80] or "(nothing)"


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[click.Context]:
    """Contexts of commands that were parsed, in place of running them."""
    found: list[click.Context] = []

    def note(_command: click.Command, context: click.Context) -> None:
        found.append(context)

    monkeypatch.setattr(click.Command, "invoke", note)
    return found


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("arguments", _COMMANDS, ids=_name)
def test_the_program_takes_every_command(
    arguments: tuple[str, ...], parsed: list[click.Context]
) -> None:
    app.main([*arguments], prog_name="spectui", standalone_mode=False)
    # The group and the command, unless an option such as --help ends it.
    assert parsed or {"--help", "--version"} & {*arguments}


@table("document", written())
def test_other_programs_have_blocks_of_their_own_and_what_is_installed_exists(
    document: Document,
) -> None:
    typed = {Path(words[0]).name for line in document.lines for words in programs(line)}
    assert typed <= {"spectui", *_INSTALLERS}
    extras = [name for found in _EXTRA.findall(document.text) for name in found.split(",")]
    assert set(extras) <= _PROJECT["optional-dependencies"].keys()
    pins = re.findall(r"llama-cpp-python==[\w.]+", document.text)
    assert set(pins) <= set(_PROJECT["dependencies"])


def test_the_readme_marks_commands() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    marked = re.findall(r"^<!-- (\S+) -->\n```sh\n(.+)\n```$", text, re.MULTILINE)
    assert [name for name, _ in marked] == ["main-job-command", "test-command"]
    install = "python3 -m venv .venv && SKBUILD_WHEEL_CMAKE=false .venv/bin/pip install -q -c "
    assert all(command.startswith(install) for _, command in marked)
