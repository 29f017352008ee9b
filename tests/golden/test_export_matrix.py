"""The export of every kind of setup in every dialect, and of some in every format.

``setups.json`` has each in the words of a stored outcome, as far as it is unlike a usual pair.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.golden.commands_support import DIALECTS, FORMATS, exported
from tests.golden.conftest import Golden

USUAL: dict[str, Any] = {
    "target": {"path": "/models/My Target.gguf"},
    "draft": {"path": "/drafts/draft.gguf"},
    "speculation": {"draft_max": 8, "draft_min": 1, "draft_p_min": 0.75},
}
WHOLE = ("draft-model", "extra", "everything", "start-with-wrappers")
"""In every format of today's dialect; the others as a command, which each format writes."""


def setups() -> Iterator[tuple[str, dict[str, Any]]]:
    document = json.loads(Path(__file__).with_name("setups.json").read_text("utf-8"))
    for name, fields in document.items():
        for model in ("target", "draft"):
            if fields.get(model) is not None:
                fields[model] |= USUAL[model]
        yield name, {**USUAL, **fields}


def written(
    setup: dict[str, Any], formats: Sequence[str], dialects: Sequence[str]
) -> Iterator[str]:
    """Formats below each other; what dialects have in common is told once."""
    for format_ in formats:
        by_text: dict[str, list[str]] = {}
        for dialect in dialects:
            by_text.setdefault(exported(setup, dialect, format_), []).append(dialect)
        for text, same in by_text.items():
            yield f"== {format_}: {', '.join(same)}"
            yield from (f"   {line}".rstrip() for line in text.removesuffix("\n").split("\n"))
            yield ""


def test_every_setup(golden: Golden) -> None:
    (command, *others), found = FORMATS, dict(setups())
    texts = {f"{name}.txt": "\n".join(written(found[name], others, DIALECTS[:1])) for name in WHOLE}
    lines = [
        line
        for name, one in found.items()
        for line in (f"# {name}", *written(one, (command,), DIALECTS))
    ]
    golden("export", {**texts, "setups.txt": "\n".join(lines)})
