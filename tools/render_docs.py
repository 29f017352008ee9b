"""Writes what is rendered and committed: the pages of benchmarks and commands, and the man pages.

    python -m tools.render_docs

``tests/docs/test_rendered.py`` says where a file is not what it would be now.
"""

from pathlib import Path

from benchmarks.page import page

ROOT = Path(__file__).parents[1]


def rendered() -> dict[str, str]:
    """Texts by path below the repository's root."""
    return {"docs/benchmarks.md": page()}


def main() -> None:
    """Write all of them."""
    for name, text in rendered().items():
        path = ROOT / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
