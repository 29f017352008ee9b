"""The project's documents: their blocks, links, anchors and prose, and the commands in them."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
RENDERED = ("benchmarks.md", "reference/")
"""Pages of ``docs/`` that programs write."""

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")
_HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)
_CODE = re.compile(r"`([^`\n]+)`")
_RECIPE = re.compile(r"^\|.*\| `(spectui [^`\n]+)` \|$", re.MULTILINE)
_SEPARATORS = frozenset({"&&", "||", ";", "|", "&"})
_REDIRECTIONS = frozenset({">", ">>", "<"})
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
SHELLS = frozenset({"sh", "console"})
"""Languages of blocks that a reader types."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    language: str
    text: str


class Document:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.text = path.read_text("utf-8")

    @property
    def name(self) -> str:
        return self.path.relative_to(ROOT).as_posix()

    @cached_property
    def blocks(self) -> list[Block]:
        return [Block(language=one[1], text=one[2]) for one in _FENCE.finditer(self.text)]

    @cached_property
    def prose(self) -> str:
        """All but fenced blocks and comments."""
        return _COMMENT.sub("", _FENCE.sub("", self.text))

    @property
    def headings(self) -> list[str]:
        return _HEADING.findall(self.prose)

    @cached_property
    def anchors(self) -> set[str]:
        return {slug(heading) for heading in self.headings}

    @property
    def links(self) -> list[str]:
        return [address for _picture, _text, address in _LINK.findall(self.prose)]

    @property
    def code(self) -> list[str]:
        return _CODE.findall(self.prose)

    @property
    def lines(self) -> list[str]:
        """Lines that a reader types, as a shell reads them: those of blocks, and of a table."""
        typed = _RECIPE.findall(self.prose)
        for block in self.blocks:
            if block.language not in SHELLS:
                continue
            lines = block.text.replace("\\\n", " ").splitlines()
            if block.language == "console":
                lines = [line[2:] for line in lines if line.startswith("$ ")]
            typed += [line for line in lines if line.strip()]
        return typed


def slug(heading: str) -> str:
    """The anchor of a heading, as GitHub makes it."""
    plain = _LINK.sub(r"\2", heading).replace("`", "").strip().lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


def programs(line: str) -> Iterator[list[str]]:
    """The simple commands of a line, without assignments and redirections."""
    shell = shlex.shlex(line, posix=True, punctuation_chars="&|;<>")
    shell.whitespace_split = True
    words = iter([*shell, ";"])
    found: list[str] = []
    for word in words:
        if word in _REDIRECTIONS:
            next(words)
        elif word in _SEPARATORS:
            if found:
                yield found
            found = []
        elif found or not _ASSIGNMENT.match(word):
            found.append(word)


def written() -> list[Document]:
    """What people write: README and all pages that no program renders."""
    pages = sorted(DOCS.rglob("*.md"))
    own = [page for page in pages if not page.relative_to(DOCS).as_posix().startswith(RENDERED)]
    return [Document(path) for path in (ROOT / "README.md", *own)]


def spectui_commands(*documents: Document) -> list[tuple[str, ...]]:
    """Arguments of every ``spectui`` in documents, each once, as they follow one another."""
    found = (
        tuple(words[1:])
        for document in documents
        for line in document.lines
        for words in programs(line)
        if Path(words[0]).name == "spectui"
    )
    return list(dict.fromkeys(found))
