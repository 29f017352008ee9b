"""Rules for what a server takes without a word, and reads otherwise than it looks."""

import re
from collections.abc import Iterator

from spectui.commands.command import ServerCommand
from spectui.commands.finding import Finding, Topic, warning
from spectui.commands.home import is_named_so
from spectui.commands.measured import is_ignored
from spectui.commands.reader import Reader
from spectui.options.dialect import Dialect

_IN_TOKENS = (
    *("ctx-size", "ctx-size-draft", "batch-size", "ubatch-size", "predict", "keep", "fit-ctx"),
    *("cache-reuse", "yarn-orig-ctx", "kv-unified-per-slot"),
)
_FACTORS = {
    **{key: {"k": 1 << 10, "m": 1 << 20} for key in _IN_TOKENS},
    **{key: {"m": 1, "g": 1 << 10} for key in ("cache-ram", "fit-target")},
}
"""Multipliers of letters behind a number, by the option's unit: tokens, or MiB."""
_NO_JINJA = "--no-jinja"
_JINJA_KNOWS = "chatml"
"""The only name that llama-server looks up with Jinja as well."""
_SIZE = re.compile(r"(\d+)([kmg]|(?:_\d+)+)", re.IGNORECASE)


def misread_rule(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    """Yield findings on what the reader misreads or ignores; what it refuses, it judges itself."""
    yield from _home(command)
    yield from _sizes(command, reader)
    yield from _idle_threads(command)
    if reader.dialect is Dialect.LLAMA_CPP:
        yield from _literal_template(command)


def _sizes(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    """Find sizes of which the reader takes the digits ahead."""
    for at, item in command.all(*_FACTORS):
        is_unread = item.variable is not None and reader.reads(item.variable) is False
        found = _SIZE.fullmatch(item.value)
        if found is None or is_unread:
            continue
        factor = _FACTORS[item.name].get(found[2].lower())
        whole = str(int(found[1]) * factor) if factor else item.value.replace("_", "")
        yield warning(
            (at, item),
            f"{item.flag} {item.value} is read as {found[1]}",
            "the server takes the number that it begins with, and forgets the rest",
            write=(item.flag, whole) if whole.isdigit() else None,
            topic=Topic.MISREAD,
        )


def _literal_template(command: ServerCommand) -> Iterator[Finding]:
    """Find the name of a template of llama.cpp's own, which Jinja takes for the whole prompt."""
    found, jinja = command.last("chat-template"), command.last("jinja")
    is_off = jinja is not None and jinja[1].spelling == _NO_JINJA
    if found is None or is_off or "{" in found[1].value or found[1].value in {"", _JINJA_KNOWS}:
        return
    yield warning(
        found,
        f"{found[1].text} makes every prompt the text {found[1].value!r}",
        "with Jinja, the default, the value is the template itself, and names of templates count "
        f"beside {_NO_JINJA} alone; without it the model's own template is taken",
        write=(),
    )


def _home(command: ServerCommand) -> Iterator[Finding]:
    """Yield a finding for every path whose ``~`` no shell replaces."""
    for at, item in enumerate(command.items):
        if item.is_path and any(map(is_named_so, item.values)):
            yield warning(
                (at, item),
                f"{item.flag} {item.value} is in a folder called ~, and not in the home folder",
                "only a shell replaces ~, and not in quotes; the server looks for such a folder "
                "where it is started: write the whole path",
                topic=Topic.MISREAD,
            )


def _idle_threads(command: ServerCommand) -> Iterator[Finding]:
    """Find options of a draft's threads that llama-server reads and does not apply."""
    for at, item in enumerate(command.items):
        if is_ignored(item):
            why = "llama-server takes the number of a draft's threads (-td, -tbd), and no more"
            yield warning((at, item), f"{item.text} does nothing", why, write=())
