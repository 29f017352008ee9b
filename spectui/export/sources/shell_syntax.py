"""What has a meaning for a shell, as patterns. Facts only, of POSIX and of bash's lists."""

import re

BLANKS = " \t\r"
HIDDEN_END = re.compile(r"\\(?:\r?\n|[ \t]+(?:#[^\n]*)?(?:\n|\Z)|\Z)")
"""A line end that a backslash hides; blanks and a remark after it are forgiven."""
END = re.compile(r"[|&;]+")
"""Ends a command, or puts another one beside or behind it."""
REDIRECTION = re.compile(
    r"(?:\d*|&)(?:>>|>\||>&|<&|>(?!\()|<(?![<(]))[ \t]*(?P<number>(?<=&)[\d-]+)?"
)
ARRAY = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\[[@*]\]\}")
ARRAY_QUOTED = re.compile(r'"\$\{([A-Za-z_][A-Za-z0-9_]*)\[@\]\}"')
ARRAY_NAME = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?)=")
ALL_PARAMETERS = re.compile(r"\$[@*]|\$\{[@*]\}")
ALL_QUOTED = re.compile(r'"(?:\$[@*]|\$\{[@*]\})"')
SUBSTITUTION = re.compile(r"`|\$[({0-9$!?#']")
ASIDE = re.compile(r"(?:[ \t\r\n]|#[^\n]*(?:\n|\Z))*")
SHOWN = re.compile(r"\S+")
NAMED = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
HOME = re.compile(r"~(?=/|\s|\Z)")
ESCAPED_IN_QUOTES = '$`"\\'
OPENING = frozenset({"if", "for", "while", "until", "case", "select"})
CLOSING = frozenset({"fi", "done", "esac"})
KEYWORDS = frozenset({"then", "do", "else", "elif", "{", "!", "time"})
"""Words before a command that are no part of it."""
