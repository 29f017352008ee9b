"""Corrections of flags that no llama-server has."""

import re

from spectui.export.server_options import Arity, server_option
from spectui.export.words import Given

_ATTACHED = re.compile(r"(-[A-Za-z]+)(-?\d.*)")
DASHES = "\N{EN DASH}\N{EM DASH}\N{MINUS SIGN}\N{HYPHEN}\N{NON-BREAKING HYPHEN}"
"""Characters that editors and web pages substitute for the dashes of an option."""


def meant_by(given: Given) -> tuple[str, ...] | None:
    """The intended words; none where the flag has no effect; None if the intention is unknown."""
    flag, values = given.flag, given.values
    if not flag.strip("-"):
        return values
    attached = _ATTACHED.fullmatch(flag)
    if attached is not None:
        option = server_option(attached[1])
        is_value = option is not None and option.arity_of(attached[1]) is Arity.ONE
        return (attached[1], attached[2], *values) if is_value else None
    bare = flag.lstrip(f"-{DASHES}")
    spellings = (f"--{bare}", f"-{bare}", f"--{bare.lower()}", f"-{bare.lower()}")
    found = next((one for one in spellings if server_option(one) is not None), None)
    if found is not None:
        return (found, *values)
    return None if not _is_off_anyway(bare) else ()


def _is_off_anyway(bare: str) -> bool:
    """Whether it is the ``no-`` form of a switch that is off unless given."""
    option = server_option(f"--{bare.removeprefix('no-')}") if bare.startswith("no-") else None
    return option is not None and option.arity is Arity.NONE and not option.negations
