"""Text that no reader of commands takes: its name, and the way that is left."""

import re

from spectui.errors import BadInputError

INSTEAD = (
    "spectui does not interpret that; give the plain command, or pid:NUMBER of the running server"
)
_IN_ITS_PLACE = "put there what it stands for"
_FILES = {
    "a systemd unit": r"\A(?:[ \t]*(?:[#;][^\n]*)?\n)*[ \t]*(?:\[(?:Unit|Service)\]|ExecStart *=)",
    "a Kubernetes file": r"(?m)^kind[ \t]*:[ \t]*[A-Z]",
    "a Dockerfile": r"\A(?:[ \t]*(?:#[^\n]*)?\n)*[ \t]*(?:FROM|ARG|ENV|CMD|ENTRYPOINT)[ \t]",
    "a script for a shell of Windows": (
        r"(?im)^[ \t]*(?:@echo[ \t]+off\b|set[ \t]+\"?\w+=|\$(?:env:)?\w+[ \t]*=)"
    ),
    "JSON": r"\A\s*(?:\[\s*\"[^\"\n]*\"\s*[,\]]|\{\s*\")",
}
"""Files that hold commands and are not read."""
_MOST_SHOWN = 60
PLACEHOLDER = re.compile(r"<(?:[A-Za-z][^<>\n;&|]*[^\s<>0-9&;|]|[A-Za-z][\w.-]*)>")
_FOREIGN = (
    (rf"\[[A-Z][A-Z0-9_ -]*\]|{PLACEHOLDER.pattern}", f"a placeholder; {_IN_ITS_PLACE}"),
    (
        r"%\w+%|\$env:\w*|\\[A-Za-z0-9][^ \t\n]*",
        "for a shell of Windows; write \\ at the ends of lines, and quotes around paths",
    ),
    (r"['\"]", "a quote without its end; close it"),
    (
        r"\$?\(\([^()\n]*(?:\)\))?|\$\([^()\n]*\)?|`[^`\n]*`?|\$\{[^}\n]*\}?|\$[\w@*#?!-]",
        "what only a shell knows",
    ),
    (
        r"[<>]+(?:\([^()\n]*\)?|[^ \t\n;&|<>]*)|[^ \t\n;&|<>]+|.?",
        "for the shell (if not, put it in quotes)",
    ),
)
"""What stands for something else to a shell, with its description, the most telling first."""


def check_file(text: str, name: str = "it") -> None:
    """Make sure that a text is of no kind that is not read.

    Raises:
        BadInputError: it is, and another way leads to its command.
    """
    for what, pattern in _FILES.items():
        if re.search(pattern, text) is not None:
            raise BadInputError(
                f"{name} is {what}, which spectui does not read; give the plain command, or "
                "pid:NUMBER of the running server"
            )


def reason(text: str, at: int) -> tuple[str, str]:
    """Description of what stands at a place of a text and only a shell can evaluate; what to do."""
    # Compiled here, since few commands are refused.
    patterns = ((re.compile(pattern, re.IGNORECASE), what) for pattern, what in _FOREIGN)
    found = ((pattern.match(text, at), what) for pattern, what in patterns)
    excerpt, meaning = next((m[0], what) for m, what in found if m is not None)
    what, _, remedy = meaning.partition("; ")
    return f"{shown(excerpt)} is {what}", remedy or INSTEAD


def shown(text: str) -> str:
    """An excerpt of the command for a message."""
    text = text.strip()
    return repr(text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…")
