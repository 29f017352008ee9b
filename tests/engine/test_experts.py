"""How many experts a batch touches: the counting, and what llama.cpp really routes."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectui.cli.run_probe import _filled
from spectui.engine.commands import Generate, ProbeExperts
from spectui.engine.driver import Engine
from spectui.errors import BadInputError
from spectui.models.weights import WeightTraffic
from spectui.options.setup import ModelOptions
from spectui.tune.experts import BATCHES, BatchUnion, ExpertUse, expert_use
from tests.support.cli import Spectui
from tests.support.engine import ENDLESS, small_context
from tests.support.layers import N_LAYERS
from tests.support.models import MOE, TARGET, TinyPath

pytest_plugins = ("tests.support.fixtures", "tests.support.cli_fixtures")

TRAFFIC = WeightTraffic(
    cpu_dense_bytes=1000,
    cpu_expert_bytes=8000,
    gpu_dense_bytes=0,
    gpu_expert_bytes=0,
    n_experts=8,
    n_experts_used=2,
)
TEXT = (88, 102, 126, 263, 261, 109, 271, 90, 91, 92)


def test_unions_are_counted_per_layer_over_every_run_of_tokens() -> None:
    steady = [(0, 1), (0, 1), (0, 1)]
    restless = [(0, 1), (2, 3), (4, 5)]
    use = expert_use([[steady, restless]], TRAFFIC)
    assert [one.n_tokens for one in use.batches] == [1, 2, 3]
    assert [(one.lowest, one.union, one.highest) for one in use.batches] == [
        (2, 2, 2),
        (2, 3, 4),
        (2, 4, 6),
    ]
    assert [one.uniform for one in use.batches] == pytest.approx([2, 3.5, 4.625])
    assert [one.cpu_bytes for one in use.batches] == [3000, 4000, 5000]
    assert (use.n_experts, use.n_used, use.n_layers, use.n_tokens) == (8, 2, 2, 3)
    assert use.saturation is None
    # The shortest batch that touches nine tenths.
    tokens = [(2 * n % 8, (2 * n + 1) % 8) for n in range(12)]
    assert expert_use([[tokens]], TRAFFIC).saturation == 4


two_of_eight = st.lists(st.integers(0, 7), min_size=2, max_size=2, unique=True)


@given(st.lists(st.lists(two_of_eight, min_size=1), min_size=1, max_size=4))
def test_longer_batches_touch_no_fewer_and_never_more_than_there_are(
    texts: list[list[list[int]]],
) -> None:
    # Of equal length, so that every batch is taken from every text.
    shortest = min(map(len, texts))
    use = expert_use([[text[:shortest]] for text in texts], TRAFFIC)
    unions = [one.union for one in use.batches]
    assert unions[0] == 2
    assert unions == sorted(unions)
    assert all(one.lowest <= one.union <= one.highest <= 8 for one in use.batches)


def test_every_token_of_a_text_has_its_experts_in_every_layer(tiny: TinyPath) -> None:
    with Engine() as engine:
        engine.load_target(ModelOptions(path=tiny(MOE)), small_context(), max_draft=4)
        command = Generate(prompt=TEXT, n_predict=20, sampling=ENDLESS)
        before = engine.generate(command)
        whole = engine.probe_experts(ProbeExperts(text=TEXT))
        # A probe leaves no trace in what is generated.
        assert engine.generate(command).tokens == before.tokens
        assert whole.layers == tuple(range(N_LAYERS))
        for layer in whole.experts:
            assert len(layer) == len(TEXT)
            assert all(len(set(token)) == 2 and set(token) <= set(range(4)) for token in layer)
        rest = engine.probe_experts(ProbeExperts(text=TEXT, n_skipped=4))
        assert rest.experts == tuple(layer[4:] for layer in whole.experts)
        # A token's experts depend on what came before it, not on the batch.
        beginning = engine.probe_experts(ProbeExperts(text=TEXT[:6]))
        assert beginning.experts == tuple(layer[:6] for layer in whole.experts)
        with pytest.raises(BadInputError, match="the text has no tokens"):
            engine.probe_experts(ProbeExperts(text=()))
        engine.load_target(ModelOptions(path=tiny(TARGET)), small_context(), max_draft=4)
        with pytest.raises(BadInputError, match="routes no token to experts"):
            engine.probe_experts(ProbeExperts(text=TEXT))


def test_probe_experts_prints_a_table_and_its_document(
    spectui: Spectui, tiny: TinyPath, prompts: Path
) -> None:
    options = ["-m", tiny(MOE), "-c", 256, "-t", 1, "-n", 12, "--prompts", prompts]
    assert spectui("probe", "experts", *options, "--ignore-eos", "--json", "-") == 0, spectui.err
    document = json.loads(spectui.out)
    assert document["schema"] == "spectui.experts/1"
    assert (document["n_experts"], document["n_experts_used"]) == (4, 2)
    assert document["n_tokens"] == 6 * 12
    assert [one["n_tokens"] for one in document["batches"]] == [1, 2, 3, 4, 6, 8, 12]
    assert document["batches"][0]["union"] == 2
    assert spectui("probe", "experts", *options, "--quiet") == 0
    assert "2 of 4 experts per token in 2 layers" in spectui.out
    assert "from RAM: weights that such a batch reads there" in " ".join(spectui.out.split())
    assert spectui("probe", "experts", *options, "-md", tiny(TARGET)) == 2
    assert "leave out -md" in spectui.err
    assert spectui("probe", "experts", *options, "-m", tiny(TARGET), "--quiet") == 3
    assert "has no experts to count; give a mixture of experts" in spectui.err


@pytest.mark.parametrize(
    ("unions", "told"),
    [
        ((7.2, 8, 8), "nine tenths of all experts has 1 token."),
        ((2, 7.2, 8), "nine tenths of all experts has 2 tokens."),
        ((2, 4, 5, 6, 7.4), "nine tenths of all experts has 5 to 6 tokens."),
        ((2, 3), "A batch of 2 touches 38 % of all."),
    ],
    ids=["at once", "next", "between", "never"],
)
def test_the_saturation_is_told_as_exactly_as_it_is_known(
    unions: tuple[float, ...], told: str
) -> None:
    sizes = zip(BATCHES, unions, strict=False)
    batches = tuple(
        BatchUnion(n_tokens=n, union=union, lowest=2, highest=8, uniform=2, cpu_bytes=1)
        for n, union in sizes
    )
    use = ExpertUse(n_experts=8, n_used=2, n_layers=1, n_tokens=64, batches=batches)
    assert _filled(use).endswith(told)
