"""Which options and variables of a command measurements apply, and which they leave out."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

import platformdirs

from spectui.commands.items import Item, divide, words_of
from spectui.commands.server_options import PREFIX, option_of_variable, table
from spectui.options.option import Dialect
from spectui.secret import is_secret

_NEUTRAL = "neutral="
_BUDGET = "--reasoning-budget"
"""Ends the thinking of answers to chats alone: llama-server gives prompts as text no budget."""


@cache
def _by_kind() -> Mapping[str, frozenset[str]]:
    """Names of ``tables/measured.txt`` by kind.

    ``place`` and ``model`` place a model or change it, ``beside`` runs beside it or says how it
    waits and reads, ``choice`` changes which tokens are chosen. ``neutral=N`` has no effect at N;
    ``off`` affects the speed, or the prompts, when it is switched off. What is ``made-up`` replaces
    the target's judgement of drafts by chance. Each ``tuning-variable`` of llama.cpp, its backends
    and their libraries selects devices, sizes and ways to compute: none names a file or a library.
    A ``path-variable`` holds paths.
    """
    found: dict[str, set[str]] = {}
    for kind, *names in map(str.split, table("measured")):
        found.setdefault(kind, set()).update(names)
    return {kind: frozenset(names) for kind, names in found.items()}


def _has_kind(name: str, *kinds: str) -> bool:
    return any(name in _by_kind()[kind] for kind in kinds)


def is_made_up(item: Item) -> bool:
    """Whether the option replaces the target's judgement of drafts by chance."""
    return _has_kind(_long(item), "made-up")


def own_arguments(words: Sequence[str]) -> tuple[str, ...]:
    """The user's arguments that a server of spectui's own gets: those known to be harmless."""
    return words_of(item for item in divide(words) if _is_harmless(item))


def held_back(words: Sequence[str]) -> tuple[str, ...]:
    """The user's arguments that a server of spectui's own does not get, or not in full."""
    return words_of(
        item for item in divide(words) if not _is_harmless(item) or _long(item) == _BUDGET
    )


def _is_harmless(item: Item) -> bool:
    return item.server is not None and item.server.is_harmless


WITHOUT_CONFIG_FILE = {"XDG_CONFIG_HOME": os.devnull}
"""Variables with which llama-server finds no ``llama.cpp/config.ini`` of the user."""


def config_files(*, with_system: bool) -> tuple[Path, ...]:
    """The files of options that llama-server applies before variables and arguments, where present.

    As ``common_params_apply_system_config`` of llama.cpp's ``common/arg.cpp`` since autumn 2026.

    Args:
        with_system: whether with the one of ``/etc``.
    """
    folders = (*([Path("/etc")] if with_system else ()), platformdirs.user_config_path())
    files = (folder / "llama.cpp" / "config.ini" for folder in folders)
    return tuple(file for file in files if file.is_file())


def own_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The user's variables that a server of spectui's own gets, with absolute paths.

    Variables that stand for options are filtered as arguments are. Secrets and the file of options
    are left out.
    """
    found = dict(WITHOUT_CONFIG_FILE)
    for name, value in environment.items():
        # Builds before spring 2026 called some of them without the ARG.
        option = option_of_variable(name) or option_of_variable(name.replace("LLAMA_", PREFIX, 1))
        is_taken = not name.startswith(PREFIX) if option is None else option.is_harmless
        if is_taken and name not in WITHOUT_CONFIG_FILE and not is_secret(name):
            is_path = _has_kind(name, "path-variable") or (option is not None and option.is_file)
            found[name] = _absolute(value) if is_path else value
    return found


def _absolute(value: str) -> str:
    paths = value.split(os.pathsep)
    return os.pathsep.join(os.path.abspath(path) if path else "" for path in paths)  # noqa: PTH100 - links stay


def tuning_variables(environment: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Variables of a command that processes of spectui's own get."""
    return {name: value for name, value in environment if _has_kind(name, "tuning-variable")}


def unmeasured(words: Sequence[str]) -> tuple[str, ...]:
    """The options among ``words`` that a measurement leaves out, unchanged.

    Options that no table has are among them, without their values.
    """
    return tuple(dict.fromkeys(_left_out(words)))


def beyond_engine(words: Sequence[str]) -> tuple[str, ...]:
    """Words of ``unmeasured`` that place or change a model, which a llama-server applies."""
    placed = (
        item for item in divide(words) if _counts(item) and _has_kind(_long(item), "place", "model")
    )
    return tuple(dict.fromkeys(item.text for item in placed))


def _long(item: Item) -> str:
    return "" if item.server is None else item.server.long_flag


def _left_out(words: Sequence[str]) -> Iterator[str]:
    for item in divide(words):
        if item.server is None:
            if item.option is None:
                yield item.flag
        elif item.is_speculative or _counts(item):
            yield item.text


def _counts(item: Item) -> bool:
    option = item.server
    if option is None:
        return False
    name, value = option.long_flag, item.values[0] if item.values else ""
    for kind, names in _by_kind().items():
        if kind.startswith(_NEUTRAL) and name in names:
            return not _equals(value, float(kind.removeprefix(_NEUTRAL)))
    is_negated = item.spelling in option.negations
    if _has_kind(name, "off"):
        return is_negated
    changes = not is_negated and _has_kind(name, "place", "model", "beside", "choice")
    return changes or option.dialects.keys() == {Dialect.IK}


def _equals(text: str, value: float) -> bool:
    try:
        return float(text) == value
    except ValueError:
        return False
