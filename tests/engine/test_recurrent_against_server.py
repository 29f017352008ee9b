"""Targets that cannot simply forget, beside the real llama-server: same drafts, same output."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from spectui.commands.arguments import server_arguments
from spectui.engine.commands import Generate, GeneratePair
from spectui.engine.driver import Engine
from spectui.options.dialect import Dialect
from spectui.options.drafters import DraftMtp, DraftSimple, NgramMapK, NgramMod, NgramSimple
from spectui.options.setup import ModelOptions, SamplingConfig
from spectui.options.speculation import Speculation
from spectui.server import LlamaServer
from tests.support.engine import ENDLESS, small_context
from tests.support.models import Tiny, write_tiny
from tests.support.mtp import write_qwen35
from tests.support.recurrent import write_lfm2, write_mamba

pytest_plugins = ["tests.support.fixtures"]
pytestmark = pytest.mark.server

Write = Callable[[Tiny, Path], None]

N_PREDICT = 48
PROMPTS = ((88, 102, 126, 263, 261, 109, 271) * 4, tuple(range(40, 70)))
MODEL = Speculation(DraftSimple(draft_max=4))
SIMPLE = NgramSimple(size_n=1, size_m=9)
MAP = NgramMapK(size_n=1, size_m=9, min_hits=1)
MOD = NgramMod(n_match=1, n_min=0, n_max=20)
MTP = Speculation(DraftMtp(draft_max=4))


@dataclass(frozen=True, kw_only=True)
class Case:
    target: Write
    config: Speculation
    draft: Write | None = None


CASES = {
    "hybrid with a draft": Case(target=write_lfm2, draft=write_tiny, config=MODEL),
    "hybrid with a hybrid draft": Case(target=write_lfm2, draft=write_lfm2, config=MODEL),
    "recurrent with a draft": Case(target=write_mamba, draft=write_tiny, config=MODEL),
    "recurrent with a recurrent draft": Case(target=write_mamba, draft=write_mamba, config=MODEL),
    "hybrid with n-grams": Case(target=write_lfm2, config=Speculation(SIMPLE)),
    "recurrent with n-grams": Case(target=write_mamba, config=Speculation(MAP)),
    "hybrid with n-grams and a draft": Case(
        target=write_lfm2, draft=write_tiny, config=MODEL.after((SIMPLE, MOD))
    ),
    "hybrid with MTP layers and n-grams": Case(target=write_qwen35, config=Speculation(MAP)),
    # Drafts of n-grams are longer than there are snapshots.
    "MTP layers after n-grams": Case(target=write_qwen35, config=MTP.after((MOD,))),
}


@pytest.mark.parametrize(
    "sampling",
    [pytest.param(ENDLESS, marks=pytest.mark.ci), replace(ENDLESS, temp=0.1, seed=5)],
    ids=["greedy", "drawn"],
)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_drafts_and_output_equal_the_servers(
    llama_server_binary: Path, tmp_path: Path, case: Case, sampling: SamplingConfig
) -> None:
    target, context = ModelOptions(path=tmp_path / "target.gguf"), small_context()
    case.target(Tiny(), target.path)
    draft = None
    if case.draft is not None:
        draft = ModelOptions(path=tmp_path / "draft.gguf")
        case.draft(Tiny(noise=0.05), draft.path)
    flags = server_arguments(target, draft, context, case.config, dialect=Dialect.LLAMA_CPP)
    log, n_redone = tmp_path / "server.log", 0
    with Engine() as engine:
        longest = case.config.longest
        engine.load_target(target, context, max_draft=longest, mtp=case.config.is_mtp)
        if draft is not None:
            engine.load_draft(draft)
        for prompt in PROMPTS:
            # What a server learns from one prompt it uses in the next.
            with LlamaServer(llama_server_binary, [*flags, "-np", "1"], log_path=log) as server:
                theirs = server.complete(
                    prompt,
                    n_predict=N_PREDICT,
                    temperature=sampling.temp,
                    seed=sampling.seed,
                    ignore_eos=True,
                )
            command = Generate(
                prompt=prompt, n_predict=N_PREDICT, sampling=sampling, speculation=case.config
            )
            pair = GeneratePair(speculative=command, baseline_first=True, segment_s=0.0)
            for ours in (engine.generate(command), engine.generate_pair(pair).speculative):
                assert ours.tokens == theirs.tokens
                counts = (ours.counters.n_drafted, ours.counters.n_accepted)
                assert counts == (theirs.n_drafted, theirs.n_accepted)
                n_redone += ours.counters.n_redone
    assert n_redone > 0
