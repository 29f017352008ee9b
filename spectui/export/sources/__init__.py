"""Sources of an existing llama-server command: a shell line, a file, or a running process."""

from spectui.export.sources.reading import read_source
from spectui.export.sources.source import Source

__all__ = ["Source", "read_source"]
