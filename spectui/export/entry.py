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
    """Which kind of file it is: one of the three above."""
    name: str | None
    """What clients call it; None where it has none."""
    settings: Mapping[str, object] = field(default_factory=dict)
    """What else the entry holds, as it stands, less what an export writes itself."""
    around: Mapping[str, object] = field(default_factory=dict)
    """Parts of the file beside the entry that it may refer to."""
    ahead: tuple[str, ...] = ()
    """Words that stand before llama-server's arguments in a container's command."""
    variables: frozenset[str] = frozenset()
    """Names of what it sets for the program, of which the settings say all that is kept."""
    notes: tuple[str, ...] = ()
    """What a reader of the export has to know."""
