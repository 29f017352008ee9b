"""Options of a search that its workers repeat: which a study keeps, and which they take from it.

A study may lie in a storage that others write to. So what it keeps is data: it selects models,
prompts and numbers, and never names a program to start, a server to send models to, or a file to
write. Those are for the user of each machine to give.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from spectui.cli.click_options import given_words
from spectui.cli.options_common import BackendKind
from spectui.errors import BadInputError, UsageError

_OWN = frozenset(
    {
        *("study", "storage", "resume", "trials", "time_budget", "json_path", "quiet", "verbose"),
        *("yes", "min_gain", "repeats", "requests", "depths", "pin", "server_url", "command_line"),
        *("isolate", "timeout"),
    }
)
"""Options of one process alone, and the command of ``--from``, which may hold secrets."""
_GIVEN_HERE = {
    "from": "--from, whose command is not kept",
    "server_bin": "--server-bin, and programs are not taken from a storage",
    "rpc": "--rpc, and servers that get the models are not taken from a storage",
}
"""Options that each worker has to be given; with what a refusal says of them."""


def kept_options() -> dict[str, Any]:
    """Options of the present command that workers have to repeat."""
    given = given_words()
    found = {name: value for name, value in given.items() if name not in _OWN}
    if given.get("backend") != BackendKind.SERVER:
        found.pop("server_bin", None)
    return {**found, **({"from": True} if "command_line" in given else {})}


def repeated_options(name: str, kept: object, own: Iterable[str]) -> dict[str, Any]:
    """The options that a worker of the study ``name`` takes from it.

    Args:
        name: name of the study.
        kept: what the study keeps, from whoever wrote it.
        own: names of the options that the worker was given.

    Raises:
        BadInputError: it keeps something else than options.
        UsageError: the worker has to be given one.
    """
    if not isinstance(kept, Mapping) or not all(map(_is_typed, kept.values())):
        raise BadInputError(
            f"the study {name} does not keep its options as spectui writes them; go on with it by "
            "spectui tune, and then let workers join"
        )
    has_given = {"from" if one == "command_line" else one for one in own}
    for option, said in _GIVEN_HERE.items():
        if kept.get(option) and option not in has_given:
            raise UsageError(f"the study {name} was begun with {said}; give the same here")
    return {key: kept[key] for key in kept if key not in _OWN and key not in _GIVEN_HERE}


def _is_typed(value: object) -> bool:
    """Whether an option may have been typed so."""
    if isinstance(value, list):
        return all(isinstance(one, str) for one in value)
    return isinstance(value, str | bool | int | float)
