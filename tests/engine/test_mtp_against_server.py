"""MTP beside the real llama-server: same drafts, same output, same flags."""

import json
import shlex
from pathlib import Path

import pytest

from spectui.commands.arguments import server_arguments
from spectui.engine.commands import Generate
from spectui.engine.driver import Engine
from spectui.options.dialect import Dialect
from spectui.options.drafters import DraftMtp
from spectui.options.setup import ModelOptions, SamplingConfig
from spectui.options.speculation import Speculation
from spectui.server import LlamaServer
from tests.support.cli import Spectui
from tests.support.engine import ENDLESS, small_context
from tests.support.models import Tiny
from tests.support.mtp import WRITERS

pytest_plugins = ["tests.support.fixtures", "tests.support.cli_fixtures"]
pytestmark = pytest.mark.server

N_PREDICT = 60
WARM = SamplingConfig(temp=0.8, seed=7, ignore_eos=True)
PROMPTS = ((88, 102, 126, 263, 261, 109, 271) * 4, tuple(range(40, 90)))


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
@pytest.mark.parametrize(
    "sampling", [pytest.param(ENDLESS, marks=pytest.mark.ci), WARM], ids=["greedy", "warm"]
)
@pytest.mark.parametrize("arch", WRITERS)
def test_drafts_and_output_equal_the_servers(
    llama_server_binary: Path,
    tmp_path: Path,
    arch: str,
    config: Speculation,
    sampling: SamplingConfig,
) -> None:
    target, context = ModelOptions(path=tmp_path / "target.gguf"), small_context()
    WRITERS[arch](Tiny(), target.path)
    flags = server_arguments(target, None, context, config, dialect=Dialect.LLAMA_CPP)
    log = tmp_path / "server.log"
    n_accepted = 0
    with Engine() as engine:
        engine.load_target(target, context, max_draft=config.longest, mtp=True)
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


@pytest.mark.ci
@pytest.mark.parametrize("arch", WRITERS)
def test_what_tune_finds_is_a_command_that_the_server_takes(
    llama_server_binary: Path, spectui: Spectui, prompts: Path, tmp_path: Path, arch: str
) -> None:
    target = tmp_path / "target.gguf"
    WRITERS[arch](Tiny(), target)
    options = ["-m", target, "-c", 256, "-t", 1, "-n", 12, "--ignore-eos", "--prompts", prompts]
    searched = ["--temp", 0, "--spec-type", "draft-mtp", "--trials", 3, "--json", "-", "--quiet"]
    assert spectui("tune", *options, *searched) == 0, spectui.err
    document = json.loads(spectui.out)
    _program, *flags = shlex.split(document["best_command"])
    log = tmp_path / "server.log"
    with LlamaServer(llama_server_binary, [*flags, "-np", "1"], log_path=log) as server:
        theirs = server.complete(PROMPTS[0], n_predict=N_PREDICT, ignore_eos=True)
    if document["best"]["params"]["draft"] == "draft-mtp":
        assert theirs.n_drafted > 0
