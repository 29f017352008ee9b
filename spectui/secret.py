"""Hides secrets in commands and addresses that are stored or printed, with ``***`` in place."""

import os
import re
import shlex
from collections.abc import Iterable, Iterator

HIDDEN = "***"
"""Stands for a secret."""
_NAMES = re.compile(
    r"PASSWORD|PASSWD|PASSPHRASE|SECRET|CREDENTIAL|TOKEN$|API_?KEY(?!_FILE)|(^|_)KEYS?$|_PAT$|^HFT$"
    r"|SIGNATURE|^SIG$"
)
"""Names of variables and options whose values are secrets; counts of tokens are none."""
_USER = re.compile(r"(://[^/\s:@]*):(?:[^/\s]*|[^@\s]*)@")
_QUERY = re.compile(r"([?&;][^=&;\s]+)=([^&;\s]*)")


_ENTRY = re.compile(r'("([^"\\]+)"\s*:\s*)"(?:[^"\\]|\\.)+"')
"""Entry of a JSON object, as options take them."""


def is_secret(name: str) -> bool:
    """Whether the value of a variable, or of an option, is a secret."""
    return _NAMES.search(name.lstrip("-").replace("-", "_").upper()) is not None


def hidden(name: str, value: str) -> str:
    """The value of a variable or an option, as it may be stored and printed."""
    if value and is_secret(name):
        return HIDDEN

    def entry(match: re.Match[str]) -> str:
        return f'{match[1]}"{HIDDEN}"' if is_secret(match[2]) else match[0]

    return _ENTRY.sub(entry, without_passwords(value))


def without_secrets(words: Iterable[str]) -> Iterator[str]:
    """The words of a command as they may be printed: values of options that are secrets hidden."""
    option = ""
    for word in words:
        name, sign, value = word.partition("=")
        if word.startswith("-") and sign:
            yield f"{name}={hidden(name, value)}"
        else:
            yield hidden(option if option.startswith("-") else "", word)
        option = word


def printable_word(word: str) -> str:
    """A word of a command line, which may itself be a command, as it may be printed."""
    try:
        words = shlex.split(word) if " " in word else [word]
    except ValueError:
        # A quote without its end, as in a name.
        words = [word]
    shown = [*without_secrets(words)]
    return word if shown == words else shlex.join(shown) if " " in word else shown[0]


def environment_without_secrets() -> dict[str, str]:
    """Variables of this process without secrets, for children that read foreign files."""
    return {name: value for name, value in os.environ.items() if hidden(name, value) == value}


def without_passwords(text: str) -> str:
    """``text`` with the passwords of the addresses in it hidden."""
    if "://" not in text:
        return text

    def parameter(match: re.Match[str]) -> str:
        return f"{match[1]}={HIDDEN}" if is_secret(match[1][1:]) else match[0]

    return _QUERY.sub(parameter, _USER.sub(rf"\1:{HIDDEN}@", text))
