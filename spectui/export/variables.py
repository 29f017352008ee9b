"""Exports a start of llama-server as environment variables."""

import shlex
from collections.abc import Iterator

from spectui.errors import BadInputError
from spectui.export.launch import Launch, commented, printable
from spectui.export.server_options import NEGATION, PREFIX, canonical
from spectui.export.words import Given, divide
from spectui.options.dialect import Dialect

_OTHERS = {"--api-key": "LLAMA_API_KEY", "-hft": "HF_TOKEN", "--hf-token": "HF_TOKEN"}
"""Variables with names unlike those of their options."""
_PLACING = ("override-tensor", "cpu-moe", "n-cpu-moe", "n-cpu-ffn")
"""Options of which the first that matches a tensor applies, in the order of llama-server's table,
in which it reads variables."""
_CPU = "CPU"


def variables_file(launch: Launch) -> str:
    """Assignments for a POSIX shell, or for systemd's ``EnvironmentFile=``.

    Raises:
        BadInputError: the dialect reads no variables, or has none for an argument.
    """
    if launch.dialect is Dialect.IK:
        raise BadInputError(
            f"{launch.dialect} reads no environment variables about drafting; choose another format"
        )
    check_placing(launch, "variables", in_order=_PLACING)
    assigned = dict(launch.environment)
    for name, value in _assigned(launch):
        if name in assigned:
            raise BadInputError(
                f"{name} would be given twice, but the environment holds each variable once; "
                "choose another format"
            )
        assigned[name] = value
    start = f"set -a; . ./FILE; set +a; {printable(shlex.join(launch.program))}"
    lines = (f"{name}={shlex.quote(value)}\n" for name, value in assigned.items())
    return commented((*launch.comments, start)) + "".join(lines)


def check_placing(launch: Launch, where: str, *, in_order: tuple[str, ...] = ()) -> None:
    """Refuse placements whose order matters but would be lost.

    Args:
        launch: launch to export.
        where: format that would lose the order.
        in_order: names of the options in the order in which they are read there; empty for none
            that can be relied on.

    Raises:
        BadInputError: there are such placements.
    """
    placing = [given for given in divide(launch.arguments) if _name(given) in _PLACING]
    names = [_name(given) for given in placing]
    is_kept = bool(in_order) and names == sorted(names, key=_PLACING.index)
    if len(set(names)) > 1 and not is_kept and any(map(_moves, placing)):
        flags = " and ".join(dict.fromkeys(given.flag for given in placing))
        raise BadInputError(
            f"the first of {flags} that matches a tensor counts, and {where} would not keep their "
            "order; choose another format"
        )


def _name(given: Given) -> str:
    server = given.server
    return "" if server is None else server.long_flag.lstrip("-")


def _moves(given: Given) -> bool:
    """Whether the placement sends weights anywhere but to RAM."""
    return any(not part.endswith(f"={_CPU}") for v in given.values for part in v.split(",")) and (
        _name(given) == "override-tensor"
    )


def _assigned(launch: Launch) -> Iterator[tuple[str, str]]:
    missing: list[str] = []
    for given in divide(launch.arguments):
        name = _variable(given, launch)
        if name is None or len(given.values) > 1:
            missing.append(given.flag)
        else:
            yield name, given.values[0] if given.values else "1"
    if missing:
        reader = launch.dialect if launch.accepted is None else launch.accepted.program
        flags = dict.fromkeys(missing)
        raise BadInputError(
            f"{printable(', '.join(flags))} {'has' if len(flags) == 1 else 'have'} no environment "
            f"variable in {reader}; choose another format"
        )


def _variable(given: Given, launch: Launch) -> str | None:
    flag, option, server = canonical(given.flag), given.option, given.server
    accepted = launch.accepted
    if flag in _OTHERS:
        return _OTHERS[flag]
    if option is not None and accepted is not None:
        return accepted.variable_of(option)
    if option is not None:
        return option.variable_in(launch.dialect)
    if server is None or server.variable is None:
        return None
    if accepted is not None and server.variable not in accepted.variables:
        return None
    is_off = flag in server.negations
    return server.variable.replace(PREFIX, NEGATION, 1) if is_off else server.variable
