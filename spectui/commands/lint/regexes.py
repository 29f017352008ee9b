"""Tells patterns that llama-server cannot compile: those of ``std::regex``, in ECMAScript's form.

Python's expressions are others: there ``(?i)`` is fine and an unknown escape is not. What standard
libraries disagree about is no fault here.
"""

import re

_ESCAPE = r"\\(?:x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|c[A-Za-z]|[^xuc])"
_CLASS = r"\[:(?:alnum|alpha|blank|cntrl|digit|graph|lower|print|punct|space|upper|xdigit|[dsw]):\]"
_TOKEN = re.compile(
    rf"""
    (?P<opening>\((?:\?[:=!]|(?!\?)))
    |(?P<closing>\))
    |(?P<repeat>[*+?]|\{{(?P<least>\d+)(?:(?P<comma>,)(?P<most>\d*))?\}})
    |(?P<place>[|^$]|\\[bB])
    |\\(?P<group>[1-9]\d*)
    |\[(?P<set>(?:{_ESCAPE}|{_CLASS}|\[(?!:)|[^\]\\[])*)\]
    |{_ESCAPE}
    |[^\\()\[{{*+?]
    """,
    re.VERBOSE | re.DOTALL,
)
_RANGE = re.compile(r"([^\\])-([^\\\]])")
_NO_CHARACTER = re.compile(rf"{_ESCAPE}|{_CLASS}", re.DOTALL)
_ASSERTIONS = ("(?=", "(?!")


def fault_of(pattern: str) -> str | None:
    """What no reader of such patterns accepts, as a noun phrase; None if nothing is wrong."""
    opened: list[str] = []
    n_groups, at, is_atom = 0, 0, False
    while at < len(pattern):
        found = _TOKEN.match(pattern, at)
        if found is None:
            return _unreadable(pattern[at:])
        if found["repeat"] and not is_atom:
            return f"{found[0]!r} with nothing to repeat before it"
        if found["closing"] and not opened:
            return "')' without '('"
        if (wrong := _fault_within(found, n_groups)) is not None:
            return wrong
        if found["opening"]:
            opened.append(found[0])
        is_atom = not (found["opening"] or found["place"])
        if found["closing"]:
            begun = opened.pop()
            n_groups += begun == "("
            is_atom = begun not in _ASSERTIONS
        at = found.end()
    return "'(' without ')'" if opened else None


def _fault_within(found: re.Match[str], n_groups: int) -> str | None:
    """Fault of one part of a pattern by itself, behind so many groups."""
    if found["most"] and int(found["most"]) < int(found["least"]):
        return f"{found[0]!r}, whose ends are the wrong way round"
    if found["group"] and int(found["group"]) > n_groups:
        return f"{found[0]!r} without a group that it repeats"
    wrong = _reversed_range(found["set"])
    return None if wrong is None else f"the range {wrong!r}, whose ends are the wrong way round"


def _unreadable(rest: str) -> str:
    match rest[0]:
        case "[":
            is_class = "[:" in rest.partition("]")[0]
            return "a class of characters that nobody knows" if is_class else "'[' without ']'"
        case "\\":
            return f"{rest[:2]!r}, an escape without its end"
        case "(":
            return f"{rest[:3]!r}, which is of other dialects of patterns"
    return "'{' without a number of repetitions"


def _reversed_range(content: str | None) -> str | None:
    """The first range of a set that ends before it begins; None without one."""
    plain = _NO_CHARACTER.sub("\\\\", content or "")
    return next((one[0] for one in _RANGE.finditer(plain) if one[1] > one[2]), None)
