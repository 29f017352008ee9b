"""Dialects of llama-server's arguments."""

from enum import StrEnum


class Dialect(StrEnum):
    """Dialect of a llama-server's command line.

    ``LLAMA_CPP`` is llama.cpp from spring 2026 on, where each drafter has its own options.
    ``LEGACY`` is llama.cpp from autumn 2025 until then: ``-fa`` takes a value already, and the
    draft has placement options. ``IK`` is ik_llama.cpp with ``--spec-type NAME:key=value,...``.
    """

    LLAMA_CPP = "llama.cpp"
    LEGACY = "llama.cpp-legacy"
    IK = "ik"


NGRAM_DIALECTS = frozenset({Dialect.LLAMA_CPP})
"""Dialects that take n-gram drafters and MTP in any row: a search for others leaves these out."""
