"""Fields at the start of the documents of commands that load llama.cpp."""

from spectui.documents import Json, heading
from spectui.llama.library import binding_version, known_library, known_version
from spectui.monitor.machine import Machine


def header(kind: str, machine: Machine) -> Json:
    """Fields at the start of a document, with the versions of binding and library."""
    facts = known_library().value
    return heading(
        kind,
        machine.document(),
        llama_cpp_python=binding_version(),
        llama_cpp=known_version(),
        library=None if facts is None else facts.document(),
    )
