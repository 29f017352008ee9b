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
    "driver": "with another GPU driver",
    "llama.cpp": "with another llama.cpp",
    "target": "with another target",
    "drafts": "with other drafts",
    "context": "with other options",
    "sampling": "with other sampling",
    "prompts": "with other prompts",
    "schedule": "with --schedule fast, which is gone",
    "n_predict": "with another -n",
    "n_slots": "with another -np",
    "server": "with another llama-server",
    "extra": "with other arguments for llama-server",
    "backend": "with another backend",
}
_ANY = "with other settings"
"""Difference in conditions that only another version of spectui has."""


_ADDED_FIELDS = frozenset(
    {
        *("devices", "fit", "kv_offload", "op_offload", "cache_type_k_mtp", "cache_type_v_mtp"),
        *("mlock", "direct_io", "repack", "numa", "threads_draft", "threads_batch_draft"),
        "moe_cache_mib",
    }
)
"""Fields that are newer than the first studies, whose conditions lack them at their defaults."""
_DRIVER = "driver"
"""Version of the GPUs' driver, which earlier conditions lack."""
_REMOVED = frozenset({"host"})
"""Conditions that are stored in older studies, and that no measurement has any more."""


def differences(known: Mapping[str, Any], spec: Mapping[str, Any]) -> str | None:
    """Differences between two measurements' conditions: ``with another target and with ...``.

    Args:
        known: earlier conditions that must be equal (``sweep_spec``, ``served_spec``).
        spec: present conditions.

    Returns:
        None where nothing differs.
    """
    compared = {*known, *spec} - _REMOVED
    is_here = known.get("machine") == spec.get("machine")
    if not is_here or None in {known.get(_DRIVER), spec.get(_DRIVER)}:
        compared -= {_DRIVER}
    differing = sorted(key for key in compared if known.get(key) != spec.get(key))
    return " and ".join(_words(key, known.get(key), spec.get(key)) for key in differing) or None


_PRICED = frozenset({"machine", _DRIVER, "llama.cpp", "server", "knobs"}) | _REMOVED
"""Conditions that prices depend on, and on which counts do not, except at near ties."""
_COUNTED = frozenset(
    {
        *("file", "size_bytes", "n_params", "override_kv", "ctx_size", "swa_full"),
        *("cache_type_k", "cache_type_v", "cache_type_k_mtp", "cache_type_v_mtp"),
    }
)
"""Fields of a model and of a context that counts depend on; of the others prices do."""


def counted(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The conditions that a recording's counts depend on: models, text, sampling and drafters."""
    found = {key: value for key, value in spec.items() if key not in _PRICED}
    for key in found.keys() & {"target", "context"}:
        found[key] = _counted(found[key] or {})
    drafts = found.get("drafts") or {}
    return {**found, "drafts": {name: _counted(one) for name, one in drafts.items()}}


def _counted(one: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in _flat(one).items() if key in _COUNTED}


def _flat(one: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a model with those of its placement."""
    own = {key: value for key, value in one.items() if key != "placement"}
    return {**own, **one.get("placement", {})}


def _words(key: str, known: Any, spec: Any) -> str:  # noqa: ANN401 - plain data of any shape
    """The difference in one condition, with the fields of it that differ."""
    words = _WORDS.get(key, _ANY)
    if not isinstance(known, dict) or not isinstance(spec, dict):
        return words
    before, now = _flat(known), _flat(spec)
    differing = sorted(name for name in {*before, *now} if before.get(name) != now.get(name))
    return f"{words} ({', '.join(differing)})"


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
        if one.name not in _ADDED_FIELDS or getattr(options, one.name) != one.default
    }


def as_stored(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Conditions as a storage gives them back: plain values, through JSON."""
    return dict(msgspec.json.decode(msgspec.json.encode(spec)))


def spec_digest(spec: dict[str, Any]) -> str:
    """Eight characters that identify the conditions of trials."""
    return digest(spec)[:8]


def digest(value: object) -> str:
    """SHA-256 of a value as JSON, with sorted keys."""
    return hashlib.sha256(msgspec.json.encode(value, order="deterministic")).hexdigest()
