"""The report of a sweep as Markdown. Pure."""

from collections.abc import Iterable, Mapping, Sequence

from spectui.sweep.tables import Sheet


def report(
    title: str,
    facts: Sequence[str],
    found: Iterable[Sheet],
    told: Iterable[str],
    images: Mapping[str, str],
) -> str:
    """Render the report.

    Args:
        title: title of the report.
        facts: facts on the measurement, an item each.
        found: the tables.
        told: remarks on them.
        images: names of files by what they show.
    """
    parts = [f"# {_plain(title)}", "\n".join(f"- {_plain(fact)}" for fact in facts)]
    first, *rest = [_table(sheet) for sheet in found] or [""]
    parts += [first, *map(_plain, told), *rest]
    parts += [
        f"## {_plain(caption)}\n\n![{_plain(caption)}]({name})" for caption, name in images.items()
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def _table(sheet: Sheet) -> str:
    marks = ["---" if sheet.is_text(index) else "---:" for index in range(len(sheet.headings))]
    rows = [sheet.headings, marks, *sheet.rows]
    lines = ["| " + " | ".join(map(_cell, row)) + " |" for row in rows]
    return f"## {sheet.title}\n\n" + "\n".join(lines)


def _cell(text: str) -> str:
    return text if set(text) <= {"-", ":"} else _plain(text).replace("|", "\\|")


def _plain(text: str) -> str:
    """Text with Markdown's special characters escaped, which names of files may hold."""
    for mark in "\\`*_<>[]":
        text = text.replace(mark, f"\\{mark}")
    return " ".join(text.split())
