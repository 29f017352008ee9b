"""Patterns of ``-ot``, as far as Python's regular expressions match llama-server's."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from spectui.export.rewriting.items import Item


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """One placement of an ``-ot`` option."""

    text: str
    """The text as given."""
    pattern: str
    buffer: str

    @property
    def is_readable(self) -> bool:
        """Whether Python accepts the pattern: llama-server's dialect is another one."""
        try:
            re.compile(self.pattern)
        except re.error:
            return False
        return True

    def matches_all(self, names: Iterable[str]) -> bool:
        """Whether the pattern matches every one of these tensors."""
        return self.is_readable and all(re.search(self.pattern, name) for name in names)

    def matches_any(self, names: Iterable[str]) -> bool:
        """Whether the pattern matches one of these tensors."""
        return self.is_readable and any(re.search(self.pattern, name) for name in names)


def overrides(item: Item) -> Iterator[Override]:
    """Yield the placements of an option, in its order."""
    for text in (part for value in item.given.values for part in value.split(",")):
        pattern, _, buffer = text.partition("=")
        yield Override(text=text, pattern=pattern, buffer=buffer)
