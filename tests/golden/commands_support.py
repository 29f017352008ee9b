"""All that the golden net over commands and stored data takes from inside spectui.

Everything else there goes through the command line or through files. Whoever moves or renames
what is imported here changes this module, and no expectation.
"""

import os
from datetime import UTC, datetime
from typing import Any

import pytest

from spectui import __version__
from spectui.errors import BadInputError
from spectui.export import Dialect, ExportSetup, Format, render
from spectui.tune.outcome import Outcome
from spectui.tune.stored import from_plain

DIALECTS = tuple(map(str, Dialect))
FORMATS = tuple(map(str, Format))

_REST: dict[str, Any] = {
    "ended": datetime(2026, 5, 1, tzinfo=UTC).isoformat(),
    "verdict": {"use_speculation": True, "reason": "-"},
    "context": {},
    "schedule": "server",
    "gain": None,
}
"""What an outcome holds besides, and an export does not read."""


def isolate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take away what a user's environment says to llama-server, and where it keeps models."""
    for name in os.environ:
        if name.startswith(("LLAMA_", "HF_", "HUGGINGFACE_", "SPECTUI_TEST")):
            monkeypatch.delenv(name)


def pretend_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Export for containers as on a machine with a GPU."""
    monkeypatch.setattr("spectui.llama.library.has_gpu", lambda: True)


def exported(setup: dict[str, Any], dialect: str, format_: str) -> str:
    """A setup in the words of a stored outcome, as an export; or the sentence that refuses it.

    ``has_gpu`` among them says whether the machine has one; without it, it has.
    """
    plain = {**_REST, **setup}
    has_gpu = plain.pop("has_gpu", True)
    outcome = from_plain(plain, Outcome)
    assert outcome is not None
    whole = ExportSetup(
        target=outcome.target,
        draft=outcome.draft,
        context=outcome.context,
        speculation=outcome.speculation,
        extra=outcome.extra,
        given=outcome.given,
        start=outcome.start,
        name=outcome.target.path.stem,
        has_gpu=has_gpu,
    )
    try:
        text = render(whole, dialect=Dialect(dialect), format=Format(format_))
    except BadInputError as error:
        return f"refused: {error}"
    return text.replace(f'"spectui": "{__version__}"', '"spectui": "VERSION"')
