"""Hook of MkDocs: what lies beside ``docs/``, and what a page must not fetch.

Pages link to files outside ``docs/`` as they lie in the repository, so that the links work there as
well. The site gets copies of these files, and the links lead to the copies.
"""

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

_ROOT = Path(__file__).parents[1]
_PAGES = {"../SECURITY.md": "security.md", "../CHANGELOG.md": "changelog.md"}
_PICTURES = "screenshots"
_FETCHED = re.compile(r"<(?:script|img|iframe)[^>]*\ssrc=\"?https?:|<link[^>]*\shref=\"?https?:")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add pages and pictures of the repository's root."""
    for link, name in _PAGES.items():
        content = (_ROOT / link.removeprefix("../")).read_text("utf-8")
        files.append(File.generated(config, name, content=content))
    for path in sorted((_ROOT / _PICTURES).iterdir()):
        name = f"{_PICTURES}/{path.name}"
        files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, **_: object) -> str:
    """Let links to files outside of ``docs/`` lead to their copies, and those of these to pages."""
    for link, name in _PAGES.items():
        markdown = markdown.replace(f"]({link}", f"]({name}")
    markdown = markdown.replace("](docs/", "](")
    return markdown.replace(f"](../{_PICTURES}/", f"]({_PICTURES}/")


def on_post_page(output: str, page: Page, **_: object) -> str:
    """Refuse a page that fetches something from elsewhere when it is read."""
    found = _FETCHED.search(output)
    if found is not None:
        raise PluginError(f"{page.file.src_uri} fetches from elsewhere: {found[0]}")
    return output
