"""The file entry that a command was taken from, for exports into a file of the same kind."""

from collections.abc import Mapping
from dataclasses import dataclass, field

INI = "ini"
LLAMA_SWAP = "llama-swap"
COMPOSE = "compose"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A file's entry for one server, without its command."""

    format: str
    """Kind of the file: one of the three above."""
    name: str | None
    """Name that clients use; None if it has none."""
    settings: Mapping[str, object] = field(default_factory=dict)
    """Other settings of the entry, without those that an export writes itself."""
    around: Mapping[str, object] = field(default_factory=dict)
    """Parts of the file beside the entry that it may refer to."""
    ahead: tuple[str, ...] = ()
    """Words before llama-server's arguments in a container's command."""
    variables: frozenset[str] = frozenset()
    """Names of its variables; the settings hold all of these that are kept."""
    notes: tuple[str, ...] = ()
    """Remarks for readers of the export."""
