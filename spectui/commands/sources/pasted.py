"""Cleans pasted text: removes Markdown, prompts of terminals, and characters of web pages.

Lines keep their numbers, so that messages name those of the pasted text.
"""

import re
from dataclasses import replace

from spectui.commands.finding import Finding, error
from spectui.commands.programs import SERVER
from spectui.commands.server_options import server_option
from spectui.format import sign_name

_DASHES = "\N{EN DASH}\N{EM DASH}\N{MINUS SIGN}\N{HYPHEN}\N{NON-BREAKING HYPHEN}"
"""Characters that editors and web pages substitute for the dashes of an option."""
_FENCE = re.compile(r"[ \t]*(?:>[ \t]*)?(```|~~~)")
_PROMPT = re.compile(
    r"[ \t]*(?:\([^()\n]*\)[ \t]*)?(?:(?:[$%>»\u276f]|\[?[\w.-]+@[\w.-]+[^\n$#%>]*[$#%>]"
    r"|(?:[\w.-]+:[\w.~/-]+ )?[\w.~/\u2514\u2500-]+[$#%]"
    r"|\u279c(?:[ \t]+\S+ git:\([^()\n]*\)(?: \u2717)?)?|PS>)[ \t]+"
    r"|(?:PS )?[A-Za-z]:\\(?:(?! -|\.exe)[^\n>])*>[ \t]*)(?=[^ \t\n])"
)
_JOINTS = ("\\", "`", "^")
"""Signs that join a line with the next one, in the shells that people copy from."""
_CONTINUED = re.compile(r"(?m)([\\`^][ \t]*\r?\n)>{1,2}[ \t]*(?=-)")
"""A line that a shell asks for with a prompt of its own; no file to write to begins with a dash."""
_WINDOWS_SHELL = re.compile(
    r"\"[^\"]*\"|'[^']*'|[ \t](?P<joint>[\^`])[ \t]*\r?(?=\n[ \t]*[^ \t\r\n])"
    r"|(?<![^\s=])(?P<path>(?:[A-Za-z]:|\.{1,2})\\\w[^\s'\"<>|&;]*"
    r"|[\w.-]+\\[\w.\\-]+\.(?:exe|gguf))(?=\s|\Z)"
)
"""Quoted text, line ends of a shell of Windows, and its paths."""
_CODE = re.compile(r"\s*(`{1,2})([^`]+)\1\s*")
"""A command as code within a line."""
_BLANKS = "\u00a0\u1680\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
_UNSEEN = "\u00ad\u200b\u200e\u200f\u2060\u2066\u2067\u2068\u2069\ufeff" + "".join(
    map(chr, range(0x202A, 0x202F))
)
_STRANGE = f"{_BLANKS}{_UNSEEN}"
_DOUBLE, _SINGLE = "\u201c\u201d\u201e\u201f", "\u2018\u2019\u201a\u201b"
_PLAIN_QUOTES = str.maketrans(dict.fromkeys(_DOUBLE, '"') | dict.fromkeys(_SINGLE, "'"))
_DASHED = re.compile(rf"[{_DASHES}]+(?P<bare>\d|[A-Za-z][\w-]*)")
_PART = re.compile(
    rf"\\(?P<torn>[ \t{_BLANKS}]+(?:#[^\n]*)?)\n(?=[ \t{_BLANKS}]*-)"
    rf"|\\[^{_STRANGE}]|'[^']*'|\"(?:\\.|[^\"\\])*\"|(?:(?<=[ \t\n])|\A)#[^\n]*"
    rf"|(?:(?<=[ \t\n=({_BLANKS}])|\A)(?P<quote>[{_DOUBLE}][^{_DOUBLE}\n]*[{_DOUBLE}]"
    rf"|[{_SINGLE}][^{_SINGLE}\n]*[{_SINGLE}])"
    rf"|(?<![^ \t\r\n'\"\\{_BLANKS}])(?P<dash>{_DASHED.pattern})"
    rf"|(?<![^ \t\r\n'\"\\])(?P<word>[^ \t\r\n'\"\\{_STRANGE}]*+[{_STRANGE}][^ \t\r\n'\"\\]*)",
    re.DOTALL,
)
"""Parts that keep their signs, and parts that web pages have changed."""
_BLANK, _NOTHING = re.compile(f"[{_BLANKS}]+"), re.compile(f"[{_UNSEEN}]")
_CHANGED = re.compile(f"[{_STRANGE}{_DOUBLE}{_SINGLE}{_DASHES}]")
_BEHIND = re.compile(r"(?:\A|[ \t\n])(--?[A-Za-z][\w-]*)[ \t=]+\Z")
_TORN = (
    "only a backslash that ends its line joins it with the next; here the command ends for a "
    "shell, and what follows is another one"
)
_WEB = (
    "web pages put it there; a shell takes it for a part of the word, and the server stops at that"
)
_LONGEST_OPTION = 64
_MOST_FINDINGS = 8
MOST_CHARACTERS = 1 << 15
"""Largest text that is read as a shell's command."""
_FREE = frozenset(
    {"-a", "--alias", "--api-key", "--api-prefix", "--tags", "-r", "--reverse-prompt", "-p"}
    | {"--prompt"}
)
"""Options that take any text, quotes of every kind too."""


def unfenced(text: str) -> str:
    """The code of a text of Markdown, or that of a terminal without its prompts for more lines."""
    lines = text.split("\n")
    if any(map(_FENCE.match, lines)):
        lines = _code(lines)
    text = "\n".join(_typed(lines))
    code = _CODE.fullmatch(text)
    text = _CONTINUED.sub(r"\1", text if code is None else code[2])
    return _WINDOWS_SHELL.sub(_posix_form, re.sub(r"[ \t][\^`]\s*\Z", "", text))


def _typed(lines: list[str]) -> list[str]:
    """The lines without the prompts of a terminal, and without what it printed between them."""
    if _PROMPT.match(next(filter(str.strip, lines), "")) is None:
        return lines
    names_it = any(SERVER in line for line in lines if _PROMPT.match(line))
    kept, is_typed, is_joined = list[str](), True, False
    for line in lines:
        found = None if is_joined else _PROMPT.match(line)
        is_typed = is_typed if is_joined else found is not None or not names_it
        kept.append(line[found.end() if found else 0 :] if is_typed else "")
        is_joined = line.rstrip().endswith(_JOINTS)
    return kept


def _posix_form(match: re.Match[str]) -> str:
    """A line's end or a path of Windows as a shell reads it."""
    path = match["path"]
    return " \\" if match["joint"] else match[0] if path is None else f"'{path}'"


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
    for block in (named_so or blocks)[:-1]:
        if block and lines[block[0]].lstrip().startswith("-"):
            # Arguments alone, which those of the next block do not belong to.
            lines[block[-1]] = lines[block[-1]].rstrip(" \\") + " ;"
    return [line if at in kept else "" for at, line in enumerate(lines)]


def as_typed(text: str) -> tuple[str, tuple[Finding, ...]]:
    """The text with plain blanks, quotes and dashes where a server would stop, and the errors.

    What stands in plain quotes stays.
    """
    findings: list[Finding] = []

    def typed(match: re.Match[str]) -> str:
        behind = _BEHIND.search(text[max(0, match.start() - _LONGEST_OPTION) : match.start()])
        option = "" if behind is None else behind[1]
        meant = _repaired(match, option)
        if meant != match[0] and len(findings) < _MOST_FINDINGS:
            line = text.count("\n", 0, match.start()) + 1
            findings.append(_paste_finding(match, option, meant, line))
        return meant

    if len(text) > MOST_CHARACTERS:
        return text, ()
    return _PART.sub(typed, text), tuple(findings)


def _paste_finding(match: re.Match[str], option: str, meant: str, line: int) -> Finding:
    sign = _CHANGED.search(match[0])
    if match["torn"]:
        what = "a remark" if "#" in match[0] else sign_name(sign[0]) if sign else "a blank"
        what = f"{what} stands behind the backslash on line {line}"
        return replace(error("\\", what, _TORN), replacement="\\")
    behind = f" behind {option}" if option else ""
    what = f"{sign_name(sign[0] if sign else '')} stands in {match[0]!r}{behind} on line {line}"
    return replace(error(option or match[0], what, _WEB), replacement=meant.strip())


def _repaired(match: re.Match[str], option: str) -> str:
    """A part of the text as its author typed it."""
    if match["torn"]:
        return "\\\n"
    if match["quote"]:
        is_free = option in _FREE and not re.search(r"\s", match[0])
        return match[0] if is_free else match[0].translate(_PLAIN_QUOTES)
    if match["word"]:
        return _respaced(match["word"])
    return _dashed(match) if match["dash"] and option not in _FREE else match[0]


def _dashed(match: re.Match[str]) -> str:
    """The option or number behind a dash of a web page."""
    bare = match["bare"]
    spelled = (f"-{bare}",) if bare.isdigit() else (f"--{bare}", f"-{bare}")
    known = (one for one in spelled if bare.isdigit() or server_option(one) is not None)
    return next(known, match[0])


def _respaced(word: str) -> str:
    """A word with blanks of web pages: the words that it holds."""
    parts = _BLANK.split(_NOTHING.sub("", word))
    dashed = ((part, _DASHED.match(part)) for part in parts)
    return " ".join(
        part if found is None else _dashed(found) + part[found.end() :] for part, found in dashed
    )
