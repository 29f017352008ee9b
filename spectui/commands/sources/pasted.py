"""Text as people copy it: out of Markdown, out of a terminal, and with what web pages put in it.

Lines stay where they are, so that messages count them as their reader does.
"""

import re
import shlex
from dataclasses import replace

from spectui.commands.finding import Finding, Severity
from spectui.commands.items import DASHES
from spectui.commands.programs import names_server
from spectui.commands.server_options import server_option
from spectui.errors import BadInputError
from spectui.format import named, printable
from spectui.options.placement import OVERRIDE_TENSOR, OVERRIDE_TENSOR_DRAFT

_SERVER = "llama-server"
_OF_A_FILE = re.compile(r"(?:services|models)[ \t]*:|\[[\w*./:-]+\][ \t]*$")
"""A line of YAML, of a unit or of a preset."""
_FENCE = re.compile(r"[ \t]*(?:>[ \t]*)?(```|~~~)")
_PROMPT = re.compile(
    r"[ \t]*(?:\([^()\n]*\)[ \t]*)?(?:[$%>»\u276f\u279c]|\[?[\w.-]+@[\w.-]+[^\n$#%>]*[$#%>]"
    r"|(?:PS )?[A-Za-z]:\\[^\n>]*>)[ \t]+(?=[^ \t\n])"
)
_JOINTS = ("\\", "`", "^")
"""Signs that join a line with the next one, in the shells that people copy from."""
_CONTINUED = re.compile(r"(?m)([\\`^][ \t]*\r?\n)>{1,2}[ \t]*(?=-)")
"""A line that a shell asks for with a prompt of its own; no file to write to begins with a dash."""
_OF_WINDOWS = re.compile(
    r"\"[^\"]*\"|'[^']*'|[ \t](?P<joint>[\^`])[ \t]*\r?(?=\n[ \t]*[^ \t\r\n])"
    r"|(?<![^\s=])(?P<path>(?:[A-Za-z]:|\.{1,2})\\\w[^\s'\"<>|&;]*"
    r"|[\w.-]+\\[\w.\\-]+\.(?:exe|gguf))(?=\s|\Z)"
)
"""Quotes, and what a shell of Windows has in place of ``\\`` at a line's end and in paths."""
_CODE = re.compile(r"\s*(`{1,2})([^`]+)\1\s*")
"""A command as code within a line."""
_BLANKS = "\u00a0\u1680\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
_UNSEEN = "\u00ad\u200b\u200e\u200f\u2060\u2066\u2067\u2068\u2069\ufeff" + "".join(
    map(chr, range(0x202A, 0x202F))
)
_JOINERS = frozenset("\u200c\u200d")
"""Parts of words of some scripts, but only within them."""
_STRANGE = "".join((_BLANKS, _UNSEEN, *_JOINERS))
_TAKE_PATTERNS = [f for one in (OVERRIDE_TENSOR, OVERRIDE_TENSOR_DRAFT) for f in one.flags]
_DOUBLE, _SINGLE = "\u201c\u201d\u201e\u201f", "\u2018\u2019\u201a\u201b"
_DASHED = rf"[{DASHES}]+(?P<bare>\d|[A-Za-z][\w-]*)"
_LEADING = re.compile(rf"\A{_DASHED}")
_PART = re.compile(
    rf"\\(?P<torn>[ \t{_BLANKS}]+(?:#[^\n]*)?)\n(?=[ \t{_BLANKS}]*-)"
    rf"|\\[^{_STRANGE}]|'[^']*'|\"(?:\\.|[^\"\\])*\"|(?:(?<=[ \t\n])|\A)#[^\n]*"
    rf"|(?:(?<=[ \t\n=({_BLANKS}])|\A)(?P<quote>[{_DOUBLE}](?P<double>[^{_DOUBLE}\n]*)[{_DOUBLE}]"
    rf"|[{_SINGLE}](?P<single>[^{_SINGLE}\n]*)[{_SINGLE}])"
    rf"|(?<![^ \t\n])(?P<option>{'|'.join(_TAKE_PATTERNS)})[ \t]+(?P<pattern>[^\s'\"$`;&<>|=]*"
    r"[|()*?\[\\][^\s'\"$`;&<>]*=[^\s'\"$`;&<>|]+)(?=\s|\Z)"
    rf"|(?<![^ \t\r\n'\"\\{_BLANKS}])(?P<dash>{_DASHED})"
    rf"|(?<![^ \t\r\n'\"\\])(?P<word>[^ \t\r\n'\"\\{_STRANGE}]*+[{_STRANGE}][^ \t\r\n'\"\\]*)",
    re.DOTALL,
)
"""Parts that keep their signs, and parts that web pages have changed."""
_BLANK, _NOTHING = re.compile(f"[{_BLANKS}]+"), re.compile(f"[{_UNSEEN}]")
_CHANGED = re.compile(f"[{_STRANGE}{_DOUBLE}{_SINGLE}{DASHES}]")
_BEHIND = re.compile(r"(?:\A|[ \t\n])(--?[A-Za-z][\w-]*)[ \t=]+\Z")
_TORN = (
    "only a backslash that ends its line joins it with the next; here the command ends for a "
    "shell, and what follows is another one"
)
_BARE = "a shell takes the backslashes of it; it is read with them here"
_WEB = "web pages put it there; a shell takes it for a part of the word"
_LONGEST_OPTION = 64
_MOST_TOLD = 8
MOST_CHARACTERS = 1 << 18
"""Size of a text above which no shell's command is looked for."""
_FREE = frozenset(
    {"-a", "--alias", "--api-key", "--api-prefix", "--tags", "-r", "--reverse-prompt", "-p"}
    | {"--prompt"}
)
"""Options that take any text, quotes of every kind too."""


def unfenced(text: str) -> str:
    """The code of a text of Markdown, or that of a terminal without its prompts for more lines.

    Raises:
        BadInputError: it holds a file, and other commands beside it.
    """
    lines = text.split("\n")
    if any(map(_FENCE.match, lines)):
        lines = _code(lines)
    lines = _typed(lines)
    text = "\n".join(lines)
    code = _CODE.fullmatch(text)
    text = _CONTINUED.sub(r"\1", text if code is None else code[2])
    return _OF_WINDOWS.sub(_for_a_shell, re.sub(r"[ \t][\^`]\s*\Z", "", text))


def _typed(lines: list[str]) -> list[str]:
    """The lines without the prompts of a terminal, and without what it printed between them."""
    if _PROMPT.match(next(filter(str.strip, lines), "")) is None:
        return lines
    names_it = any(_SERVER in line for line in lines if _PROMPT.match(line))
    kept, is_typed, is_joined = list[str](), True, False
    for line in lines:
        found = None if is_joined else _PROMPT.match(line)
        is_typed = is_typed if is_joined else found is not None or not names_it
        kept.append(line[found.end() if found else 0 :] if is_typed else "")
        is_joined = line.rstrip().endswith(_JOINTS)
    return kept


def _for_a_shell(match: re.Match[str]) -> str:
    """A line's end or a path of Windows as a shell reads it."""
    path = match["path"]
    return " \\" if match["joint"] else match[0] if path is None else f"'{path}'"


def _code(lines: list[str]) -> list[str]:
    """The lines with only the fenced blocks left; those that name llama-server, where some do.

    Raises:
        BadInputError: as ``unfenced``.
    """
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
    files = [block for block in named_so if any(map(_OF_A_FILE.match, (lines[at] for at in block)))]
    if files and len(named_so) > 1:
        first = ", ".join(str(block[0] + 1) for block in named_so)
        raise BadInputError(
            f"it has a file beside other commands, in the blocks from the lines {first} on; give "
            "one of them"
        )
    kept = {at for block in named_so or blocks for at in block}
    for block in (named_so or blocks)[:-1]:
        if block and lines[block[0]].lstrip().startswith("-"):
            # Arguments alone, which those of the next block do not belong to.
            lines[block[-1]] = lines[block[-1]].rstrip(" \\") + " ;"
    return [line if at in kept else "" for at, line in enumerate(lines)]


class _Reading:
    """Reads a text as its author typed it, from its beginning on."""

    def __init__(self, *, is_file: bool) -> None:
        self.findings: list[Finding] = []
        self._is_file = is_file
        self._line, self._at, self._n_more = 1, 0, 0

    def replaced(self, match: re.Match[str]) -> str:
        """The part of the text, with plain blanks and quotes where a server would stop."""
        text, start = match.string, match.start()
        self._line += text.count("\n", self._at, start)
        self._at = start
        signs = _CHANGED.findall(match[0])
        if match["torn"]:
            sign = "a remark" if "#" in match["torn"] else named(signs[0]) if signs else "a blank"
            self._tell(
                "\\", f"{sign} stands behind the backslash on line {self._line}", _TORN, "\\"
            )
            return "\\\n"
        if match["pattern"] and not self._is_file:
            option, pattern = match["option"], match["pattern"]
            meant = f"{option} {shlex.quote(pattern)}"
            if "\\" in pattern:
                self._tell(option, f"{option} {printable(pattern)} has no quotes", _BARE, meant)
            return meant
        if not (match["quote"] or match["dash"] or match["word"]):
            return match[0]
        found = _BEHIND.search(text[max(0, start - _LONGEST_OPTION) : start])
        option = "" if found is None else found[1]
        meant = _meant(match, option)
        if meant != match[0] or not _JOINERS.issuperset(signs):
            behind = f" behind {option}" if option else ""
            what = f"{named(signs[0])} stands in {match[0]!r}{behind} on line {self._line}"
            is_error = meant != match[0]
            ends = "the server stops at that" if is_error else "so it is read"
            replacement = meant.strip() if is_error else None
            self._tell(option or match[0], what, f"{_WEB}, and {ends}", replacement)
        return meant

    def _tell(self, flag: str, what: str, why: str, replacement: str | None) -> None:
        is_warning = replacement is None or why == _BARE
        severity = Severity.WARNING if is_warning else Severity.ERROR
        if len(self.findings) < _MOST_TOLD:
            one = Finding(flag=flag, severity=severity, what=what, why=why, replacement=replacement)
            self.findings.append(one)
            return
        self._n_more += 1
        last = self.findings[-1]
        told = last.what.removesuffix(f" and {self._n_more - 1} more")
        self.findings[-1] = replace(last, what=f"{told} and {self._n_more} more")


def as_typed(text: str, *, is_file: bool = False) -> tuple[str, tuple[Finding, ...]]:
    """The text with plain blanks and quotes where a server would stop, and remarks on the others.

    What stands in plain quotes stays.

    Args:
        text: a command, or what holds one.
        is_file: whether every plain sign is the shell's; quotes of a typed command may be lost.
    """
    if len(text) > MOST_CHARACTERS:
        return text, ()
    reading = _Reading(is_file=is_file)
    meant = _PART.sub(reading.replaced, text.replace("\r\n", "\n"))
    return meant, tuple(reading.findings)


def _meant(match: re.Match[str], option: str) -> str:
    if match["quote"]:
        return _requoted(match, option)
    if match["word"]:
        return _respaced(match["word"])
    return match[0] if option in _FREE else _dashed(match)


def _dashed(match: re.Match[str]) -> str:
    """The option or number behind a dash of a web page."""
    bare = match["bare"]
    spelled = (f"-{bare}",) if bare.isdigit() else (f"--{bare}", f"-{bare}")
    known = (one for one in spelled if bare.isdigit() or server_option(one) is not None)
    return next(known, match[0])


def _requoted(match: re.Match[str], option: str) -> str:
    content = match["double"] if match["single"] is None else match["single"]
    if option in _FREE and not re.search(r"\s", content):
        return match[0]
    if match["single"] is not None:
        content = re.sub(f"[{_DOUBLE}]", '"', content)
    is_plain = match["single"] is None and '"' not in content
    return f'"{content}"' if is_plain else shlex.quote(content)


def _respaced(word: str) -> str:
    core = word.strip(_STRANGE)
    ahead, behind = word.split(core, 1) if core else (word, "")
    parts = _BLANK.split(_NOTHING.sub("", core))
    if names_server(parts) or any(part.startswith(("-", *DASHES)) for part in parts):
        core = " ".join(_LEADING.sub(_dashed, part) for part in parts)
    blanks = [" " if _BLANK.search(edge) else "" for edge in (ahead, behind)]
    return core.join(blanks)
