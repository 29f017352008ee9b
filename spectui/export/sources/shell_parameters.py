"""Reads ``$NAME`` and ``${...}``."""

import re
from dataclasses import dataclass

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_SHORT = re.compile(rf"\$(?P<name>{_NAME}|[0@*])")
_LONG = re.compile(
    rf"(?P<name>{_NAME}|[0@*])(?P<index>\[[@*0]\])?"
    r"(?:(?P<operator>:?[-=?+])(?P<word>.*)|(?P<cut>%/\*))?",
    re.DOTALL,
)
_OWN = frozenset({"0", "BASH_SOURCE"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One as it stands."""

    name: str
    end: int
    """Index of the first character behind it."""
    index: str = ""
    """``@`` or ``*`` for all of a list."""
    operator: str = ""
    """``-``, ``=``, ``?`` or ``+``, which say what a value that is missing means."""
    counts_empty: bool = False
    """An empty value is one that is missing."""
    word: str = ""
    """What stands in for it."""
    is_cut: bool = False
    """Of a path, the folder alone."""

    @property
    def is_script(self) -> bool:
        """Whether it is the name of the script itself."""
        return self.name in _OWN

    @property
    def is_everything(self) -> bool:
        """Whether it is all that a script's caller adds."""
        return self.name in {"@", "*"}


def parameter_at(text: str, at: int) -> Parameter | None:
    """The one that begins there; None for another form, or something else."""
    short = _SHORT.match(text, at)
    if short is not None:
        return Parameter(name=short["name"], end=short.end())
    if not text.startswith("${", at):
        return None
    end = _closing(text, at + 2)
    found = _LONG.fullmatch(text, at + 2, end)
    if found is None:
        return None
    index = (found["index"] or "").strip("[]")
    parameter = Parameter(
        name=found["name"],
        end=end + 1,
        index="" if index == "0" else index,
        operator=(found["operator"] or "")[-1:],
        counts_empty=(found["operator"] or "").startswith(":"),
        word=found["word"] or "",
        is_cut=found["cut"] is not None,
    )
    is_odd = (index == "0" or parameter.is_cut) and not parameter.is_script
    return None if is_odd or (parameter.index and parameter.operator) else parameter


def end_of_braces(text: str, at: int) -> int:
    """Index behind the ``${...}`` that begins there; of its first two characters without an end."""
    end = _closing(text, at + 2)
    return end + 1 if end < len(text) else at + 2


def _closing(text: str, at: int) -> int:
    """Index of the brace that ends what began before ``at``; the text's end without one."""
    depth = 0
    while at < len(text):
        if text[at] == "\\":
            at += 1
        elif text.startswith("${", at):
            depth += 1
        elif text[at] == "}":
            if not depth:
                return at
            depth -= 1
        at += 1
    return len(text)
