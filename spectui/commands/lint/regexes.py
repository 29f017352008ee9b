"""Tells patterns that llama-server cannot compile: those of ``std::regex``, in ECMAScript's form.

Python's expressions are others: there ``(?i)`` is fine and an unknown escape is not. What standard
libraries disagree about is no fault here.
"""

import re

_ESCAPE = r"\\(?:x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|c[A-Za-z]|[^xuc])"
_TOKEN = re.compile(
    rf"""
    (?P<opening>\((?:\?[:=!]|(?!\?)))
    |(?P<closing>\))
    |(?P<repeat>[*+?]|\{{(?P<least>\d+)(?:(?P<comma>,)(?P<most>\d*))?\}})
    |(?P<place>[|^$]|\\[bB])
    |\\(?P<group>[1-9]\d*)
    |\[(?P<set>(?:{_ESCAPE}|\[:(?:[a-z]+):\]|[^\]\\])*)\]
    |{_ESCAPE}
    |[^\\()\[{{*+?]
    """,
    re.VERBOSE | re.DOTALL,
)
_RANGE = re.compile(r"([^\\])-([^\\\]])")
_NO_CHARACTER = re.compile(rf"{_ESCAPE}|\[:[a-z]+:\]", re.DOTALL)
_ASSERTIONS = ("(?=", "(?!")


def fault_of(pattern: str) -> str | None:
    """What no reader of such patterns accepts, as a noun phrase; None if nothing is wrong."""
    opened: list[str] = []
    n_groups, at, is_atom = 0, 0, False
    while at < len(pattern):
        found = _TOKEN.match(pattern, at)
        if found is None:
            return _unreadable(pattern[at:])
        text = found[0]
        if found["repeat"]:
            if not is_atom:
                return f"{text!r} with nothing to repeat before it"
            if found["most"] and int(found["most"]) < int(found["least"]):
                return f"{text!r}, whose ends are the wrong way round"
        elif found["closing"]:
            if not opened:
                return "')' without '('"
            n_groups += opened[-1] == "("
            is_atom = opened.pop() not in _ASSERTIONS
        elif found["opening"]:
            opened.append(text)
            is_atom = False
        elif found["group"] and int(found["group"]) > n_groups:
            return f"{text!r} without a group that it repeats"
        elif (wrong := _reversed_range(found["set"])) is not None:
            return f"the range {wrong!r}, whose ends are the wrong way round"
        else:
            is_atom = not found["place"]
        at = found.end()
    return "'(' without ')'" if opened else None


def _unreadable(rest: str) -> str:
    match rest[0]:
        case "[":
            return "'[' without ']'"
        case "\\":
            return f"{rest[:2]!r}, an escape without its end"
        case "(":
            return f"{rest[:3]!r}, which is of other dialects of patterns"
    return "'{' without a number of repetitions"


def _reversed_range(content: str | None) -> str | None:
    """The first range of a set that ends before it begins; None without one."""
    plain = _NO_CHARACTER.sub("\\\\", content or "")
    return next((one[0] for one in _RANGE.finditer(plain) if one[1] > one[2]), None)
