"""The engine beside the real llama-server: same prompt, same drafts, same output, same flags."""

from pathlib import Path

import httpx
import pytest

from spectui.commands.arguments import server_arguments
from spectui.engine.commands import Generate
from spectui.engine.driver import Engine
from spectui.options.dialect import Dialect
from spectui.options.drafters import DraftSimple
from spectui.options.setup import (
    ContextOptions,
    FlashAttention,
    KvOverride,
    ModelOptions,
    SamplingConfig,
    TensorOverride,
)
from spectui.options.speculation import Speculation
from spectui.server import ChatMessage, LlamaServer
from tests.support.beside_server import CONTEXT, N_PREDICT, PROMPTS, in_turns, run_both, tokens_of
from tests.support.engine import ENDLESS
from tests.support.models import CLOSE_DRAFT, TARGET, TinyPath

pytest_plugins = ["tests.support.fixtures", "tests.support.beside_server_fixtures"]
pytestmark = pytest.mark.server


@pytest.mark.ci
@pytest.mark.models
@pytest.mark.parametrize(
    "config",
    [
        Speculation(DraftSimple(draft_max=3)),
        Speculation(DraftSimple(draft_max=8, draft_min=2, draft_p_min=0.4)),
        Speculation(DraftSimple(draft_max=16, draft_p_min=0.75)),
    ],
)
def test_drafts_and_output_equal_the_servers(
    served_engine: Engine,
    served_pair: tuple[ModelOptions, ModelOptions],
    llama_server_binary: Path,
    tmp_path: Path,
    config: Speculation,
) -> None:
    target, draft = served_pair
    flags = server_arguments(target, draft, CONTEXT, config, dialect=Dialect.LLAMA_CPP)
    log = tmp_path / "server.log"
    with LlamaServer(llama_server_binary, [*flags, "-np", "1"], log_path=log) as server:
        for prompt in tokens_of(served_engine)[:1]:
            command = Generate(prompt=prompt, n_predict=N_PREDICT, speculation=config)
            ours, theirs = run_both(served_engine, server, command)
            assert ours == in_turns(served_engine, command) == theirs


@pytest.mark.ci
@pytest.mark.models
def test_what_is_drawn_equals_the_servers(
    served_engine: Engine,
    served_pair: tuple[ModelOptions, ModelOptions],
    llama_server_binary: Path,
    tmp_path: Path,
) -> None:
    """Its samplers come in the same order, and draw once for each token that is written."""
    config = Speculation(DraftSimple(draft_max=4))
    flags = server_arguments(*served_pair, CONTEXT, config, dialect=Dialect.LLAMA_CPP)
    log = tmp_path / "server.log"
    with LlamaServer(llama_server_binary, [*flags, "-np", "1"], log_path=log) as server:
        found = httpx.get(
            f"{server.base_url}/props",
            headers={"Authorization": f"Bearer {server.api_key}"},
            timeout=60,
        )
        theirs = found.json()["default_generation_settings"]["params"]
        ours = SamplingConfig()
        given = {"temperature": ours.temp, "top_k": ours.top_k, "top_p": ours.top_p}
        given["min_p"] = ours.min_p
        assert {name: theirs[name] for name in given} == pytest.approx(given)
        for prompt, seed in zip(tokens_of(served_engine)[:2], (0, 7), strict=True):
            command = Generate(
                prompt=prompt,
                n_predict=N_PREDICT,
                sampling=SamplingConfig(seed=seed),
                speculation=config,
            )
            one, other = run_both(served_engine, server, command)
            assert one == in_turns(served_engine, command) == other
            assert one.n_accepted > 0


@pytest.mark.ci
@pytest.mark.models
def test_prompts_are_rendered_and_tokenized_as_the_server_does(
    served_engine: Engine,
    served_pair: tuple[ModelOptions, ModelOptions],
    llama_server_binary: Path,
    tmp_path: Path,
) -> None:
    flags = server_arguments(served_pair[0], None, CONTEXT, None, dialect=Dialect.LLAMA_CPP)
    log = tmp_path / "server.log"
    with LlamaServer(llama_server_binary, flags, log_path=log) as server:
        for prompt, ours in zip(PROMPTS, tokens_of(served_engine), strict=True):
            messages = [ChatMessage(role=m.role, content=m.content) for m in prompt.messages]
            assert ours == tuple(server.tokenize(server.apply_template(messages)))


@pytest.mark.parametrize(
    ("target", "context"),
    [
        ({}, {}),
        ({"cpu_moe": True, "mmap": False}, {"flash_attn": FlashAttention.OFF}),
        ({"n_cpu_moe": 1, "n_gpu_layers": 0}, {"batch_size": 128, "ubatch_size": 64}),
        (
            {
                "override_tensor": (TensorOverride(pattern="ffn_up", buffer="CPU"),),
                "cache_type_k": "q8_0",
                "cache_type_v": "q8_0",
            },
            {"flash_attn": FlashAttention.ON, "threads_batch": 1, "swa_full": True},
        ),
    ],
)
def test_exported_flags_are_accepted_and_the_server_answers(
    tiny: TinyPath,
    llama_server_binary: Path,
    tmp_path: Path,
    target: dict[str, object],
    context: dict[str, object],
) -> None:
    flags = server_arguments(
        ModelOptions(path=tiny(TARGET), **target),  # type: ignore[arg-type]
        ModelOptions(path=tiny(CLOSE_DRAFT)),
        ContextOptions(**{"ctx_size": 512, "threads": 1, **context}),  # type: ignore[arg-type]
        Speculation(DraftSimple(draft_max=5, draft_min=1, draft_p_min=0.05)),
        dialect=Dialect.LLAMA_CPP,
    )
    log = tmp_path / "server.log"
    with LlamaServer(llama_server_binary, flags, log_path=log) as server:
        completion = server.complete("one ring", n_predict=16, ignore_eos=True)
    assert completion.n_predicted == 16
    assert completion.n_drafted > 0


def test_a_slot_holds_no_more_than_the_model_was_trained_for_here_and_there(
    tiny: TinyPath, llama_server_binary: Path, tmp_path: Path
) -> None:
    trained = KvOverride(key="llama.context_length", value=64)
    target = ModelOptions(path=tiny(TARGET), override_kv=(trained,))
    context = ContextOptions(ctx_size=256, threads=1)
    prompt = tuple(range(20, 50))
    flags = server_arguments(target, None, context, None, dialect=Dialect.LLAMA_CPP)
    with (
        Engine() as engine,
        LlamaServer(
            llama_server_binary, [*flags, "-np", "1"], log_path=tmp_path / "server.log"
        ) as server,
    ):
        loaded = engine.load_target(target, context, max_draft=1)
        ours = engine.generate(Generate(prompt=prompt, sampling=ENDLESS))
        theirs = server.complete(prompt, n_predict=-1, ignore_eos=True)
        assert loaded.n_ctx == server.identity().n_ctx == 64
        assert ours.tokens == theirs.tokens
