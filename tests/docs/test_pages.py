"""README and the pages of ``docs/`` hang together: sizes, links, anchors, contents."""

from urllib.parse import unquote

import pytest
import yaml

from tests.support.markdown import DOCS, ROOT, Document, written

README_BYTES = 8_000
_ROOT_PAGES = ("CONTRIBUTING.md", "ARCHITECTURE.md", "SECURITY.md", "CHANGELOG.md")
_OF_THE_ROOT = {"security.md", "changelog.md"}
"""Pages that ``tools/docs_site.py`` copies."""


class _Loader(yaml.SafeLoader):
    """Leaves Python's own tags alone, which MkDocs reads."""


def _nothing(_loader: object, _suffix: object, _node: object) -> None:
    return None


_Loader.add_multi_constructor("tag:yaml.org,2002:python/", _nothing)


def _documents() -> list[Document]:
    """All pages, with those that programs render."""
    names = {page.path for page in written()} | set(DOCS.rglob("*.md"))
    return [Document(path) for path in (*sorted(names), *(ROOT / name for name in _ROOT_PAGES))]


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_bytes()) <= README_BYTES


@pytest.mark.parametrize("document", _documents(), ids=lambda one: one.name)
def test_every_relative_link_and_every_anchor_resolves(document: Document) -> None:
    broken = []
    for address in document.links:
        path, _, anchor = unquote(address).partition("#")
        if ":" in path:
            continue
        target = document.path.parent / path if path else document.path
        if not target.exists() or (anchor and anchor not in Document(target).anchors):
            broken.append(address)
    assert broken == []


@pytest.mark.parametrize("document", _documents(), ids=lambda one: one.name)
def test_no_two_headings_of_a_page_have_one_anchor(document: Document) -> None:
    if document.name != "CHANGELOG.md":
        assert len(document.anchors) == len(document.headings)


def _named(entry: object) -> set[str]:
    if isinstance(entry, str):
        return {entry}
    parts = entry.values() if isinstance(entry, dict) else entry
    assert isinstance(parts, list) or hasattr(parts, "__iter__")
    return set().union(*map(_named, parts))


def test_every_page_is_in_the_contents() -> None:
    config = yaml.load((ROOT / "mkdocs.yml").read_text("utf-8"), _Loader)  # noqa: S506 - safe
    named = _named(config["nav"])
    pages = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
    assert named == pages | _OF_THE_ROOT


def test_every_page_for_readers_is_named_by_the_readme() -> None:
    named = set(Document(ROOT / "README.md").links)
    pages = {page.name for page in written() if not page.name.endswith("-format.md")}
    assert {link.partition("#")[0] for link in named} >= pages - {"README.md", "docs/index.md"}
