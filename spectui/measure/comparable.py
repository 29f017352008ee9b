"""Whether earlier numbers compare with new ones: digests of conditions, and what differs. Pure."""

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

import msgspec

from spectui.options.setup import ContextOptions, ModelOptions
from spectui.paths import text_of

_WORDS = {
    "machine": "on another machine",
    "drafts": "with other drafts",
    "prompts": "with other prompts",
    "server": "with another llama-server",
    "extra": "with other arguments for llama-server",
}


_LATER = frozenset(
    {
        *("devices", "fit", "kv_offload", "op_offload", "cache_type_k_mtp", "cache_type_v_mtp"),
        *("mlock", "direct_io", "lazy_mode", "repack", "no_host", "n_cpu_ffn"),
        *("cpu", "cpu_batch", "numa", "threads_draft", "threads_batch_draft"),
    }
)
"""Fields that came when there were studies, of which each is what its default says."""


def differences(known: Mapping[str, Any], spec: Mapping[str, Any]) -> str | None:
    """Differences between two measurements' conditions: ``with another target and with ...``.

    Args:
        known: earlier conditions that must be equal (``sweep_spec``, ``study_spec``).
        spec: present conditions.

    Returns:
        None where nothing differs.
    """
    differing = sorted(key for key in {*known, *spec} if known.get(key) != spec.get(key))
    return " and ".join(_words(key, known.get(key), spec.get(key)) for key in differing) or None


def _words(key: str, known: object, spec: object) -> str:
    if key == "backend" and isinstance(known, dict) and isinstance(spec, dict):
        return _of_backend(known, spec)
    return _WORDS.get(key, f"with another {key}")


def _of_backend(known: Mapping[str, Any], spec: Mapping[str, Any]) -> str:
    if known.get("name") != spec.get("name"):
        return "with another backend"
    if spec.get("name") != "server":
        return "with another llama.cpp"
    is_binary = any(known.get(key) != spec.get(key) for key in ("path", "version", "build"))
    return _WORDS["server" if is_binary else "extra"]


def model_identity(options: ModelOptions, size_bytes: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """A model's file with its size, and its placement: it may move to another folder."""
    placement = conditions(options)
    path = placement.pop("path")
    return {"file": text_of(path.name), "size_bytes": size_bytes}, placement


def conditions(options: ModelOptions | ContextOptions) -> dict[str, Any]:
    """Fields of ``options``; those that earlier studies lack only where they are no default."""
    plain = asdict(options)
    return {
        one.name: plain[one.name]
        for one in fields(options)
        if one.name not in _LATER or getattr(options, one.name) != one.default
    }


def as_stored(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Conditions as a storage gives them back: plain values, through JSON."""
    return dict(msgspec.json.decode(msgspec.json.encode(spec)))


def spec_digest(spec: dict[str, Any]) -> str:
    """Eight characters that stand for what makes trials comparable."""
    return digest(spec)[:8]


def digest(value: object) -> str:
    """SHA-256 of a value as JSON, with sorted keys."""
    return hashlib.sha256(msgspec.json.encode(value, order="deterministic")).hexdigest()
