"""N-gram drafters beside the real llama-server: same drafts, same output, same flags."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from spectui.config import (
    ModelOptions,
    NgramConfig,
    NgramKind,
    SpeculationConfig,
    ngram_setting,
)
from spectui.engine.commands import Generate, Tokenize
from spectui.engine.driver import Engine
from spectui.export import Dialect, server_arguments
from spectui.server import LlamaServer
from tests.support.beside_server import CONTEXT, N_PREDICT, tokens_of

pytest_plugins = ["tests.support.fixtures", "tests.support.beside_server_fixtures"]
pytestmark = [pytest.mark.models, pytest.mark.server]


def assert_equal(
    engine: Engine, server: LlamaServer, prompt: Sequence[int], config: SpeculationConfig
) -> int:
    """Output and counts are the same; return how many tokens were drafted."""
    theirs = server.complete(prompt, n_predict=2 * N_PREDICT)
    ours = engine.generate(
        Generate(prompt=tuple(prompt), n_predict=2 * N_PREDICT, speculation=config)
    )
    assert ours.tokens == theirs.tokens
    counts = (ours.counters.n_drafted, ours.counters.n_accepted)
    assert counts == (theirs.n_drafted, theirs.n_accepted)
    return theirs.n_drafted


@pytest.mark.parametrize(
    "config",
    [
        SpeculationConfig(draft_max=4, ngram=NgramConfig(size_n=2)),
        SpeculationConfig(draft_max=12, ngram=NgramConfig(size_n=3)),
        SpeculationConfig(draft_max=16, ngram=NgramConfig(size_n=12)),
    ],
)
def test_ngram_drafts_and_output_equal_the_servers(
    served_engine: Engine,
    served_pair: tuple[ModelOptions, ModelOptions],
    llama_server_binary: Path,
    tmp_path: Path,
    config: SpeculationConfig,
) -> None:
    flags = server_arguments(served_pair[0], None, CONTEXT, config, dialect=Dialect.LLAMA_CPP)
    repetitive = served_engine.tokenize(Tokenize(text="one two three four five six seven. " * 8))
    log = tmp_path / "server.log"
    n_drafted = 0
    with LlamaServer(llama_server_binary, [*flags, "-np", "1"], log_path=log) as server:
        for prompt in (repetitive, *tokens_of(served_engine)):
            n_drafted += assert_equal(served_engine, server, prompt, config)
    assert n_drafted > 0


@pytest.mark.parametrize(
    "config",
    [
        SpeculationConfig(draft_max=8, ngram=NgramConfig(kind=NgramKind.MAP_K, size_n=2)),
        SpeculationConfig(draft_max=4, ngram=NgramConfig(kind=NgramKind.MAP_K, size_n=3)),
        SpeculationConfig(draft_max=4, ngram=NgramConfig(kind=NgramKind.MAP_K4V, size_n=2)),
        SpeculationConfig(
            draft_max=6, ngram=NgramConfig(kind=NgramKind.MAP_K4V, size_n=3, min_hits=2)
        ),
        SpeculationConfig(draft_max=12, ngram=NgramConfig(kind=NgramKind.MOD, n_match=2, n_min=0)),
        SpeculationConfig(draft_max=16, ngram=NgramConfig(kind=NgramKind.MOD, n_match=4, n_min=3)),
        SpeculationConfig(draft_max=8, ngram=NgramConfig(kind=NgramKind.CACHE)),
    ],
)
def test_drafters_that_remember_equal_those_of_a_fresh_server(
    served_engine: Engine,
    served_pair: tuple[ModelOptions, ModelOptions],
    llama_server_binary: Path,
    tmp_path: Path,
    config: SpeculationConfig,
) -> None:
    flags = server_arguments(served_pair[0], None, CONTEXT, config, dialect=Dialect.LLAMA_CPP)
    repetitive = served_engine.tokenize(Tokenize(text="one two three four five six seven. " * 8))
    log = tmp_path / "server.log"
    n_drafted = 0
    for prompt in (repetitive, *tokens_of(served_engine)[:2]):
        # A measurement must not learn from the one before, and a server does.
        with LlamaServer(llama_server_binary, [*flags, "-np", "1"], log_path=log) as server:
            n_drafted += assert_equal(served_engine, server, prompt, config)
    assert n_drafted > 0


def ngram(kind: NgramKind, **options: int) -> SpeculationConfig:
    return ngram_setting(kind, options)


SIMPLE = ngram(NgramKind.SIMPLE, size_n=2, size_m=6)
MAP_K = ngram(NgramKind.MAP_K, size_n=2, size_m=8, min_hits=1)
MOD = ngram(NgramKind.MOD, n_match=2, n_min=0, n_max=12)
CACHE = ngram(NgramKind.CACHE)
MODEL = SpeculationConfig(draft_max=3, draft_p_min=0.3)


@pytest.mark.parametrize(
    "config",
    [
        MODEL.after([SIMPLE]),
        MODEL.after([MAP_K, CACHE]),
        MODEL.after([MOD]),
        MOD.after([SIMPLE, MAP_K]),
        MODEL.after([SIMPLE, MAP_K, MOD, CACHE]),
    ],
    ids=lambda config: "+".join([*config.ngrams, "model" * config.has_model]),
)
def test_drafters_in_a_row_take_turns_as_the_servers_do(
    served_engine: Engine,
    served_pair: tuple[ModelOptions, ModelOptions],
    llama_server_binary: Path,
    tmp_path: Path,
    config: SpeculationConfig,
) -> None:
    flags = server_arguments(*served_pair, CONTEXT, config, dialect=Dialect.LLAMA_CPP)
    repetitive = served_engine.tokenize(Tokenize(text="one two three four five six seven. " * 8))
    log = tmp_path / "server.log"
    n_drafted = 0
    for prompt in (repetitive, *tokens_of(served_engine)[:2]):
        with LlamaServer(llama_server_binary, [*flags, "-np", "1"], log_path=log) as server:
            n_drafted += assert_equal(served_engine, server, prompt, config)
    assert n_drafted > 0


@pytest.mark.parametrize("config", [MAP_K, MOD, CACHE], ids=lambda config: config.kind)
def test_turns_of_a_chat_learn_from_each_other_as_the_servers_do(
    served_pair: tuple[ModelOptions, ModelOptions],
    llama_server_binary: Path,
    tmp_path: Path,
    config: SpeculationConfig,
) -> None:
    flags = server_arguments(served_pair[0], None, CONTEXT, config, dialect=Dialect.LLAMA_CPP)
    log = tmp_path / "server.log"
    with (
        Engine() as engine,
        LlamaServer(llama_server_binary, [*flags, "-np", "1"], log_path=log) as server,
    ):
        engine.load_target(served_pair[0], CONTEXT, max_draft=16)
        text = engine.tokenize(Tokenize(text="one two three four five six seven. " * 6))
        learnt: list[tuple[int, int]] = []
        for _turn in range(3):
            theirs = server.complete(text, n_predict=N_PREDICT, cache_prompt=True)
            ours = engine.generate(
                Generate(prompt=text, n_predict=N_PREDICT, speculation=config, conversation=True)
            )
            assert ours.tokens == theirs.tokens
            learnt.append((ours.counters.n_drafted, ours.counters.n_accepted))
            assert learnt[-1] == (theirs.n_drafted, theirs.n_accepted)
            # What was said is the beginning of the next turn.
            text = (*text, *ours.tokens, *engine.tokenize(Tokenize(text=" one two three")))
    assert sum(n_drafted for n_drafted, _ in learnt) > 0
