"""Text in a given number of terminal cells."""

from rich.cells import cell_len, set_cell_size


def aligned(text: str, width: int, *, right: bool, ellipsis: str = "") -> str:
    """Return ``text`` in exactly ``width`` cells; where it is longer, it ends with ``ellipsis``."""
    if cell_len(text) > width:
        return set_cell_size(cut(text, width, ellipsis), width)
    return " " * (width - cell_len(text)) + text if right else set_cell_size(text, width)


def cut(text: str, width: int, ellipsis: str) -> str:
    """Return ``text`` in ``width`` cells at most; where it is longer, it ends with ``ellipsis``."""
    if cell_len(text) <= width:
        return text
    return (set_cell_size(text, max(0, width - len(ellipsis))) + ellipsis)[: max(0, width)]
