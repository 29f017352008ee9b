"""Experts that the tokens of recorded answers were routed to.

They show how many experts a batch reads, and how many of these a cache on a GPU would hold
(``--moe-cache-mib``). A cache that drops the least recently used holds the experts whose stack
distance is less than its slots: the number of others that were used since (Mattson et al.,
"Evaluation techniques for storage hierarchies", 1970). So one pass gives every size.

As llama.cpp's cache (``llama-moe-cache.cpp``): layers with experts of one size share their slots,
each such group has its part of the cache by the bytes of its experts, less one slot; all experts of
a token and layer are looked up at once; and batches of a prompt pass it by.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from math import inf
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

BATCHES = (1, 2, 4, 8)
"""Consecutive tokens whose experts are counted together."""
_MIB = 1 << 20
_SMALLEST = 64
"""Part of the experts in RAM below which no cache is worth looking at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerRouting:
    """Experts of one layer, of the tokens of several answers one behind the other."""

    layer: int
    expert_bytes: int
    """Bytes of one expert."""
    in_ram: bool
    """Whether all of its experts lie in RAM."""
    n_used: int
    experts: bytes
    """uint16 [n_tokens, n_used]."""

    @property
    def rows(self) -> npt.NDArray[np.uint16]:
        """[n_tokens, n_used]: the experts of each token."""
        return np.frombuffer(self.experts, np.uint16).reshape(-1, self.n_used)


@dataclass(frozen=True, slots=True, kw_only=True)
class Routing:
    """Experts of all layers that have any."""

    n_experts: int
    """Experts of a layer."""
    lengths: tuple[int, ...]
    """Tokens of each answer."""
    layers: tuple[LayerRouting, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchExperts:
    """Different experts of a layer that a batch reads, in the mean."""

    n_tokens: int
    measured: float
    random: float
    """The same if each token were routed at random."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheShare:
    """A cache of one size."""

    size_mib: int
    hit_rate: float
    """Share of the experts that a token reads from RAM which the cache would hold."""
    upload_bytes: float
    """Bytes of the others, for a token: llama.cpp copies them to the GPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertUse:
    """Use of the experts in recorded answers."""

    n_answers: int
    n_tokens: int
    n_experts: int
    """Experts of a layer."""
    ram_bytes: int
    """Bytes of all experts of the layers whose experts lie in RAM."""
    batches: tuple[BatchExperts, ...]
    caches: tuple[CacheShare, ...]
    """By size: powers of two of MiB, up to ``ram_bytes``."""


def use_of(routing: Routing) -> ExpertUse:
    """Count what batches read, and what caches of every size would hold."""
    groups = list(_groups(routing))
    ram_bytes = sum(one.all_bytes for one in groups)
    n_tokens = sum(routing.lengths)
    ram_mib = ram_bytes // _MIB
    sizes = [1 << n for n in range(ram_mib.bit_length()) if (_SMALLEST << n) >= ram_mib]
    return ExpertUse(
        n_answers=len(routing.lengths),
        n_tokens=n_tokens,
        n_experts=routing.n_experts,
        ram_bytes=ram_bytes,
        batches=tuple(filter(None, (_batch_experts(routing, n) for n in BATCHES))),
        caches=tuple(_cached(groups, size, ram_bytes, n_tokens) for size in sizes),
    )


def stack_distances(accesses: Sequence[Sequence[int]]) -> list[float]:
    """Number of other keys that were used since each key was, before the access that it is part of.

    Args:
        accesses: different keys that are looked up at once; a later one counts as used later.

    Returns:
        One for each key of each access in turn; infinite where it was not used before.
    """
    is_last = np.zeros(sum(map(len, accesses)), np.bool_)
    last: dict[int, int] = {}
    found: list[float] = []
    for keys in accesses:
        begin = len(found)
        for key in keys:
            at = last.get(key)
            found.append(inf if at is None else int(is_last[at + 1 : begin].sum()))
        for at, key in enumerate(keys, begin):
            if key in last:
                is_last[last[key]] = False
            is_last[at] = True
            last[key] = at
    return found


class _Group(NamedTuple):
    """Layers whose experts share their slots."""

    expert_bytes: int
    all_bytes: int
    """Bytes of the experts of all its layers."""
    n_used: int
    """Experts of a token and layer, at most."""
    distances: npt.NDArray[np.float64]
    """Of each expert that was used."""

    def n_hits(self, n_slots: int) -> int:
        # With fewer slots than experts of a token the layers are not cached.
        return int(np.count_nonzero(self.distances < n_slots)) if n_slots >= self.n_used else 0


def _groups(routing: Routing) -> Iterator[_Group]:
    by_size: defaultdict[int, list[LayerRouting]] = defaultdict(list)
    for layer in routing.layers:
        if layer.in_ram:
            by_size[layer.expert_bytes].append(layer)
    for expert_bytes, layers in by_size.items():
        # As they are decoded: token by token, layer by layer.
        keys = (one.rows.astype(int) + at * routing.n_experts for at, one in enumerate(layers))
        tokens = zip(*(one.tolist() for one in keys), strict=True)
        yield _Group(
            expert_bytes=expert_bytes,
            all_bytes=expert_bytes * len(layers) * routing.n_experts,
            n_used=max(one.n_used for one in layers),
            distances=np.array(stack_distances(list(chain.from_iterable(tokens)))),
        )


def _cached(groups: Sequence[_Group], size_mib: int, ram_bytes: int, n_tokens: int) -> CacheShare:
    n_hits, missed_bytes = 0, 0
    for one in groups:
        budget_bytes = size_mib * _MIB * one.all_bytes // ram_bytes
        hits = one.n_hits(budget_bytes // one.expert_bytes - 1)
        n_hits += hits
        missed_bytes += (len(one.distances) - hits) * one.expert_bytes
    return CacheShare(
        size_mib=size_mib,
        hit_rate=n_hits / sum(len(one.distances) for one in groups),
        upload_bytes=missed_bytes / n_tokens,
    )


def _batch_experts(routing: Routing, n: int) -> BatchExperts | None:
    """Experts of ``n`` consecutive tokens; None where no answer has as many."""
    counts, chance = list[float](), list[float]()
    ends = np.cumsum(routing.lengths)
    for layer in routing.layers:
        for answer in np.split(layer.rows, ends[:-1]):
            n_batches = len(answer) // n
            batches = np.sort(answer[: n_batches * n].reshape(-1, n * layer.n_used), axis=1)
            counts += (1 + np.count_nonzero(np.diff(batches, axis=1), axis=1)).tolist()
        missing = 1 - layer.n_used / routing.n_experts
        chance.append(routing.n_experts * (1 - missing**n))
    if not counts:
        return None
    return BatchExperts(n_tokens=n, measured=float(np.mean(counts)), random=float(np.mean(chance)))
