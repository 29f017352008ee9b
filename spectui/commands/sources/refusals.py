"""Shell text that no reader of commands takes: its name, and the way out."""

import re

from spectui.errors import BadInputError

INSTEAD = (
    "spectui does not interpret that; give the plain command, or pid:NUMBER of the running server"
)
_RUNNING = "pid:NUMBER of the running server"
_FILES = (
    (
        r"\A(?:[ \t]*(?:[#;][^\n]*)?\n)*[ \t]*\[(?:Unit|Service|Install)\]",
        "a systemd unit",
        "pid:$(systemctl show -p MainPID --value NAME) of the running service",
    ),
    (r"(?m)^kind[ \t]*:[ \t]*[A-Z]", "a Kubernetes file", _RUNNING),
    (
        r"\A(?:[ \t]*(?:#[^\n]*)?\n)*[ \t]*(?:FROM|ARG|ENV|CMD|ENTRYPOINT)[ \t]",
        "a Dockerfile",
        _RUNNING,
    ),
    (
        r"(?im)^[ \t]*(?:@echo[ \t]+off\b|set[ \t]+\"?\w+=|\$(?:env:)?\w+[ \t]*=)",
        "a script for a shell of Windows",
        _RUNNING,
    ),
    (r"\A\s*(?:\[\s*\"[^\"\n]*\"\s*[,\]]|\{\s*\")", "JSON", _RUNNING),
)
"""Files that hold commands and are not read, each with what to give in its place."""
_MOST_SHOWN = 60
PLACEHOLDER = re.compile(r"<(?:[A-Za-z][^<>\n;&|]*[^\s<>0-9&;|]|[A-Za-z][\w.-]*)>")
_FOREIGN = (
    (
        r"%\w+%|\$env:|\\[A-Za-z0-9][^ \t\n]*",
        "for a shell of Windows; write \\ at the ends of lines, and quotes around paths",
    ),
    (r"\[[A-Z][A-Z0-9_ -]*\]", "a placeholder; put there what it stands for"),
    (PLACEHOLDER.pattern, "a placeholder; put there what it stands for"),
    (r"\$\((?!\()[^()\n]*\)?|`[^`\n]*`?", "a command within the command"),
    (r"\$?\(\([^()\n]*(?:\)\))?|\$\[", "arithmetic"),
    (r"\d*<<<?-?[^ \t\n;&|<>]*", "a here-document"),
    (r"[<>]\([^()\n]*\)?", "a command in place of a file"),
    (r"\$[0-9@*#]|\$\{[0-9@*#][^}\n]*\}?", "what the caller of the script gives it"),
    (r"\$[?!$-]", "what only a running shell knows"),
    (r"\$\{[^}\n]*\}?", "an expansion other than ${NAME} and ${NAME:-default}"),
    (r"\$['\"]", "a quote with escapes"),
    (r"\|&?", "a pipe (if not, put it in quotes)"),
    (r"[()]", "a subshell or a pattern (if not, put it in quotes)"),
    (r"[*?\[][^ \t\n;&|<>]*", "a pattern of file names (if not, put it in quotes)"),
    (r"\{[^ \t\n;&|<>]*", "several words in braces (if not, put it in quotes)"),
    (r":?~[^ \t\n/;&|<>]*", "a home folder that only a shell knows"),
    (r"['\"]", "a quote without its end; close it"),
    (r"\\", "the end of the command, which goes on nowhere; take it out"),
    (r"[\x00-\x1f\x7f-\x9f]+", "what a terminal obeys, and no shell; take it out"),
    (r".?", "a sign that means something to a shell (if not, put it in quotes)"),
)


def check_file(text: str, name: str = "it") -> None:
    """Make sure that a text is of no kind that is not read.

    Raises:
        BadInputError: it is, and another way leads to its command.
    """
    for pattern, what, instead in _FILES:
        if re.search(pattern, text) is not None:
            raise BadInputError(
                f"{name} is {what}, which spectui does not read; give {instead}, or the plain "
                "command"
            )


def reason(text: str, at: int) -> str:
    """Name of the construct at a place of a text that only a shell can evaluate."""
    # Compiled here, since few commands are refused.
    patterns = ((re.compile(pattern, re.IGNORECASE), what) for pattern, what in _FOREIGN)
    found = ((pattern.match(text, at), what) for pattern, what in patterns)
    excerpt, meaning = next((m[0], what) for m, what in found if m is not None)
    return f"{shown(excerpt)} is {meaning}"


def shown(text: str) -> str:
    """An excerpt of the command for a message."""
    text = text.strip()
    return repr(text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…")
