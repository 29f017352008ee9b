"""Drafters that remember earlier requests, from which a measurement must not benefit."""

from spectui.options.setup import Setup
from spectui.options.speculation import Speculation

Tokens = tuple[int, ...]


def remembers(speculation: Speculation | None) -> bool:
    """Return whether drafters keep text from request to request.

    The tables of llama.cpp's ``common_ngram_mod``, ``common_ngram_map`` and ``common_ngram_cache``
    live as long as the server's slot.
    """
    return speculation is not None and any(one.remembers for one in speculation.ngrams)


class Memory:
    """Prompts that running servers have seen, as far as their drafters remember them.

    One that had a prompt before would draft what it answered then.
    """

    def __init__(self) -> None:
        self._had: dict[Setup, set[Tokens]] = {}

    def holds(self, setup: Setup, prompt: Tokens) -> bool:
        """Whether the server of a setup would draft from its own earlier answer to the prompt."""
        return prompt in self._had.get(setup, ())

    def add(self, setup: Setup, prompt: Tokens) -> None:
        """Note that a server has continued a prompt."""
        if remembers(setup.speculation):
            self._had.setdefault(setup, set()).add(prompt)

    def clear(self, setup: Setup) -> None:
        """Note that the server was started anew."""
        self._had.pop(setup, None)
