"""Facts about the files of served models, and whether two servers fit in memory."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from spectui.documents import Json, or_reason
from spectui.errors import BadInputError, UsageError
from spectui.gguf_names import series_of
from spectui.llama.architectures import architecture
from spectui.models.facts import facts_of, reader_kind
from spectui.models.gguf import read_gguf
from spectui.monitor.machine import Machine, this_machine
from spectui.options.setup import ModelOptions

_SPARE = 1.2
"""Factor on the weights that leaves room for caches and compute buffers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """A model that was not loaded in this process. Fields missing in its header are None."""

    options: ModelOptions
    file_bytes: int
    """Size of its files, including headers."""
    arch: str | None = None
    name: str | None = None
    size_bytes: int | None = None
    """Size of its tensors, as for loaded models."""
    reader: str | None = None
    """One of ``HIDDEN_STATE_KINDS``, for a draft that reads the target's hidden states."""
    mtp_layers: int = 0
    redoes_rounds: bool = True
    """Whether llama-server has to redo rounds that reject something; True if unknown."""

    @property
    def path(self) -> Path:
        """Path of its file."""
        return self.options.path

    @property
    def alteration(self) -> str | None:
        """The effect of ``--override-kv`` on its output, in a sentence; None without overrides."""
        if not self.options.override_kv:
            return None
        told = ", ".join(one.text for one in self.options.override_kv)
        return f"{self.path.name} runs with {told}: its output is not that of the model as it is"

    def document(self, n_ctx: int) -> Json:
        """The model in documents, as those of loaded models, as far as that is known."""
        return {
            "path": str(self.path),
            **or_reason("arch", self.arch, UNREAD),
            **or_reason("name", self.name, UNREAD),
            **or_reason("n_params", None, NOT_LOADED),
            **or_reason("size_bytes", self.size_bytes, UNREAD),
            "override_kv": [one.text for one in self.options.override_kv],
            **or_reason("rollback", None, NOT_LOADED),
            "n_ctx": n_ctx,
        }


UNREAD = "spectui's llama.cpp cannot read the file's header"
NOT_LOADED = "llama-server has loaded it, which does not tell"


def look_at(options: ModelOptions) -> ServedModel:
    """Read as much of the header as possible: the engine may not understand the file."""
    file_bytes = size_bytes(options.path)
    try:
        gguf = read_gguf(options.path)
    except BadInputError:
        return ServedModel(options=options, file_bytes=file_bytes)
    facts = facts_of(options.path, gguf)
    known = architecture(facts.arch)
    return ServedModel(
        options=options,
        arch=facts.arch,
        name=facts.name,
        size_bytes=facts.size_bytes,
        file_bytes=file_bytes,
        reader=reader_kind(gguf),
        mtp_layers=facts.mtp_layers,
        redoes_rounds=known.has_state or not known.is_known,
    )


def keeps_off(
    target: ModelOptions,
    drafts: Sequence[ModelOptions | None],
    *,
    wanted: bool | None,
    slot_tokens: int = 0,
) -> bool:
    """Whether the server of the target alone stays alive beside one with any draft.

    Args:
        target: the target.
        drafts: drafts of the servers that speculate, one at a time.
        wanted: what the user has said; without that they do where they fit.
        slot_tokens: tokens that the slots beyond the first have room for.

    Raises:
        UsageError: both are wanted on an RPC server, which serves one client at a time.
    """
    if target.devices.rpc:
        if wanted:
            raise UsageError(
                "--keep-both: an RPC server takes one client at a time, so that two llama-servers "
                "cannot share it; leave it out"
            )
        return False
    if wanted is not None:
        return wanted
    machine = this_machine()
    return all(both_fit(target, draft, machine, slot_tokens) for draft in drafts or (None,))


def both_fit(
    target: ModelOptions, draft: ModelOptions | None, machine: Machine, slot_tokens: int = 0
) -> bool:
    """Return whether a server with the draft fits beside one without.

    Where a GPU holds weights, that is not known, and the answer no.
    """
    layers = [options.n_gpu_layers for options in (target, draft) if options is not None]
    if machine.gpus and any(layers):
        return False
    return needed_bytes(target, draft, slot_tokens) <= psutil.virtual_memory().available


def needed_bytes(target: ModelOptions, draft: ModelOptions | None, slot_tokens: int = 0) -> int:
    """Estimated memory of both servers: files may be mapped once, but weights are also copied.

    Arguments as ``keeps_off``. The caches of the first slot are within the spare.
    """
    models = [target, target, *(() if draft is None else (draft,))]
    weights = sum(size_bytes(one.path) for one in models)
    caches = sum(_token_bytes(one.path) for one in models) * slot_tokens if slot_tokens else 0
    return round(_SPARE * weights) + caches


def _token_bytes(path: Path) -> int:
    """Bytes per token in a model's cache; 0 where its header does not tell."""
    try:
        return facts_of(path, read_gguf(path)).kv_bytes_per_token or 0
    except BadInputError:
        return 0


def size_bytes(path: Path) -> int:
    """Return the size of a model, with all of its shards."""
    shards = (path.with_name(name) for name in series_of(path.name).names)
    return sum(shard.stat().st_size for shard in shards if shard.exists())
