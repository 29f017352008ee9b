"""Parts that JSON documents of several commands share. Imports nothing that computes."""

from spectui import __version__
from spectui.documents import Json
from spectui.models.facts import ModelFacts
from spectui.monitor.machine import Machine
from spectui.speculative.models import Rollback


def header_with(kind: str, machine: Machine, *, llama_cpp_python: str, llama_cpp: str) -> Json:
    """Fields at the start of every document, with the versions of the binding and of llama.cpp."""
    return {
        "schema": f"spectui.{kind}/1",
        "spectui": __version__,
        "engine": {"llama_cpp_python": llama_cpp_python, "llama_cpp": llama_cpp},
        "machine": {
            "fingerprint": machine.fingerprint,
            "cpu": machine.cpu,
            "n_cores": machine.n_cores,
            "memory_bytes": machine.memory_bytes,
            "gpus": list(machine.gpus),
        },
    }


def model_with(info: ModelFacts, *, rollback: Rollback, n_ctx: int) -> Json:
    """A model, loaded or planned.

    ``size_bytes`` is that of its tensors, whoever measures: what ``llama_model_size`` says of a
    model that is loaded, which a llama-server tells as well, and what the headers of the files say.
    """
    return {
        "path": str(info.path),
        "arch": info.arch,
        "name": info.name,
        "n_params": info.n_params,
        "size_bytes": info.size_bytes,
        "override_kv": list(info.overridden),
        "rollback": str(rollback),
        "n_ctx": n_ctx,
    }
