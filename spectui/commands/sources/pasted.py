"""Text as people copy it: out of Markdown, out of a terminal, and with what web pages put in it.

Lines stay where they are, so that messages count them as their reader does.
"""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field

from spectui.commands.command import Remark
from spectui.commands.items import DASHES
from spectui.commands.sources.source import names_server
from spectui.format import named
from spectui.severity import Severity

_SERVER = "llama-server"
_FENCE = re.compile(r"[ \t]*(?:>[ \t]*)?(```|~~~)")
_QUOTED_LINE = re.compile(r"[ \t]*>[ \t]?")
_CONTINUED = re.compile(r"(?m)(\\[ \t]*\r?\n)>[ \t]*(?=-)")
"""A line that a shell asks for with a prompt of its own; no file to write to begins with a dash."""
_CODE = re.compile(r"(`{1,2})(?!`)([^`]*?)\1(?!`)")
_BLANKS = "\u00a0\u1680\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
_UNSEEN = "\u00ad\u200b\u200e\u200f\u2060\u2066\u2067\u2068\u2069\ufeff" + "".join(
    map(chr, range(0x202A, 0x202F))
)
_JOINERS = frozenset("\u200c\u200d")
"""Parts of words of some scripts, but only within them."""
_STRANGE = "".join((_BLANKS, _UNSEEN, *_JOINERS))
_DOUBLE, _SINGLE = "\u201c\u201d\u201e\u201f", "\u2018\u2019\u201a\u201b"
_PART = re.compile(
    rf"\\[^{_STRANGE}]|'[^']*'|\"(?:\\.|[^\"\\])*\"|(?:(?<=[ \t\n])|\A)#[^\n]*"
    rf"|(?:(?<=[ \t\n=({_BLANKS}])|\A)(?P<quote>[{_DOUBLE}](?P<double>[^{_DOUBLE}\n]*)[{_DOUBLE}]"
    rf"|[{_SINGLE}](?P<single>[^{_SINGLE}\n]*)[{_SINGLE}])"
    rf"|(?P<word>[^ \t\r\n'\"\\{_STRANGE}]*+[{_STRANGE}][^ \t\r\n'\"\\]*)",
    re.DOTALL,
)
"""What keeps its signs, and what web pages have changed."""
_FREE = re.compile(
    r"(?:-a|--alias|--api-key|--api-prefix|--tags|-r|--reverse-prompt|-p|--prompt)[ \t=]+\Z"
)
"""Options that take any text, quotes of every kind too."""


def unfenced(text: str) -> str:
    """The code of a text of Markdown, or that of a terminal without its prompts for more lines."""
    lines = text.split("\n")
    if all(_QUOTED_LINE.match(line) for line in lines if line.strip()) and len(lines) > 1:
        lines = [_QUOTED_LINE.sub("", line, count=1) for line in lines]
    if any(map(_FENCE.match, lines)):
        lines = _code(lines)
    return _CONTINUED.sub(r"\1", _inline("\n".join(lines)))


def _inline(text: str) -> str:
    """The code between backticks, where only that names llama-server: it ends in no command."""
    found = [code for code in _CODE.finditer(text) if _SERVER in code[2]]
    if not found or _SERVER in _CODE.sub("", text):
        return text
    code, at = "", 0
    for one in found:
        # Lines stay, and commands on one are apart.
        lines = "\n" * text.count("\n", at, one.start())
        code += f"{lines or ';' * bool(code)}{one[2]}"
        at = one.end()
    return code


def _code(lines: list[str]) -> list[str]:
    """The lines with only the fenced blocks left; those that name llama-server, where some do."""
    blocks: list[list[int]] = []
    fence = ""
    for at, line in enumerate(lines):
        found = _FENCE.match(line)
        if found is not None and fence in {"", found[1]}:
            blocks += [] if fence else [[]]
            fence = "" if fence else found[1]
        elif fence:
            blocks[-1].append(at)
    named_so = [block for block in blocks if any("llama" in lines[at] for at in block)]
    kept = {at for block in named_so or blocks for at in block}
    return [line if at in kept else "" for at, line in enumerate(lines)]


@dataclass(slots=True)
class _Changes:
    """What was read as its author typed it, by the character that took its place."""

    found: dict[tuple[str, Severity], list[tuple[int, str, str]]] = field(default_factory=dict)

    def note(self, sign: str, severity: Severity, line: int, word: str, meant: str) -> None:
        self.found.setdefault((sign, severity), []).append((line, word, meant))

    def remarks(self) -> Iterator[Remark]:
        for (sign, severity), places in self.found.items():
            line, word, meant = places[0]
            more = f" and {len(places) - 1} times more" if len(places) > 1 else ""
            is_error = severity is Severity.ERROR
            yield Remark(
                flag=word,
                severity=severity,
                what=f"{named(sign)} stands in {word!r} on line {line}{more}",
                why="web pages put it there; a shell takes it for a part of the word"
                + (", and the server stops at that" if is_error else ", and so it is read"),
                replacement=meant if is_error else None,
            )


def as_typed(text: str) -> tuple[str, tuple[Remark, ...]]:
    """The text with plain blanks and quotes where a server would stop, and remarks on the others.

    What stands in plain quotes stays.
    """
    if text.isascii():
        return text, ()
    changes = _Changes()

    def replaced(match: re.Match[str]) -> str:
        line = text.count("\n", 0, match.start()) + 1
        if match["quote"]:
            return _requoted(match, line, changes)
        return _respaced(match, line, changes) if match["word"] else match[0]

    return _PART.sub(replaced, text), tuple(changes.remarks())


def _requoted(match: re.Match[str], line: int, changes: _Changes) -> str:
    quote = match["quote"]
    content = match["double"] if match["single"] is None else match["single"]
    is_free = _FREE.search(match.string, 0, match.start()) is not None
    if is_free and not re.search(r"\s", content):
        changes.note(quote[0], Severity.WARNING, line, quote, quote)
        return quote
    if match["single"] is not None:
        content = re.sub(f"[{_DOUBLE}]", '"', content)
    is_plain = match["single"] is None and '"' not in content
    meant = f'"{content}"' if is_plain else shlex.quote(content)
    changes.note(quote[0], Severity.ERROR, line, quote, meant)
    return meant


def _respaced(match: re.Match[str], line: int, changes: _Changes) -> str:
    word = match["word"]
    core = word.strip(_STRANGE)
    ahead, behind = word.split(core, 1) if core else (word, "")
    parts = re.split(f"[{_BLANKS}]+", re.sub(f"[{_UNSEEN}]", "", core))
    if names_server(parts) or any(part.startswith(("-", *DASHES)) for part in parts):
        core = " ".join(parts)
    blanks = [" " if re.search(f"[{_BLANKS}]", edge) else "" for edge in (ahead, behind)]
    meant = core.join(blanks)
    signs = re.findall(f"[{_STRANGE}]", word)
    if meant != word or not _JOINERS.issuperset(signs):
        severity = Severity.WARNING if meant == word else Severity.ERROR
        changes.note(signs[0], severity, line, word, meant.strip())
    return meant
