"""Whether two servers of the same models fit beside each other."""

from pathlib import Path

import psutil

from spectui.config import ModelOptions
from spectui.gguf_names import series_of
from spectui.monitor.machine import Machine

_SPARE = 1.2
"""For caches and compute buffers, relative to the weights."""


def both_fit(target: ModelOptions, draft: ModelOptions | None, machine: Machine) -> bool:
    """Whether a server with the draft fits beside one without.

    Where a GPU holds weights, that is not known, and the answer no.
    """
    layers = [options.n_gpu_layers for options in (target, draft) if options is not None]
    if machine.gpus and any(layers):
        return False
    return needed_bytes(target, draft) <= psutil.virtual_memory().available


def needed_bytes(target: ModelOptions, draft: ModelOptions | None) -> int:
    """Estimate of what both take: files may be mapped once, but weights are also copied."""
    weights = 2 * size_bytes(target.path) + (0 if draft is None else size_bytes(draft.path))
    return round(_SPARE * weights)


def size_bytes(path: Path) -> int:
    """Of a model, with all of its shards."""
    shards = (path.with_name(name) for name in series_of(path.name).names)
    return sum(shard.stat().st_size for shard in shards if shard.exists())
