"""Which experts answers use, read from a tiny random mixture of experts."""

from collections.abc import Callable

import numpy as np
import pytest

from spectui.engine.commands import Generate, LoadTarget, ReadExperts
from spectui.engine.driver import Engine
from spectui.engine.isolation import ProcessWorker
from spectui.engine.worker import LocalWorker, Worker
from spectui.errors import UsageError
from spectui.models.gguf import read_gguf
from spectui.models.weights import expert_layers
from spectui.options.setup import ModelOptions, TensorOverride
from spectui.trace.routing import Routing
from tests.support.engine import MAX_DRAFT, local_engine, small_context
from tests.support.models import MOE, N_LAYERS, TARGET, Tiny, TinyPath

pytest_plugins = ["tests.support.fixtures"]

PROMPT = (88, 102, 126, 263, 261, 109, 271)
# Longer than what is read at once.
LONG, SHORT = tuple(range(70, 170)), (263, 101, 99)


def read(engine: Engine, *answers: tuple[int, ...]) -> Routing:
    return engine.read_experts(ReadExperts(texts=tuple((PROMPT, one) for one in answers)))


@pytest.mark.parametrize("worker", [LocalWorker, ProcessWorker])
def test_every_token_of_an_answer_has_its_experts(
    tiny: TinyPath, worker: Callable[[], Worker]
) -> None:
    recipe = Tiny(n_experts=6)
    with Engine(worker=worker()) as engine:
        with pytest.raises(UsageError, match="no target is loaded"):
            read(engine, SHORT)
        engine.load_target(
            LoadTarget(
                options=ModelOptions(path=tiny(recipe)),
                context=small_context(),
                max_draft=MAX_DRAFT,
            )
        )
        command = Generate(prompt=PROMPT, n_predict=4)
        before = engine.generate(command).tokens
        both = read(engine, LONG, SHORT)
        assert (both.n_experts, both.lengths) == (6, (len(LONG), len(SHORT)))
        assert [one.layer for one in both.layers] == list(range(N_LAYERS))
        size = read_gguf(tiny(recipe)).tensors
        in_experts = sum(one.size_bytes for one in size if "_exps" in one.name)
        for layer in both.layers:
            rows = layer.rows
            assert rows.shape == (len(LONG) + len(SHORT), 2)
            assert rows.max() < 6
            assert (rows[:, 0] != rows[:, 1]).all()
            assert layer.in_ram
            assert layer.expert_bytes == in_experts // N_LAYERS // 6
        # Whatever is read at once, and whatever was read before.
        alone, cut = read(engine, SHORT), read(engine, LONG[:20])
        for layer, one, other in zip(both.layers, alone.layers, cut.layers, strict=True):
            assert np.array_equal(one.rows, layer.rows[len(LONG) :])
            assert np.array_equal(other.rows, layer.rows[:20])
        # The target's own context has noticed nothing.
        assert engine.generate(command).tokens == before


def test_tokens_that_are_read_at_once_have_the_experts_of_each(
    tiny: TinyPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of the node are beginnings of longer ones: of one token there is only one."""
    options = ModelOptions(path=tiny(Tiny(n_experts=6)))
    with local_engine() as engine:
        engine.load_target(
            LoadTarget(options=options, context=small_context(), max_draft=MAX_DRAFT)
        )
        together = read(engine, LONG)
        monkeypatch.setattr("spectui.llama.routing._AT_ONCE", 1)
        alone = read(engine, LONG)
    for one, other in zip(together.layers, alone.layers, strict=True):
        assert np.array_equal(one.rows, other.rows)


def test_a_target_without_experts_has_none(tiny: TinyPath) -> None:
    with local_engine() as engine:
        engine.load_target(
            LoadTarget(
                options=ModelOptions(path=tiny(TARGET)),
                context=small_context(),
                max_draft=MAX_DRAFT,
            )
        )
        assert not read(engine, SHORT).layers


def test_layers_with_some_experts_on_a_gpu_are_not_in_ram(tiny: TinyPath) -> None:
    gguf = read_gguf(tiny(MOE))
    overrides = (TensorOverride(pattern=r"blk\.1\.ffn_up_exps", buffer="CUDA0"),)
    for options, in_ram in (
        (ModelOptions(path=tiny(MOE), cpu_moe=True), [True, True]),
        (ModelOptions(path=tiny(MOE), n_cpu_moe=1), [True, False]),
        (ModelOptions(path=tiny(MOE), cpu_moe=True, override_tensor=overrides), [True, False]),
    ):
        found = expert_layers(gguf, options, gpu_devices=True)
        assert [found[n].in_ram for n in range(N_LAYERS)] == in_ram
        assert all(
            one.in_ram for one in expert_layers(gguf, options, gpu_devices=False).values()
        ) == ("CUDA0" not in str(options))
