"""Commands of a report: the whole one for its user, and one that tells nothing private."""

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from spectui.commands.command import Start
from spectui.documents import Known
from spectui.errors import SpectuiError
from spectui.format import printable
from spectui.options.setup import ModelOptions
from spectui.report.content import Content
from spectui.secret import hidden, without_secrets


def advised_command(content: Content, *, is_public: bool = False) -> Known[str]:
    """The advised command for a shell, without secrets.

    Args:
        content: the study.
        is_public: whether it has names of files alone, and no options of the user's own; else
            ``~`` stands for the home folder of whoever searched.
    """
    outcome = content.source.outcome
    if outcome is None:
        return Known(None, "the search ended before it advised anything")
    setup = outcome.exported()
    if is_public:
        draft = None if outcome.draft is None else public(outcome.draft)
        target = public(outcome.target)
        setup = replace(setup, target=target, draft=draft, extra=(), start=Start())
    try:
        launch = setup.launch(outcome.dialect)
    except SpectuiError as error:
        return Known(None, str(error))
    variables = "".join(
        f"{name}={shlex.quote(hidden(name, value))} " for name, value in launch.command.environment
    )
    words = shell_text((*launch.command.prelude, *launch.arguments))
    return Known(f"{printable(variables)}{words}")


def public(model: ModelOptions) -> ModelOptions:
    """The model without folders, addresses, and texts that a user typed."""
    devices = replace(model.devices, rpc=(), names=None) if model.devices.rpc else model.devices
    return replace(model, path=Path(model.path.name), devices=devices, override_kv=())


def shell_text(words: Sequence[str]) -> str:
    """Words for a POSIX shell: ``~`` stands for the home folder, ``***`` for secrets."""
    return printable(" ".join(map(_quoted, without_secrets(words))))


def _quoted(word: str) -> str:
    home = f"{Path.home()}/"
    if len(home) > len("//") and word.startswith(home):
        return f"~/{shlex.quote(word.removeprefix(home))}"
    return shlex.quote(word)


def bench_command(content: Content, command: str, *, is_public: bool = False) -> str | None:
    """A command that measures the advised setting again.

    Args:
        content: the study.
        command: its llama-server command.
        is_public: whether the user's prompts are named without their folder.

    Returns:
        None where nothing drafts, or it is not known how it was measured.
    """
    config, source = content.document.config, content.source
    if config is None or source.outcome is None or source.outcome.speculation is None:
        return None
    words = ["spectui", "bench", "--from", command, "-n", str(config.n_predict)]
    words += ["--temp", f"{config.temp:g}", "--seed", str(config.seed)]
    words += ["--ignore-eos"] * config.ignore_eos
    if source.promise is not None and (prompts := source.promise.prompts) is not None:
        words += ["--prompts", prompts.name if is_public else str(prompts)]
    return shell_text(words)
