"""Seconds of prompts, by the target and by what drafts."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from spectui.engine.commands import Generate, GeneratePair
from spectui.engine.driver import Engine
from spectui.options.drafters import DraftMtp, DraftSimple, NgramSimple
from spectui.options.speculation import Speculation
from tests.support.engine import ARCHITECTURES, ENDLESS, engine_with, local_worker

NGRAM = NgramSimple(size_n=3, size_m=6)
PROMPT = tuple(range(40, 240))
"""Longer than a batch: MTP layers read its beginning while the target goes on."""


@pytest.fixture(scope="module", params=ARCHITECTURES)
def architecture(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def engine(architecture: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with engine_with(architecture, tmp_path_factory.mktemp(architecture)) as started:
        yield started


def drafting(architecture: str) -> list[Speculation | None]:
    own = Speculation(DraftMtp(draft_max=3) if architecture == "qwen35" else DraftSimple())
    return [None, own, Speculation(NGRAM), own.after([NGRAM])]


def new_prompt(engine: Engine, architecture: str) -> Generate:
    local_worker(engine).models.prompts.clear()
    own = drafting(architecture)[1]
    return Generate(
        prompt=PROMPT, n_predict=6, sampling=ENDLESS, speculation=own, reuse_prompt=True
    )


def test_a_prompt_tells_what_target_and_draft_took_of_it(engine: Engine, architecture: str) -> None:
    wanted = new_prompt(engine, architecture)
    # N-gram drafters take no time.
    for speculation in (None, Speculation(NGRAM)):
        alone = engine.generate(replace(wanted, speculation=speculation, reuse_prompt=False))
        assert (alone.n_evaluated, alone.n_read, alone.prompt_draft_s) == (len(PROMPT), 0, 0)
    result = engine.generate(replace(wanted, reuse_prompt=False))
    assert (result.n_evaluated, result.n_read) == (len(PROMPT), len(PROMPT))
    assert 0 < (result.prompt_draft_s or 0) < result.prompt_s
    # The draft may read what the target has evaluated before.
    engine.generate(replace(wanted, speculation=None))
    result = engine.generate(wanted)
    assert result.n_read == len(PROMPT)
    assert (result.prompt_draft_s or 0) > 0
    # MTP layers read what the target makes of a prompt: it has to evaluate it for them.
    assert result.n_evaluated == (len(PROMPT) if architecture == "qwen35" else 0)
    again = engine.generate(wanted)
    assert (again.n_evaluated, again.n_read, again.prompt_draft_s) == (0, 0, 0)


def test_both_sides_of_a_pair_add_up(engine: Engine, architecture: str) -> None:
    done = engine.generate_pair(
        GeneratePair(speculative=new_prompt(engine, architecture), baseline_first=True)
    )
    off, on = done.baseline, done.speculative
    assert on.prompt_draft_s is not None
    assert off.prompt_s + on.prompt_draft_s == pytest.approx(on.prompt_s)
    assert (off.n_evaluated, off.n_read, off.prompt_draft_s) == (len(PROMPT), 0, 0)
