"""Building blocks of all JSON documents. Imports nothing that computes."""

from typing import Any

from spectui import __version__
from spectui.models.facts import ModelFacts
from spectui.monitor.machine import Machine
from spectui.speculative.models import Rollback

Json = dict[str, Any]


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


def or_reason(name: str, value: object, reason: str) -> Json:
    """A value, or null with its sibling ``<name>_reason``."""
    return {name: value} if value is not None else {name: None, f"{name}_reason": reason}


def fields_of(source: object, reason: str, *names: str) -> Json:
    """The named attributes; ``reason`` stands in for those that are None."""
    found: Json = {}
    for name in names:
        found |= or_reason(name, getattr(source, name), reason)
    return found
