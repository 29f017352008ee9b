"""What has a meaning for a shell, as patterns. Facts only, of POSIX and of bash's lists."""

import re

BLANKS = " \t\r"
HIDDEN_END = re.compile(r"\\(?:\r?\n|[ \t]+(?:#[^\n]*)?(?:\n|\Z)|\Z)")
"""A line end that a backslash hides; blanks and a remark after it are forgiven."""
END = re.compile(r"[|&;]+")
"""Ends a command, or puts another one beside or behind it."""
REDIRECTION = re.compile(
    r"(?:\d*|&)(?:>>|>\||>&|<&|<<<|>(?!\()|<(?![<(]))[ \t]*(?P<number>(?<=&)[\d-]+)?"
)
DOCUMENT = re.compile(
    r"\d*<<(?!<)(?P<dash>-?)[ \t]*(?:'(?P<single>[^'\n]+)'|\"(?P<double>[^\"\n]+)\"|"
    r"\\?(?P<bare>[^\s;&|<>()'\"\\]+))"
)
"""Begins a text that stands below the line (a "here-document")."""
ARRAY_QUOTED = re.compile(r'"\$\{([A-Za-z_][A-Za-z0-9_]*)\[@\]\}"')
ARRAY_NAME = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?)=")
ALL_QUOTED = re.compile(r'"(?:\$[@*]|\$\{[@*]\})"')
SUBSTITUTION = re.compile(r"`|\$[({0-9$!?#']")
ARITHMETIC = re.compile(r"\(\(.*?\)\)", re.DOTALL)
ASIDE = re.compile(r"(?:[ \t\r\n]|#[^\n]*(?:\n|\Z))*")
SHOWN = re.compile(r"\S+")
NAMED = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
HOME = re.compile(r"~(?=/|\s|\Z)")
ESCAPED_IN_QUOTES = '$`"\\'
CLOSING = frozenset({"fi", "done", "esac", "}"})
NAMING = frozenset({"for", "select", "case"})
"""Begin blocks with words of their own."""
RENEWING = frozenset({"else", "elif"})
KEYWORDS = frozenset({"if", "while", "until", "then", "do", "{", "!", "time"})
"""Words before a command that are no part of it."""
BEGINNING = KEYWORDS | RENEWING
"""Words after which a command begins."""
CERTAIN = frozenset(
    {"cd", "pushd", "export", "declare", "typeset", "local", "readonly", "set", "shopt", "ulimit"}
    | {"umask", "source", ".", ":", "true", "echo", "printf", "mkdir", "unset", "trap", "sleep"}
    | {"module", "conda"}
)
"""Commands that go well, or there is no point in what follows."""


def end_of_document(start: re.Match[str]) -> re.Pattern[str]:
    """The line that ends what ``start`` began."""
    name = start["single"] or start["double"] or start["bare"]
    tabs = "\t*" if start["dash"] else ""
    return re.compile(rf"^{tabs}{re.escape(name)}\r?$\n?", re.MULTILINE)
