"""llama-server's models preset file (``--models-preset``): a section per model.

The syntax is that of llama.cpp's ``common/preset.cpp``, which has no quotes and no escapes: what it
cannot hold is an error here, not a value cut short there.
"""

import re
import shlex

from spectui.errors import BadInputError
from spectui.export.accepted import Accepted
from spectui.export.dialects import Dialect
from spectui.export.setup import ExportSetup, commented
from spectui.export.words import Given, divide, without

_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_READS_IT = "--models-preset"
_CUTS = re.compile(r"[;#\r\n]|^[ \t]|[ \t]$")


def preset_file(setup: ExportSetup, dialect: Dialect) -> str:
    """The file with this one model in it.

    Raises:
        BadInputError: the dialect reads no such file, or it cannot hold a value.
    """
    if dialect is Dialect.IK:
        raise BadInputError(
            f"{dialect} reads no models preset file; choose another format, such as llama-swap"
        )
    accepted = setup.accepted
    if accepted is not None and _READS_IT not in accepted.flags:
        raise BadInputError(
            f"{accepted.program} reads no models preset file; choose another format"
        )
    # The router that reads the file chooses where its models listen.
    own = setup.with_extra(without(setup.extra, "--host", "--port"))
    entries: dict[str, str] = {}
    for given in divide(own.arguments(dialect)):
        key = _key(given, accepted)
        if key in entries:
            raise BadInputError(
                f"{given.flag} is given twice, but a models preset file holds each option once; "
                f"choose another format"
            )
        entries[key] = _value(given)
    start = (f"start it with: {shlex.quote(setup.program)} {_READS_IT} FILE",)
    lines = "".join(f"{key} = {value}\n" for key, value in entries.items())
    comments = commented((*setup.comments(), *start), ";")
    return f"{comments}version = 1\n\n[{slug(setup.name)}]\n{lines}"


def slug(name: str) -> str:
    """The name as every format takes it."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "model"


def _key(given: Given, accepted: Accepted | None) -> str:
    flag = given.flag
    if given.option is not None and not flag.startswith("--"):
        option = given.option
        flag = option.long_flag if accepted is None else accepted.long_flag_of(option)
    key = flag.lstrip("-")
    if not flag.startswith("-") or not _KEY.fullmatch(key):
        raise BadInputError(
            f"{given.flag!r} is no option that a models preset file can hold; choose another format"
        )
    return key


def _value(given: Given) -> str:
    if len(given.values) > 1:
        raise BadInputError(
            f"{given.flag} has {len(given.values)} values, but a models preset file holds one per "
            f"option; choose another format"
        )
    value = given.values[0] if given.values else "true"
    if _CUTS.search(value):
        raise BadInputError(
            f"{given.flag} {value!r}: a models preset file cannot hold ';', '#', line ends, or "
            f"blanks at either end; choose another format, or rename the file"
        )
    return value
