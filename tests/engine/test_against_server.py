"""The engine beside the real llama-server: same prompt, same drafts, same output, same flags."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from spectui.commands.arguments import server_arguments
from spectui.demo import DemoModel, ensure_demo_models
from spectui.engine.commands import Generate, LoadTarget, Tokenize
from spectui.engine.driver import Engine
from spectui.options.drafters import (
    DraftMtp,
    DraftSimple,
    NgramCache,
    NgramMapK,
    NgramMapK4V,
    NgramMod,
    NgramSimple,
)
from spectui.options.option import Dialect
from spectui.options.setup import (
    ContextOptions,
    KvOverride,
    ModelOptions,
    SamplingConfig,
)
from spectui.options.speculation import Speculation
from spectui.server.client import ChatMessage
from spectui.server.process import LlamaServer
from tests.support.architectures import WRITERS, write_lfm2, write_mamba, write_pair, write_qwen35
from tests.support.beside_server import (
    CONTEXT,
    N_PREDICT,
    PROMPTS,
    in_turns,
    run_both,
    tokens_of,
    told,
)
from tests.support.engine import ENDLESS, local_engine, small_context
from tests.support.models import CLOSE_DRAFT, TARGET, Tiny, TinyPath, write_tiny
from tests.support.rounds import first_alone

pytest_plugins = ["tests.support.fixtures"]
pytestmark = pytest.mark.server

Start = Callable[..., LlamaServer]
Prompt = tuple[int, ...]

# Prompts of tiny models.
NUMBERS = ((88, 102, 126, 263, 261, 109, 271) * 4, tuple(range(40, 90)))
SHORT = (NUMBERS[0], NUMBERS[1][:30])
WARM = SamplingConfig(temp=0.8, seed=7, ignore_eos=True)


@pytest.fixture
def start(llama_server_binary: Path, tmp_path: Path) -> Start:
    """Start a server with the flags that are exported for models and speculation."""

    def started(
        target: ModelOptions,
        draft: ModelOptions | None = None,
        context: ContextOptions = CONTEXT,
        config: Speculation | None = None,
    ) -> LlamaServer:
        flags = server_arguments(target, draft, context, config, dialect=Dialect.LLAMA_CPP)
        log = tmp_path / "server.log"
        return LlamaServer(llama_server_binary, [*flags, "-np", "1"], log_path=log)

    return started


# Every kind of target and of drafter, on tiny models


def writing(
    target: Callable[[Tiny, Path], None], draft: Callable[[Tiny, Path], None] | None = None
) -> Callable[[Path], list[Path]]:
    """Write a target and its draft."""

    def write(folder: Path) -> list[Path]:
        target(Tiny(), folder / "target.gguf")
        if draft is None:
            return [folder / "target.gguf"]
        draft(Tiny(noise=0.05), folder / "draft.gguf")
        return [folder / "target.gguf", folder / "draft.gguf"]

    return write


def mtp_file(arch: str) -> Callable[[Path], list[Path]]:
    return lambda folder: list(write_pair(arch, folder))


@dataclass(frozen=True, kw_only=True)
class Case:
    write: Callable[[Path], list[Path]]
    config: Speculation
    sampling: SamplingConfig = ENDLESS
    target: dict[str, Any] = field(default_factory=dict)
    prompts: tuple[Prompt, ...] = SHORT
    is_redone: bool = False
    """Whether tokens are decoded again, where a target cannot simply forget."""


MODEL = Speculation(DraftSimple(draft_max=4))
SIMPLE = NgramSimple(size_n=1, size_m=9)
MAP = Speculation(NgramMapK(size_n=1, size_m=9, min_hits=1))
MOD = NgramMod(n_match=1, n_min=0, n_max=20)
MTP = Speculation(DraftMtp(draft_max=2))
FLOOR = Speculation(DraftMtp(draft_max=4, draft_min=2, draft_p_min=0.44))
"""No probability is within a thousandth of it: rounding moves less."""

FORGETFUL = {
    "hybrid, draft": (writing(write_lfm2, write_tiny), MODEL),
    "hybrid, hybrid draft": (writing(write_lfm2, write_lfm2), MODEL),
    "recurrent, draft": (writing(write_mamba, write_tiny), MODEL),
    "recurrent, recurrent draft": (writing(write_mamba, write_mamba), MODEL),
    "hybrid, n-grams": (writing(write_lfm2), Speculation(SIMPLE)),
    "recurrent, n-grams": (writing(write_mamba), MAP),
    "hybrid, n-grams and draft": (writing(write_lfm2, write_tiny), MODEL.after((SIMPLE, MOD))),
    "MTP layers unused, n-grams": (writing(write_qwen35), MAP),
    # Drafts of n-grams are longer than there are snapshots.
    "MTP layers, n-grams": (
        writing(write_qwen35),
        Speculation(DraftMtp(draft_max=4)).after((MOD,)),
    ),
}
DRAWN = replace(ENDLESS, temp=0.1, seed=5)
LAYERS = {
    **{f"MTP layers of {arch}": writing(write) for arch, write in WRITERS.items()},
    **{f"MTP file of {arch}": mtp_file(arch) for arch in (*WRITERS, "gemma4")},
}


def cases() -> Iterator[Any]:
    for name, (write, config) in FORGETFUL.items():
        case = Case(write=write, config=config, is_redone=True)
        yield pytest.param(replace(case, sampling=DRAWN, prompts=SHORT[:1]), id=name)
        yield pytest.param(case, id=f"{name}, greedy", marks=pytest.mark.long)
    for name, write in LAYERS.items():
        case = Case(write=write, config=FLOOR, sampling=WARM, prompts=NUMBERS[:1])
        yield pytest.param(case, id=name)
        case = Case(write=write, config=MTP, prompts=NUMBERS)
        yield pytest.param(case, id=f"{name}, greedy", marks=pytest.mark.long)
    case = Case(write=writing(write_qwen35), config=Speculation(DraftMtp(draft_max=3)))
    types = {"cache_type_k_mtp": "q4_0", "cache_type_v_mtp": "q4_0"}
    yield pytest.param(replace(case, target=types), id="quantised cache of MTP layers")


@pytest.mark.parametrize("case", cases())
def test_drafts_and_output_of_any_architecture_equal_the_servers(
    start: Start, tmp_path: Path, case: Case
) -> None:
    target, *drafts = (ModelOptions(path=path) for path in case.write(tmp_path))
    target, config, context = replace(target, **case.target), case.config, small_context()
    draft, n_accepted, n_redone = next(iter(drafts), None), 0, 0
    with local_engine() as engine:
        engine.load_target(
            LoadTarget(
                options=target,
                context=context,
                max_draft=config.longest,
                mtp=config.is_mtp and draft is None,
                mtp_file=config.is_mtp and draft is not None,
            )
        )
        if draft is not None:
            engine.load_draft(draft, mtp=config.is_mtp)
        for prompt in case.prompts:
            command = Generate(
                prompt=prompt, n_predict=48, sampling=case.sampling, speculation=config
            )
            # A server goes on from what it learned, and from the last hidden state.
            with start(target, draft, context, config) as server:
                ours, theirs = run_both(engine, server, command)
            assert ours == theirs
            if case.is_redone:
                assert ours == in_turns(engine, command)
            n_accepted += theirs.n_accepted
            n_redone += engine.generate(command).counters.n_redone
    assert (n_redone if case.is_redone else n_accepted) > 0


# A pair whose draft is often wrong, loaded once


@dataclass(frozen=True, kw_only=True)
class Served:
    """A pair in the engine, and as a server is started with it."""

    engine: Engine
    target: ModelOptions
    draft: ModelOptions

    def prompts(self) -> list[Prompt]:
        text = "one two three four five six seven. " * 8
        return [self.engine.tokenize(Tokenize(text=text)), *tokens_of(self.engine)]


@contextmanager
def serving(target: Path, draft: Path) -> Iterator[Served]:
    served = ModelOptions(path=target), ModelOptions(path=draft)
    with local_engine() as engine:
        engine.load_target(LoadTarget(options=served[0], context=CONTEXT, max_draft=16))
        engine.load_draft(served[1])
        yield Served(engine=engine, target=served[0], draft=served[1])


@pytest.fixture(scope="module")
def served(tiny: TinyPath) -> Iterator[Served]:
    with serving(tiny(TARGET), tiny(CLOSE_DRAFT)) as found:
        yield found


@pytest.fixture(scope="module")
def real() -> Iterator[Served]:
    """SmolLM2 and a thinned one."""
    built = ensure_demo_models((DemoModel.DRAFT, DemoModel.DRAFT_THIN))
    with serving(built[DemoModel.DRAFT], built[DemoModel.DRAFT_THIN]) as found:
        yield found


def assert_alike(served: Served, start: Start, prompts: list[Prompt], command: Generate) -> None:
    """Output and counts are the same, with a server for each prompt."""
    n_drafted = 0
    for prompt in prompts:
        asked = replace(command, prompt=prompt)
        with start(served.target, served.draft, CONTEXT, command.speculation) as server:
            ours, theirs = run_both(served.engine, server, asked)
        assert ours == in_turns(served.engine, asked) == theirs
        n_drafted += theirs.n_drafted
    assert n_drafted > 0


CHAINED = Speculation(DraftSimple(draft_max=3, draft_p_min=0.3))
TWO = NgramSimple(size_n=2, size_m=6)
OFTEN = NgramMapK(size_n=2, size_m=8, min_hits=1)
LOOSE = NgramMod(n_match=2, n_min=0, n_max=12)
ALONE = [
    Speculation(NgramSimple(size_n=3, size_m=12)),
    Speculation(NgramMapK(size_n=2, size_m=8)),
    Speculation(NgramMapK4V(size_n=3, size_m=6, min_hits=2)),
    Speculation(LOOSE),
    Speculation(NgramMod(n_match=4, n_min=3, n_max=16)),
    Speculation(NgramCache()),
]
IN_A_ROW = [
    CHAINED.after([OFTEN, NgramCache()]),
    Speculation(LOOSE, (TWO, OFTEN)),
    CHAINED.after([TWO, OFTEN, LOOSE, NgramCache()]),
]


@pytest.mark.parametrize("config", [*ALONE, *IN_A_ROW], ids=str)
def test_ngrams_equal_those_of_a_fresh_server(
    served: Served, start: Start, config: Speculation
) -> None:
    """A measurement must not learn from the one before, and a server does."""
    n_prompts = 2 if config in IN_A_ROW else 1
    command = Generate(prompt=(), n_predict=2 * N_PREDICT, speculation=config)
    assert_alike(served, start, served.prompts()[:n_prompts], command)


@pytest.mark.parametrize("own", [OFTEN, LOOSE, NgramCache()], ids=lambda own: own.kind)
def test_turns_of_a_chat_learn_from_each_other_as_the_servers_do(
    served: Served, start: Start, own: NgramMapK | NgramMod | NgramCache
) -> None:
    config, n_drafted = Speculation(own), 0
    with local_engine() as engine, start(served.target, None, CONTEXT, config) as server:
        engine.load_target(LoadTarget(options=served.target, context=CONTEXT, max_draft=16))
        text = engine.tokenize(Tokenize(text="one two three four five six seven. " * 6))
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


@pytest.mark.ci
@pytest.mark.models
@pytest.mark.parametrize(
    "config",
    first_alone(
        [
            DraftSimple(draft_max=8, draft_min=2, draft_p_min=0.4),
            DraftSimple(draft_max=3),
            DraftSimple(draft_max=16, draft_p_min=0.75),
        ]
    ),
)
def test_drafts_and_output_of_real_models_equal_the_servers(
    real: Served, start: Start, config: DraftSimple
) -> None:
    command = Generate(prompt=(), n_predict=N_PREDICT, speculation=Speculation(config))
    assert_alike(real, start, real.prompts()[1:2], command)


@pytest.mark.long
@pytest.mark.models
def test_prompts_and_what_is_drawn_equal_the_servers(real: Served, start: Start) -> None:
    """Samplers come in the same order, and draw once for each token that is written."""
    config, ours = Speculation(DraftSimple(draft_max=4)), SamplingConfig()
    prompts = tokens_of(real.engine)
    with start(real.target, real.draft, CONTEXT, config) as server:
        authorization = {"Authorization": f"Bearer {server.api_key}"}
        found = httpx.get(f"{server.base_url}/props", headers=authorization, timeout=60).json()
        theirs = found["default_generation_settings"]["params"]
        given = {name: getattr(ours, name) for name in ("top_k", "top_p", "min_p")}
        given["temperature"] = ours.temp
        assert {name: theirs[name] for name in given} == pytest.approx(given)
        for prompt, tokens in zip(PROMPTS, prompts, strict=True):
            messages = [ChatMessage(role=m.role, content=m.content) for m in prompt.messages]
            assert tokens == tuple(server.tokenize(server.apply_template(messages)))
        for tokens, seed in zip(prompts[:2], (0, 7), strict=True):
            sampling = SamplingConfig(seed=seed)
            command = Generate(
                prompt=tokens, n_predict=N_PREDICT, sampling=sampling, speculation=config
            )
            one, other = run_both(real.engine, server, command)
            assert one == in_turns(real.engine, command) == other
            assert one.n_accepted > 0


def test_a_slot_holds_no_more_than_the_model_was_trained_for_here_and_there(
    served: Served, start: Start
) -> None:
    trained = KvOverride(key="llama.context_length", value=64)
    target, context = replace(served.target, override_kv=(trained,)), small_context(256)
    prompt = tuple(range(20, 50))
    with local_engine() as engine, start(target, None, context) as server:
        loaded = engine.load_target(LoadTarget(options=target, context=context, max_draft=1))
        ours = engine.generate(Generate(prompt=prompt, sampling=ENDLESS))
        theirs = server.complete(prompt, n_predict=-1, ignore_eos=True)
        settings = told(server, "/props")["default_generation_settings"]
        assert loaded.n_ctx == settings["n_ctx"] == 64
    assert ours.tokens == theirs.tokens
