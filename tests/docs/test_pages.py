"""README and the pages of ``docs/`` hang together: sizes, links, anchors, contents."""

from typing import Any
from urllib.parse import unquote

import yaml

from tests.support.markdown import DOCS, ROOT, Document, written
from tests.support.tables import table

README_BYTES = 8_000
_ROOT_PAGES = ("CONTRIBUTING.md", "ARCHITECTURE.md", "SECURITY.md", "CHANGELOG.md")
_OF_THE_ROOT = {"security.md", "changelog.md"}
"""Pages that ``tools/docs_site.py`` copies."""


class _Loader(yaml.SafeLoader):
    """Leaves Python's own tags alone, which MkDocs reads."""


_Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda *_: None)


def _documents() -> list[Document]:
    """All pages, with those that programs render."""
    names = {page.path for page in written()} | set(DOCS.rglob("*.md"))
    return [Document(path) for path in (*sorted(names), *(ROOT / name for name in _ROOT_PAGES))]


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_bytes()) <= README_BYTES


@table("document", _documents())
def test_every_relative_link_and_every_anchor_resolves(document: Document) -> None:
    # No two headings of a page have one anchor.
    assert document.name == "CHANGELOG.md" or len(document.anchors) == len(document.headings)
    broken = []
    for address in document.links:
        path, _, anchor = unquote(address).partition("#")
        if ":" in path:
            continue
        target = document.path.parent / path if path else document.path
        if not target.exists() or (anchor and anchor not in Document(target).anchors):
            broken.append(address)
    assert broken == []


def _named(entry: Any) -> set[str]:  # noqa: ANN401 - a tree
    if isinstance(entry, str):
        return {entry}
    return set().union(*map(_named, entry.values() if isinstance(entry, dict) else entry))


def test_every_page_is_in_the_contents() -> None:
    config = yaml.load((ROOT / "mkdocs.yml").read_text("utf-8"), _Loader)  # noqa: S506 - safe
    named = _named(config["nav"])
    pages = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
    assert named == pages | _OF_THE_ROOT


def test_every_page_for_readers_is_named_by_the_readme() -> None:
    named = set(Document(ROOT / "README.md").links)
    pages = {page.name for page in written() if not page.name.endswith("-format.md")}
    assert {link.partition("#")[0] for link in named} >= pages - {"README.md", "docs/index.md"}
