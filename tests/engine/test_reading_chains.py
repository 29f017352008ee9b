"""A draft reads a text in batches as it would go along it token by token, on tiny random models."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from spectui.engine.commands import Generate, LoadTarget, RecordChains
from spectui.engine.driver import Engine
from spectui.options.setup import FlashAttention, ModelOptions, SamplingConfig
from spectui.speculative.models import Outputs
from spectui.trace.chains import record_chains
from spectui.trace.record import Chains
from tests.support.engine import ARCHITECTURES, SMALL_BATCH, local_engine, local_worker
from tests.support.models import Tiny

PROMPT = (88, 102, 126, 263, 261, 109, 271)
SEEDED = SamplingConfig(temp=0.7, seed=11, ignore_eos=True)


def with_draft(engine: Engine, arch: str, folder: Path) -> Engine:
    """Of the same architecture as its target, and often wrong."""
    context = replace(SMALL_BATCH, flash_attn=FlashAttention.OFF)
    options: list[ModelOptions] = []
    for recipe in (Tiny(), Tiny(noise=0.1)):
        path = folder / f"{arch}-{recipe.noise}.gguf"
        ARCHITECTURES[arch](recipe, path)
        # In single precision all through: what batches round otherwise moves no choice then.
        options.append(ModelOptions(path=path, cache_type_k="f32", cache_type_v="f32"))
    engine.load_target(LoadTarget(options=options[0], context=context, max_draft=8))
    engine.load_draft(options[1])
    return engine


@pytest.mark.parametrize("arch", ["llama", "cohere2", "mamba", "lfm2"])
@pytest.mark.parametrize(("n_predict", "depth"), [(1, 6), (40, 1), (40, 6), (-1, 24)])
def test_what_is_read_is_what_is_recorded(
    tmp_path: Path, arch: str, n_predict: int, depth: int
) -> None:
    with with_draft(local_engine(), arch, tmp_path) as engine:
        # The last one fills the context, up to which no tail is complete.
        prompt = PROMPT * (60 if n_predict < 0 else 1)
        command = Generate(prompt=prompt, n_predict=n_predict, sampling=SEEDED)
        output = engine.generate(command).tokens
        read = engine.record_chains(RecordChains(prompt=prompt, output=output, depth=depth)).chains
        draft = local_worker(engine).models.draft
        assert draft.tokens == [*prompt, *output]
        draft.clear()
        draft.decode(prompt, Outputs.LAST)
        assert_equal(read, record_chains(draft, output, depth=depth))


def assert_equal(one: Chains, other: Chains | None) -> None:
    assert other is not None
    assert one.tokens == other.tokens
    assert one.probabilities == pytest.approx(other.probabilities, abs=1e-5)
    assert len(one.tails) == len(other.tails)
    for tail, same in zip(one.tails, other.tails, strict=True):
        assert tail.tokens == same.tokens
        assert tail.probabilities == pytest.approx(same.probabilities, abs=1e-5)


@pytest.mark.parametrize(("arch", "n_decodes"), [("llama", 4), ("cohere2", 56)])
def test_an_output_takes_few_decodes(
    tmp_path: Path, arch: str, n_decodes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths: list[int] = []
    with with_draft(local_engine(), arch, tmp_path) as engine:
        draft = local_worker(engine).models.draft
        decode = draft.decode

        def counted(tokens: Sequence[int], outputs: Outputs) -> None:
            lengths.append(len(tokens))
            decode(tokens, outputs)

        monkeypatch.setattr(draft, "decode", counted)
        engine.record_chains(RecordChains(prompt=PROMPT, output=PROMPT * 8, depth=1))
    assert (lengths[0], len(lengths) - 1, sum(lengths[1:])) == (len(PROMPT), n_decodes, 56)
