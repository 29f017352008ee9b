"""Writes what is rendered and committed: the pages of benchmarks and commands, and the man pages.

    python -m tools.render_docs

``tests/docs/test_rendered.py`` says where a file is not what it would be now.
"""

from collections.abc import Iterator
from pathlib import Path

from benchmarks.page import page
from tools.reference import reference

ROOT = Path(__file__).parents[1]
RENDERED_FOLDERS = ("docs/reference", "man")
"""Folders that hold nothing else."""


def rendered() -> dict[str, str]:
    """Texts by path below the repository's root."""
    return {"docs/benchmarks.md": page(), **reference()}


def held_files() -> Iterator[Path]:
    """Files of folders that hold nothing but what is rendered."""
    for folder in RENDERED_FOLDERS:
        yield from (ROOT / folder).glob("*")


def main() -> None:
    """Write all of them, and take away pages of what is gone."""
    texts = rendered()
    for path in held_files():
        if str(path.relative_to(ROOT)) not in texts:
            path.unlink()
    for name, text in texts.items():
        path = ROOT / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
