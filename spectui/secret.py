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
_NAME = re.compile(r"-*[A-Za-z_][\w-]*")
"""Name of a variable or of an option."""
_BLANK = re.compile(r"\s")
_SHELL_WORD = re.compile(
    r"""((?:"(?:[^"\\]|\\.)*(?:"|\Z)|'[^']*(?:'|\Z)|\\[^\n]|[^\s"'\\;&|()])+)""", re.DOTALL
)


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
        if is_secret(option):
            yield hidden(option, word)
            option = ""
        elif sign and _NAME.fullmatch(name):
            # It may be a variable in its turn: --env=NAME=VALUE.
            yield f"{name}={hidden(name, *without_secrets([value]))}"
            option = ""
        else:
            yield hidden("", _printable_script(word) if _BLANK.search(word) else word)
            option = word if word.startswith("-") else ""


def printable_word(word: str) -> str:
    """A word of a command line, which may be a command or a script itself, as it may be printed."""
    return _printable_script(word) if _BLANK.search(word) else next(without_secrets([word]))


def _printable_script(text: str) -> str:
    """The text of a command as it stands, but for its secrets."""
    parts = _SHELL_WORD.split(text)
    typed, words = parts[1::2], [*map(_unquoted, parts[1::2])]
    parts[1::2] = [
        own if word == shown else _quoted(shown)
        for own, word, shown in zip(typed, words, without_secrets(words), strict=True)
    ]
    return "".join(parts)


def _quoted(word: str) -> str:
    """A word for a shell; of a variable the value is quoted alone, so that it stays one."""
    name, sign, value = word.partition("=")
    is_set = sign and _NAME.fullmatch(name)
    return f"{name}={shlex.quote(value)}" if is_set else shlex.quote(word)


def _unquoted(word: str) -> str:
    try:
        return "".join(shlex.split(word))
    except ValueError:
        # A quote without its end, as in a name.
        return word.replace('"', "").replace("'", "")


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
