"""Parts that documents of commands with loaded models share."""

from spectui.cli.documents.base import header_with, model_with
from spectui.documents import Json
from spectui.engine.events import ModelLoaded
from spectui.llama.library import binding_version, llama_cpp_version
from spectui.monitor.machine import Machine


def header(kind: str, machine: Machine) -> Json:
    """Fields at the start of every document."""
    return header_with(
        kind, machine, llama_cpp_python=binding_version(), llama_cpp=llama_cpp_version()
    )


def model(loaded: ModelLoaded) -> Json:
    """A loaded model."""
    return model_with(loaded.info, rollback=loaded.rollback, n_ctx=loaded.n_ctx)
