"""Experts that answers use: what batches read, and what caches of every size would hold."""

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectui.trace.routing import LayerRouting, Routing, stack_distances, use_of

N_EXPERTS = 6
ACCESSES = st.lists(st.lists(st.integers(0, 11), min_size=1, max_size=3, unique=True), max_size=60)


def simulated_hits(accesses: Sequence[Sequence[int]], n_slots: int) -> int:
    """Hits of a cache that drops what was used longest ago; what is looked up at once stays."""
    cache, n_hits = OrderedDict[int, None](), 0
    for keys in accesses:
        n_hits += sum(key in cache for key in keys)
        for key in keys:
            cache[key] = None
            cache.move_to_end(key)
        while len(cache) > n_slots:
            cache.popitem(last=False)
    return n_hits


@given(ACCESSES)
def test_stack_distances_are_the_hits_of_every_size(accesses: list[list[int]]) -> None:
    found = stack_distances(accesses)
    assert len(found) == sum(map(len, accesses))
    for n_slots in range(3, 14):
        hits = sum(one < n_slots for one in found)
        assert hits == simulated_hits(accesses, n_slots)


def layer(number: int, rows: Sequence[Sequence[int]], **other: int) -> LayerRouting:
    experts = np.array(rows, np.uint16)
    mib = other.get("mib", 1)
    return LayerRouting(
        layer=number,
        expert_bytes=mib << 20,
        in_ram=not other.get("on_gpu"),
        n_used=experts.shape[1],
        experts=experts.tobytes(),
    )


@given(
    st.lists(
        st.lists(
            st.permutations(range(N_EXPERTS)).map(lambda one: one[:2]), min_size=3, max_size=3
        ),
        min_size=1,
        max_size=30,
    )
)
def test_layers_of_one_size_share_a_cache(tokens: list[list[list[int]]]) -> None:
    """Two layers of small experts, and one of larger ones; one more lies on the GPU."""
    routing = Routing(
        n_experts=N_EXPERTS,
        lengths=(len(tokens),),
        layers=(
            *(layer(n, [one[n] for one in tokens], mib=(1, 1, 2)[n]) for n in range(3)),
            layer(3, [one[0] for one in tokens], on_gpu=1),
        ),
    )
    small = [[e + n * N_EXPERTS for e in one[n]] for one in tokens for n in (0, 1)]
    large = [one[2] for one in tokens]
    use = use_of(routing)
    assert use.ram_bytes == (2 * N_EXPERTS + 2 * N_EXPERTS) << 20
    assert [one.size_mib for one in use.caches] == [1, 2, 4, 8, 16]
    for cache in use.caches:
        # Their part of the cache by bytes, of which one slot stays empty.
        slots = cache.size_mib // 2 - 1, cache.size_mib // 2 // 2 - 1
        hits = [
            simulated_hits(accesses, n) if n >= 2 else 0
            for accesses, n in zip((small, large), slots, strict=True)
        ]
        assert cache.hit_rate == pytest.approx(sum(hits) / (6 * len(tokens)))
        missed = len(tokens) * 4 - hits[0] + 2 * (len(tokens) * 2 - hits[1])
        assert cache.upload_bytes == pytest.approx((missed << 20) / len(tokens))


def test_batches_are_counted_within_answers() -> None:
    rows = [[0, 1], [0, 1], [0, 2], [3, 4], [4, 5]]
    routing = Routing(n_experts=N_EXPERTS, lengths=(3, 2), layers=(layer(0, rows),))
    batches = use_of(routing).batches
    # Of the first answer tokens 1 and 2, of the second both; none has four.
    assert [(one.n_tokens, one.measured) for one in batches] == [(1, 2), (2, 2.5)]
    assert [one.random for one in batches] == pytest.approx([2, 6 * (1 - (2 / 3) ** 2)])


def test_without_experts_in_ram_no_cache_is_worth_telling() -> None:
    routing = Routing(n_experts=N_EXPERTS, lengths=(1,), layers=(layer(0, [[0, 1]], on_gpu=1),))
    use = use_of(routing)
    assert (use.caches, use.ram_bytes) == ((), 0)
