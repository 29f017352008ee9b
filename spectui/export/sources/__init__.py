"""Where an existing llama-server command can be: in a shell, a file, or a process that runs."""

from spectui.export.sources.reading import read_source
from spectui.export.sources.source import Source

__all__ = ["Source", "read_source"]
