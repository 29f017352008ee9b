"""All that the golden net over commands and stored data takes from inside spectui.

Everything else there goes through the command line or through files. Whoever moves or renames
what is imported here changes this module, and no expectation.
"""

import os

import pytest


def isolate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take away what a user's environment says to llama-server, and where it keeps models."""
    for name in os.environ:
        if name.startswith(("LLAMA_", "HF_", "HUGGINGFACE_", "SPECTUI_TEST")):
            monkeypatch.delenv(name)


def pretend_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Export for containers as on a machine with a GPU."""
    monkeypatch.setattr("spectui.llama.library.has_gpu", lambda: True)
