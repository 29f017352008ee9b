"""Facts on the llama.cpp library that measured, and on the CPU features that it uses.

Measured prices hold for this library alone.
"""

import re
from pathlib import Path

import msgspec

from spectui.documents import Json, Known, encoded, or_reason
from spectui.llama.search import Origin, find_server

_CPUINFO = Path("/proc/cpuinfo")
_WIDE = {
    "avx2": "AVX2",
    "avx512f": "AVX512",
    "amx_int8": "AMX_INT8",
    "asimddp": "DOTPROD",
    "i8mm": "MATMUL_INT8",
    "sve": "SVE",
}
"""Features that change what a batch costs: the kernel's names, and llama.cpp's."""


class LibraryFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A llama.cpp library, as results name it."""

    name: str
    """Such as ``llama.cpp 0.5.0 of /opt/llama.cpp/bin``."""
    file: str
    origin: str
    """An ``Origin``, such as ``llama-server`` or ``xllamacpp``."""
    server: str | None
    """The llama-server that it lies beside."""
    version: str | None
    commit: str | None
    """None where it was built outside of a clone."""
    features: tuple[str, ...]
    """Features of the processor that the library computes with."""
    unused: tuple[str, ...]
    """Features of the processor that would make batches cheaper, and that it leaves unused."""

    def document(self) -> Json:
        """The library's part of a document."""
        return {
            **encoded(self),
            **or_reason("server", self.server, "the library lies beside none"),
            **or_reason("version", self.version, "the library does not tell it"),
            **or_reason("commit", self.commit, "it was built outside of a clone"),
        }

    @property
    def version_text(self) -> str:
        """Its version for display."""
        return self.version or "of unknown version"

    @property
    def without_folder(self) -> str:
        """Origin and unused features, but no folder, such as ``xllamacpp, without AVX512``."""
        origin = f"beside a {self.origin}" if self.origin == Origin.SERVER else self.origin
        return ", without ".join([origin, *self.unused])

    @property
    def identity(self) -> tuple[str, ...]:
        """Facts that may change the price of a batch."""
        return (self.version or "", *(f"without {name}" for name in self.unused))


def engine_document(library: Known[LibraryFacts], binding: str) -> Json:
    """The engine of a measurement in documents.

    Args:
        library: facts of llama.cpp's library, or why there is none.
        binding: version of llama-cpp-python.
    """
    facts, reason = library.value, library.reason or ""
    return {
        "llama_cpp_python": binding,
        **or_reason("llama_cpp", facts and facts.version_text, reason),
        **or_reason("library", facts and facts.document(), reason),
    }


def features_in(system_info: str) -> tuple[str, ...]:
    """The CPU's features in the output of ``llama_print_system_info``, which has all backends."""
    _before, has_cpu, cpu_part = system_info.partition("CPU : ")
    # Another backend may follow.
    words = re.split(r" [|] \w+ : ", cpu_part)[0].split(" | ") if has_cpu else []
    pairs = (word.partition(" = ") for word in words)
    return tuple(name.strip() for name, _, value in pairs if value.strip().isdigit() and int(value))


def wide_features() -> tuple[str, ...]:
    """Name the features of this processor that change what a batch costs."""
    try:
        text = _CPUINFO.read_text("utf-8")
    except OSError:
        return ()
    found = re.search(r"^(?:flags|Features)\s*:(.*)$", text, re.MULTILINE)
    flags = set(found[1].split()) if found else set[str]()
    return tuple(name for flag, name in _WIDE.items() if flag in flags)


def price_note(facts: LibraryFacts | None) -> str | None:
    """Note on the library for readers of a gain that was measured with it.

    Args:
        facts: None where a llama-server measured.

    Returns:
        None where the library is the user's own, and leaves nothing of the processor unused.
    """
    if facts is None:
        return None
    # A library that the user chose, or one beside a llama-server, needs no note.
    server = None if facts.origin in {Origin.VARIABLE, Origin.SERVER} else find_server()
    if server is not None:
        return (
            f"measured with {facts.name}; {server} has another llama.cpp, whose batches may cost "
            f"otherwise: `--backend server --server-bin {server}` measures with it"
        )
    if facts.unused:
        return f"measured with {unused_text(facts)}"
    return None


def unused_text(facts: LibraryFacts) -> str:
    """Such as ``llama.cpp 0.6.0 of xllamacpp, which leaves AVX512 of this processor unused``."""
    return (
        f"{facts.name}, which leaves {' and '.join(facts.unused)} of this processor unused: a "
        "llama.cpp that was built for it verifies drafts faster, and may gain more"
    )
