"""N-gram drafters beside the real llama-server: same drafts, same output, same flags."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from spectui.commands.arguments import server_arguments
from spectui.engine.commands import Generate, Tokenize
from spectui.engine.driver import Engine
from spectui.options.dialect import Dialect
from spectui.options.drafters import (
    DraftSimple,
    NgramCache,
    NgramMapK,
    NgramMapK4V,
    NgramMod,
    NgramSimple,
)
from spectui.options.setup import ModelOptions
from spectui.options.speculation import Speculation
from spectui.server import LlamaServer
from tests.support.beside_server import CONTEXT, N_PREDICT, in_turns, run_both, tokens_of
from tests.support.models import CLOSE_DRAFT, TARGET, TinyPath

pytest_plugins = ["tests.support.fixtures", "tests.support.beside_server_fixtures"]
pytestmark = pytest.mark.server

Start = Callable[[Speculation], LlamaServer]


@pytest.fixture(scope="module")
def served_pair(tiny: TinyPath) -> tuple[ModelOptions, ModelOptions]:
    """Tiny models: drafters of n-grams see nothing of a model but its tokens."""
    return ModelOptions(path=tiny(TARGET)), ModelOptions(path=tiny(CLOSE_DRAFT))


@pytest.fixture
def start(
    served_pair: tuple[ModelOptions, ModelOptions], llama_server_binary: Path, tmp_path: Path
) -> Start:
    def started(config: Speculation) -> LlamaServer:
        flags = server_arguments(*served_pair, CONTEXT, config, dialect=Dialect.LLAMA_CPP)
        log = tmp_path / "server.log"
        return LlamaServer(llama_server_binary, [*flags, "-np", "1"], log_path=log)

    return started


@pytest.fixture(scope="module")
def prompts(served_engine: Engine) -> list[tuple[int, ...]]:
    repetitive = served_engine.tokenize(Tokenize(text="one two three four five six seven. " * 8))
    return [repetitive, *tokens_of(served_engine)]


def n_drafted_alike(
    engine: Engine, server: LlamaServer, prompt: tuple[int, ...], config: Speculation
) -> int:
    """Output and counts are the same; return how many tokens were drafted."""
    command = Generate(prompt=prompt, n_predict=2 * N_PREDICT, speculation=config)
    ours, theirs = run_both(engine, server, command)
    assert ours == in_turns(engine, command) == theirs
    return theirs.n_drafted


def n_drafted_beside_fresh_servers(
    engine: Engine, start: Start, prompts: Sequence[tuple[int, ...]], config: Speculation
) -> int:
    n_drafted = 0
    for prompt in prompts:
        # A measurement must not learn from the one before, and a server does.
        with start(config) as server:
            n_drafted += n_drafted_alike(engine, server, prompt, config)
    return n_drafted


@pytest.mark.parametrize(
    "config",
    [
        Speculation(NgramSimple(size_n=2, size_m=4)),
        Speculation(NgramSimple(size_n=3, size_m=12)),
        Speculation(NgramSimple(size_n=12, size_m=16)),
    ],
)
def test_ngram_drafts_and_output_equal_the_servers(
    served_engine: Engine,
    start: Start,
    prompts: list[tuple[int, ...]],
    config: Speculation,
) -> None:
    with start(config) as server:
        n_drafted = [
            n_drafted_alike(served_engine, server, prompt, config) for prompt in prompts[:2]
        ]
    assert sum(n_drafted) > 0


@pytest.mark.parametrize(
    "config",
    [
        Speculation(NgramMapK(size_n=2, size_m=8)),
        Speculation(NgramMapK(size_n=3, size_m=4)),
        Speculation(NgramMapK4V(size_n=2, size_m=4)),
        Speculation(NgramMapK4V(size_n=3, size_m=6, min_hits=2)),
        Speculation(NgramMod(n_match=2, n_min=0, n_max=12)),
        Speculation(NgramMod(n_match=4, n_min=3, n_max=16)),
        Speculation(NgramCache()),
    ],
)
def test_drafters_that_remember_equal_those_of_a_fresh_server(
    served_engine: Engine,
    start: Start,
    prompts: list[tuple[int, ...]],
    config: Speculation,
) -> None:
    assert n_drafted_beside_fresh_servers(served_engine, start, prompts[:1], config) > 0


SIMPLE = NgramSimple(size_n=2, size_m=6)
MAP_K = NgramMapK(size_n=2, size_m=8, min_hits=1)
MOD = NgramMod(n_match=2, n_min=0, n_max=12)
CACHE = NgramCache()
MODEL = Speculation(DraftSimple(draft_max=3, draft_p_min=0.3))


@pytest.mark.parametrize(
    "config",
    [
        MODEL.after([MAP_K, CACHE]),
        Speculation(MOD, (SIMPLE, MAP_K)),
        MODEL.after([SIMPLE, MAP_K, MOD, CACHE]),
    ],
    ids=lambda config: "+".join(one.label for one in config.chain),
)
def test_drafters_in_a_row_take_turns_as_the_servers_do(
    served_engine: Engine,
    start: Start,
    prompts: list[tuple[int, ...]],
    config: Speculation,
) -> None:
    assert n_drafted_beside_fresh_servers(served_engine, start, prompts[:2], config) > 0


@pytest.mark.parametrize(
    "config",
    [Speculation(MAP_K), Speculation(MOD), Speculation(CACHE)],
    ids=lambda one: one.own.kind,
)
def test_turns_of_a_chat_learn_from_each_other_as_the_servers_do(
    served_pair: tuple[ModelOptions, ModelOptions], start: Start, config: Speculation
) -> None:
    with Engine() as engine, start(config) as server:
        engine.load_target(served_pair[0], CONTEXT, max_draft=16)
        text = engine.tokenize(Tokenize(text="one two three four five six seven. " * 6))
        n_drafted = 0
        for _turn in range(3):
            command = Generate(
                prompt=text, n_predict=N_PREDICT, speculation=config, conversation=True
            )
            ours, theirs = run_both(engine, server, command)
            assert ours == theirs
            n_drafted += theirs.n_drafted
            # What was said is the beginning of the next turn.
            text = (*text, *ours.tokens, *engine.tokenize(Tokenize(text=" one two three")))
    assert n_drafted > 0
