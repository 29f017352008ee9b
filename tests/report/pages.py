"""Reads a page as a browser would: its elements, their attributes and their texts."""

from dataclasses import dataclass, field
from html.parser import HTMLParser


@dataclass
class Element:
    """An element, with the text of its children."""

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
        return self.one("body").text


_HIDDEN = frozenset({"style", "script", "title"})
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
        is_hidden = bool(self._open) and self._open[-1].tag in _HIDDEN
        for one in self._open[-1:] if is_hidden else self._open:
            one.text += data


def read_page(text: str) -> Page:
    """Read it; every element that was begun has to end."""
    reader = _Reader()
    reader.feed(text)
    reader.close()
    assert not reader._open
    return reader.page
