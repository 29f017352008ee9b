"""Reads a page as a browser would: its elements, their attributes and their texts."""

from dataclasses import dataclass, field
from html.parser import HTMLParser


@dataclass
class Element:
    """An element without its children."""

    tag: str
    attributes: dict[str, str | None]
    text: str = ""


@dataclass
class Page:
    """All elements in order."""

    elements: list[Element] = field(default_factory=list)

    def all(self, tag: str) -> list[Element]:
        return [one for one in self.elements if one.tag == tag]

    def one(self, tag: str) -> Element:
        (found,) = self.all(tag)
        return found

    @property
    def text(self) -> str:
        """What somebody can read."""
        hidden = {"style", "script", "title"}
        return " ".join(one.text for one in self.elements if one.tag not in hidden)


_VOID = frozenset({"meta", "link", "br", "img", "input", "hr"})


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.page = Page()
        self._open: list[Element] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, dict(attrs))
        self.page.elements.append(element)
        if tag not in _VOID:
            self._open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.page.elements.append(Element(tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop().tag == tag

    def handle_data(self, data: str) -> None:
        if self._open:
            self._open[-1].text += data


def read_page(text: str) -> Page:
    """Read it; every element that was begun has to end."""
    reader = _Reader()
    reader.feed(text)
    reader.close()
    assert not reader._open
    return reader.page
