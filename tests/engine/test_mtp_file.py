"""MTP layers in a file of their own: loaded beside their target, and drafting as llama-server's."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from spectui.commands.arguments import server_arguments
from spectui.engine.commands import Generate
from spectui.engine.driver import Engine
from spectui.engine.fit import fit
from spectui.engine.fitting import alone
from spectui.engine.planning import Planner
from spectui.errors import BadInputError, UsageError
from spectui.llama.buffers import BufferKind
from spectui.llama.planned import PlanRequest
from spectui.options.dialect import Dialect
from spectui.options.drafters import DraftMtp, DraftSimple
from spectui.options.setup import Devices, Fit, ModelOptions, SamplingConfig
from spectui.options.speculation import Speculation
from spectui.server import LlamaServer
from tests.support.engine import ENDLESS, small_context
from tests.support.gemma4 import write_pair
from tests.support.models import TARGET, Tiny, TinyPath
from tests.support.mtp import WRITERS, Part

pytest_plugins = ("tests.support.fixtures",)

N_PREDICT = 60
PROMPTS = ((88, 102, 126, 263, 261, 109, 271) * 4, tuple(range(40, 90)))
WARM = SamplingConfig(temp=0.8, seed=7, ignore_eos=True)
FILES = (*WRITERS, "gemma4")


def pair_of(arch: str, folder: Path) -> tuple[ModelOptions, ModelOptions]:
    target, draft = write_pair(arch, folder)
    return ModelOptions(path=target), ModelOptions(path=draft)


def load(engine: Engine, pair: tuple[ModelOptions, ModelOptions], *, max_draft: int = 8) -> None:
    target, draft = pair
    engine.load_target(target, small_context(), max_draft=max_draft, mtp_file=True)
    engine.load_draft(draft, mtp=True)


@pytest.mark.server
@pytest.mark.parametrize(
    "sampling", [pytest.param(ENDLESS, marks=pytest.mark.ci), WARM], ids=["greedy", "warm"]
)
@pytest.mark.parametrize(
    "config",
    [
        pytest.param(
            Speculation(DraftMtp(draft_max=2)), marks=pytest.mark.ci, id="as many as asked"
        ),
        # No probability is within a thousandth of this floor: rounding moves less.
        Speculation(DraftMtp(draft_max=4, draft_min=2, draft_p_min=0.44)),
    ],
    ids=lambda config: config.own.summary,
)
@pytest.mark.parametrize("arch", FILES)
def test_drafts_and_output_equal_the_servers(
    llama_server_binary: Path,
    tmp_path: Path,
    arch: str,
    config: Speculation,
    sampling: SamplingConfig,
) -> None:
    pair, context = pair_of(arch, tmp_path), small_context()
    flags = server_arguments(*pair, context, config, dialect=Dialect.LLAMA_CPP)
    log = tmp_path / "server.log"
    n_accepted = 0
    with Engine() as engine:
        load(engine, pair, max_draft=config.longest)
        for prompt in PROMPTS:
            # A server begins a prompt with the hidden state that the one before it ended with.
            with LlamaServer(llama_server_binary, [*flags, "-np", "1"], log_path=log) as server:
                theirs = server.complete(
                    prompt,
                    n_predict=N_PREDICT,
                    temperature=sampling.temp,
                    seed=sampling.seed,
                    ignore_eos=True,
                )
            ours = engine.generate(
                Generate(prompt=prompt, n_predict=N_PREDICT, sampling=sampling, speculation=config)
            )
            assert ours.tokens == theirs.tokens
            counts = (ours.counters.n_drafted, ours.counters.n_accepted)
            assert counts == (theirs.n_drafted, theirs.n_accepted)
            n_accepted += theirs.n_accepted
    assert n_accepted > 0


@pytest.mark.parametrize("arch", WRITERS)
def test_a_file_drafts_what_the_same_layers_draft_inside_their_target(
    tmp_path: Path, arch: str
) -> None:
    whole = tmp_path / "whole.gguf"
    WRITERS[arch](Tiny(), whole)
    command = Generate(
        prompt=PROMPTS[0],
        n_predict=N_PREDICT,
        sampling=ENDLESS,
        speculation=Speculation(DraftMtp(draft_max=3)),
    )
    with Engine() as engine:
        engine.load_target(ModelOptions(path=whole), small_context(), max_draft=8, mtp=True)
        inside = engine.generate(command)
        load(engine, pair_of(arch, tmp_path))
        beside = engine.generate(command)
    assert beside.tokens == inside.tokens
    assert beside.counters.n_drafted == inside.counters.n_drafted
    assert beside.counters.n_accepted == inside.counters.n_accepted > 0


def test_a_file_drafts_in_place_of_the_targets_own_layers_while_it_is_loaded(
    tmp_path: Path,
) -> None:
    whole, other = tmp_path / "whole.gguf", tmp_path / "other.gguf"
    WRITERS["qwen35"](Tiny(), whole)
    WRITERS["qwen35"](Tiny(seed=5), other, part=Part.MTP)
    command = Generate(
        prompt=PROMPTS[0],
        n_predict=N_PREDICT,
        sampling=ENDLESS,
        speculation=Speculation(DraftMtp(draft_max=3)),
        reuse_prompt=True,
    )
    with Engine() as engine:
        engine.load_target(ModelOptions(path=whole), small_context(), max_draft=8, mtp=True)
        own = engine.generate(command)
        engine.load_draft(ModelOptions(path=other), mtp=True)
        strange = engine.generate(command)
        # From no cache of the layers that drafted before.
        fresh = engine.generate(replace(command, reuse_prompt=False))
        engine.unload_draft()
        again = engine.generate(command)
    assert strange.counters.n_accepted == fresh.counters.n_accepted < own.counters.n_accepted
    assert again.counters.n_accepted == own.counters.n_accepted
    assert own.tokens == strange.tokens == again.tokens


def test_a_file_of_another_model_is_refused_with_the_reason(tmp_path: Path, tiny: TinyPath) -> None:
    target, draft = pair_of("qwen35", tmp_path)
    strange, renamed = tmp_path / "strange.gguf", tmp_path / "renamed.gguf"
    WRITERS["glm4moe"](Tiny(), strange, part=Part.MTP)
    WRITERS["qwen35"](Tiny(renamed=(70, "else")), renamed, part=Part.MTP)
    refusals = {
        strange: "it has MTP layers of a glm4moe, and the target is a qwen35",
        target.path: "it is a qwen35 without MTP layers",
        renamed: "token 70 differs",
    }
    with Engine() as engine:
        engine.load_target(target, small_context(), max_draft=8, mtp_file=True)
        for path, reason in refusals.items():
            with pytest.raises(BadInputError, match=reason):
                engine.load_draft(ModelOptions(path=path), mtp=True)
        with pytest.raises(BadInputError, match="drafts with --spec-type draft-mtp"):
            engine.load_draft(draft)
        engine.load_target(target, small_context(), max_draft=8)
        with pytest.raises(UsageError, match="was loaded for other drafts"):
            engine.load_draft(draft, mtp=True)
        with pytest.raises(BadInputError, match="cannot generate without the model"):
            engine.load_target(draft, small_context(), max_draft=8)
        engine.load_target(ModelOptions(path=tiny(TARGET)), small_context(), max_draft=8)
        with pytest.raises(BadInputError, match="the target is a llama"):
            engine.load_draft(draft, mtp=True)


@pytest.fixture
def kv_bytes(tmp_path: Path) -> Callable[[str, str], tuple[int, int]]:
    """Planned and allocated bytes of the cache of a target's own MTP layers."""
    path = tmp_path / "whole.gguf"
    WRITERS["qwen35"](Tiny(), path)

    def measure(key: str, value: str) -> tuple[int, int]:
        options = ModelOptions(path=path, cache_type_k_mtp=key, cache_type_v_mtp=value)
        context = small_context()
        with Planner() as planner, Engine() as engine:
            plan = planner.plan(PlanRequest(target=options, mtp=True, context=context))
            alone = engine.load_target(options, context, max_draft=3).memory.buffers
            both = engine.load_target(options, context, max_draft=3, mtp=True).memory.buffers
        kv = [
            sum(one.size_bytes for one in buffers if one.kind is BufferKind.KV)
            for buffers in (() if plan.draft is None else plan.draft.buffers, alone, both)
        ]
        return kv[0], kv[2] - kv[1]

    return measure


def test_the_cache_of_the_targets_own_layers_has_the_types_of_ctkd_and_ctvd(
    kv_bytes: Callable[[str, str], tuple[int, int]],
) -> None:
    full, quantised = kv_bytes("f16", "f16"), kv_bytes("q8_0", "q4_0")
    for planned, taken in (full, quantised):
        assert taken == pytest.approx(planned, abs=6000)
    # 8.5 and 4.5 bits an element in place of 16 each.
    assert quantised[0] / full[0] == pytest.approx(13 / 32)


@pytest.mark.server
def test_the_server_drafts_the_same_with_a_quantised_cache_of_the_layers(
    llama_server_binary: Path, tmp_path: Path
) -> None:
    path, context = tmp_path / "whole.gguf", small_context()
    WRITERS["qwen35"](Tiny(), path)
    target = ModelOptions(path=path, cache_type_k_mtp="q4_0", cache_type_v_mtp="q4_0")
    config = Speculation(DraftMtp(draft_max=3))
    flags = server_arguments(target, None, context, config, dialect=Dialect.LLAMA_CPP)
    assert flags.count("q4_0") == 2
    log = tmp_path / "server.log"
    with LlamaServer(llama_server_binary, [*flags, "-np", "1"], log_path=log) as server:
        theirs = server.complete(PROMPTS[1], n_predict=N_PREDICT, ignore_eos=True)
    with Engine() as engine:
        engine.load_target(target, context, max_draft=3, mtp=True)
        ours = engine.generate(
            Generate(prompt=PROMPTS[1], n_predict=N_PREDICT, sampling=ENDLESS, speculation=config)
        )
    counts = (ours.counters.n_drafted, ours.counters.n_accepted)
    assert counts == (theirs.n_drafted, theirs.n_accepted)


def test_a_command_names_the_file_only_where_it_drafts(tmp_path: Path) -> None:
    target, draft = (ModelOptions(path=tmp_path / name) for name in ("t.gguf", "mtp-t.gguf"))
    context = small_context()

    def written(draft: ModelOptions | None, own: DraftMtp | DraftSimple) -> list[str]:
        speculation = Speculation(own)
        return server_arguments(target, draft, context, speculation, dialect=Dialect.LLAMA_CPP)

    beside, alone = written(draft, DraftMtp()), written(None, DraftMtp())
    assert str(draft.path) in beside
    assert "draft-mtp" in beside
    assert "-md" not in alone
    assert "draft-mtp" in alone


@pytest.mark.parametrize("arch", ["qwen35", "gemma4"])
def test_an_open_context_is_fitted_with_the_layers_beside_their_target(
    tmp_path: Path, arch: str
) -> None:
    target, layers = pair_of(arch, tmp_path)
    nowhere = Devices(names=())
    target = replace(target, fit=Fit(targets_mib=(0,)), devices=nowhere)
    request = PlanRequest(target=target).beside(replace(layers, devices=nowhere))
    with Planner() as planner:
        sizes = [
            fit(planner.plan, one, (), open_context=True, host_bytes=20_000_000).ctx_size
            for one in (alone(request), request)
        ]
    assert sizes[0] is not None
    assert sizes[1] is not None
    assert sizes[1] < sizes[0]
