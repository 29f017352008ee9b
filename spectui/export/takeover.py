"""Reads the llama-server command that a user already has."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spectui.config import MODEL_KIND, MTP_KIND, NgramKind
from spectui.errors import BadInputError
from spectui.export.shell import server_arguments_of
from spectui.export.words import FLASH_ATTENTION, Given, divide

_REPEATABLE = frozenset({"override-tensor", "override-kv"})
_LOAD_MODES: dict[str, dict[str, tuple[str, ...]]] = {
    "none": {"no-mmap": ()},
    "mmap": {},
    "auto": {},
}
"""What ``--load-mode`` is for spectui, which maps or does not; other modes travel on."""
_NONE = "none"
_MODELS = {"draft": MODEL_KIND}
"""What builds before spring 2026 call it."""
_IK_NAMES = {"n_max": "draft-max", "n_min": "draft-min", "p_min": "draft-p-min"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Takeover:
    """What a command says, in spectui's words."""

    options: Mapping[str, tuple[str, ...]]
    """Values by the long name of spectui's option, without dashes; none for a switch."""
    extra: tuple[str, ...]
    """What an export does not write by itself, as it stands and in its order.

    That is what spectui does not know, and sampling, which it knows and an export leaves out.
    """

    def default_map(self) -> dict[str, Any]:
        """The options as click's ``default_map`` takes them: by parameter name."""
        return {name.replace("-", "_"): _default(name, v) for name, v in self.options.items()}


def _default(name: str, values: tuple[str, ...]) -> bool | str | list[str]:
    if not values:
        return True
    # spectui takes several drafts, llama-server one.
    return list(values) if name in _REPEATABLE or name == "model-draft" else values[-1]


def read_command(text: str) -> Takeover:
    """Read a shell command, with or without the program and what stands before it.

    Raises:
        BadInputError: it is no single command, names no model, or drafts in a way that spectui
            cannot measure.
    """
    options: dict[str, tuple[str, ...]] = {}
    extra: list[str] = []
    for given in divide(server_arguments_of(text)):
        found = _taken(given)
        if found is None or not (given.option and given.option.is_written):
            extra += given.words
        for name, values in (found or {}).items():
            earlier = options.pop(name, ()) if name in _REPEATABLE else ()
            options[name] = (*earlier, *values)
    if "model" not in options:
        raise BadInputError(
            "the command names no model file; spectui reads local GGUF files, so add -m FILE"
        )
    return Takeover(options=options, extra=tuple(extra))


def _taken(given: Given) -> dict[str, tuple[str, ...]] | None:
    """What spectui understands of it, by its own names; None for nothing."""
    if given.option is None:
        return None
    match given.option.name, given.values:
        case "load-mode", (mode,):
            return _LOAD_MODES.get(mode)
        case "spec-type", (kind,):
            return _drafting(kind)
        case "flash-attn", values:
            wanted = values[0] if values else "on"
            return {"flash-attn": (FLASH_ATTENTION.get(wanted, wanted),)}
        case "threads" | "threads-batch" | "seed", ("-1",):
            return {}  # the default, spelled out
        case name, values if given.option.is_ours:
            return {name: values}
    return None


def _drafting(kinds: str) -> dict[str, tuple[str, ...]]:
    """``--spec-type``: who drafts; in ik_llama.cpp, which has its numbers there, how as well.

    Raises:
        BadInputError: spectui cannot draft like that.
    """
    drafter, _, settings = kinds.partition(":")
    pairs = [setting.partition("=") for setting in settings.split(",") if setting]
    if settings and drafter == "draft" and all(p[0] in _IK_NAMES for p in pairs):
        return {_IK_NAMES[key]: (value,) for key, _, value in pairs}
    named = [_MODELS.get(kind, kind) for kind in kinds.split(",")]
    known = {MODEL_KIND, MTP_KIND, _NONE, *NgramKind}
    if not known.issuperset(named):
        raise BadInputError(
            f"--spec-type {kinds}: spectui drafts with a model and as "
            f"{', '.join((MTP_KIND, *NgramKind))}; take the rest out"
        )
    # A draft model is reason enough to draft with it.
    is_plain = {MODEL_KIND, _NONE}.issuperset(named)
    return {} if is_plain else {"spec-type": (",".join(k for k in named if k != _NONE),)}
