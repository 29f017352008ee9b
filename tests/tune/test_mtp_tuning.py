"""Targets that draft for themselves, recorded and tuned: what replays say is what happens."""

import json
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spectui.engine.commands import Generate, LoadTarget, RecordChains
from spectui.engine.driver import Engine
from spectui.engine.events import PromptEvaluated
from spectui.engine.prompt_store import PromptStore
from spectui.errors import UsageError
from spectui.llama.model import Model
from spectui.llama.mtp import MtpContext
from spectui.llama.pair import TargetContext
from spectui.options.drafters import MTP_KIND, DraftMtp, NgramSimple
from spectui.options.setup import ModelOptions
from spectui.options.speculation import Speculation
from spectui.speculative.models import Outputs, Rollback
from spectui.trace.ngrams import replay_settings
from spectui.trace.record import Recording
from spectui.trace.replay import Grid, replay_trace
from tests.support.architectures import WRITERS, write_pair
from tests.support.cli import Spectui
from tests.support.engine import ENDLESS, local_engine, small_context
from tests.support.models import CLOSE_DRAFT, OTHER, TARGET, Tiny, TinyPath

pytest_plugins = ("tests.support.fixtures", "tests.support.cli_fixtures")
pytestmark = [pytest.mark.ci, pytest.mark.slow]

MAX_DRAFT = 8
PROMPTS = ((88, 102, 126, 263, 261, 109, 271) * 4, tuple(range(40, 90)))
# No probability is within a thousandth of this floor: rounding moves less.
GRID = Grid(draft_max=(1, 2, 3, 8), draft_min=(0, 2), draft_p_min=(0.0, 0.44))
NGRAM = NgramSimple(size_n=2, size_m=6)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("mtp")
    for name, write in WRITERS.items():
        write(Tiny(), found / f"{name}.gguf")
    return found


@pytest.fixture(scope="module", params=[*WRITERS, "gemma4"])
def engine(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Engine]:
    """Has loaded a target with its own MTP layers; Gemma's are in a file of their own."""
    context = small_context()
    with local_engine() as started:
        if request.param == "gemma4":
            pair = write_pair(request.param, tmp_path_factory.mktemp("pair"))
            target, draft = (ModelOptions(path=path) for path in pair)
            started.load_target(
                LoadTarget(options=target, context=context, max_draft=MAX_DRAFT, mtp_file=True)
            )
            started.load_draft(draft, mtp=True)
        else:
            target = ModelOptions(path=folder / f"{request.param}.gguf")
            started.load_target(
                LoadTarget(options=target, context=context, max_draft=MAX_DRAFT, mtp=True)
            )
        yield started


@pytest.fixture
def rollback(request: pytest.FixtureRequest) -> Rollback:
    """How the loaded target forgets."""
    is_hybrid = request.node.callspec.params["engine"] == "qwen35"
    return Rollback.SNAPSHOT if is_hybrid else Rollback.TRUNCATE


def recorded(engine: Engine, rollback: Rollback, command: Generate) -> Recording:
    plain = engine.generate(command)
    told = engine.record_chains(
        RecordChains(
            prompt=command.prompt,
            output=plain.tokens,
            depth=MAX_DRAFT,
            reuse_prompt=command.reuse_prompt,
            mtp=True,
        )
    )
    return Recording(
        id="x",
        category="code",
        prompt=command.prompt,
        output=plain.tokens,
        stop=plain.stop,
        n_predict=command.n_predict,
        n_ctx=512,
        chains={MTP_KIND: told.chains},
        rollback=rollback,
    )


@pytest.mark.parametrize("reuse_prompt", [False, True], ids=["fresh", "reused"])
@pytest.mark.parametrize("prompt", PROMPTS, ids=len)
def test_a_recording_predicts_every_setting(
    engine: Engine, rollback: Rollback, prompt: tuple[int, ...], *, reuse_prompt: bool
) -> None:
    command = Generate(prompt=prompt, n_predict=48, sampling=ENDLESS, reuse_prompt=reuse_prompt)
    recording = recorded(engine, rollback, command)
    totals = replay_trace((recording,), MTP_KIND, GRID)
    chained = [total.speculation.after((NGRAM,)) for total in totals[:2]]
    n_accepted = 0
    for total in (*totals, *replay_settings((recording,), chained, draft=MTP_KIND)):
        drafting = replace(command, speculation=total.speculation)
        result = engine.generate(drafting)
        assert result.tokens == recording.output
        for name in ("n_rounds", "n_drafted", "n_accepted", "n_rejections"):
            assert getattr(total, name) == getattr(result.counters, name), (name, drafting)
        n_accepted += result.counters.n_accepted
    assert n_accepted > 0


def test_a_full_context_is_predicted(folder: Path) -> None:
    with local_engine() as engine:
        options = ModelOptions(path=folder / "glm4moe.gguf")
        loaded = engine.load_target(
            LoadTarget(options=options, context=small_context(64), max_draft=MAX_DRAFT, mtp=True)
        )
        command = Generate(prompt=PROMPTS[0], sampling=ENDLESS)
        recording = replace(recorded(engine, loaded.rollback, command), n_ctx=loaded.n_ctx)
        for total in replay_trace((recording,), MTP_KIND, GRID):
            result = engine.generate(replace(command, speculation=total.speculation))
            assert total.n_drafted == result.counters.n_drafted
            assert total.n_accepted == result.counters.n_accepted


def test_a_recording_leaves_the_chat_alone(engine: Engine) -> None:
    drafting = Speculation(DraftMtp(draft_max=2))
    turn = Generate(
        prompt=PROMPTS[0], n_predict=10, sampling=ENDLESS, conversation=True, speculation=drafting
    )
    first = engine.generate(turn)
    command = RecordChains(prompt=PROMPTS[1], output=(90, 91), depth=4, mtp=True)
    engine.record_chains(command)
    longer = replace(turn, prompt=(*turn.prompt, *first.tokens))
    again = engine.generate(longer)
    assert again.tokens == engine.generate(replace(longer, conversation=False)).tokens


def test_what_was_loaded_without_them_records_nothing_of_them(tiny: TinyPath) -> None:
    with local_engine() as engine:
        engine.load_target(
            LoadTarget(
                options=ModelOptions(path=tiny(TARGET)), context=small_context(), max_draft=4
            )
        )
        with pytest.raises(UsageError, match="without its MTP layers"):
            engine.record_chains(RecordChains(prompt=(77,), output=(1,), depth=4, mtp=True))


def test_another_draft_does_not_cost_what_is_kept_of_prompts(folder: Path, tiny: TinyPath) -> None:
    command = Generate(
        prompt=PROMPTS[0],
        n_predict=4,
        sampling=ENDLESS,
        reuse_prompt=True,
        speculation=Speculation(DraftMtp(draft_max=2)),
    )
    with local_engine() as engine:
        options = ModelOptions(path=folder / "glm4moe.gguf")
        engine.load_target(
            LoadTarget(options=options, context=small_context(), max_draft=4, mtp=True)
        )
        engine.load_draft(ModelOptions(path=tiny(TARGET)))
        engine.generate(command)
        engine.load_draft(ModelOptions(path=tiny(CLOSE_DRAFT)))
        reused: list[int] = []
        engine.on_event = lambda event: reused.extend(
            [event.n_reused] if isinstance(event, PromptEvaluated) else []
        )
        engine.generate(command)
        assert reused == [len(PROMPTS[0])]


def test_of_a_prompt_both_caches_are_kept_or_neither(folder: Path) -> None:
    context = small_context()
    prompts = (PROMPTS[1], PROMPTS[1][::-1])
    with (
        Model(ModelOptions(path=folder / "glm4moe.gguf"), load_mtp=True) as model,
        TargetContext(model, context, max_draft=MAX_DRAFT) as target,
        MtpContext(target, context) as mtp,
    ):
        target.show_states_to(mtp)

        def keep(prompt: tuple[int, ...], store: PromptStore) -> int:
            target.clear()
            mtp.clear()
            target.decode(prompt, Outputs.LAST)
            mtp.decode(prompt, Outputs.NONE)
            store.keep(target, prompt)
            store.keep(mtp, prompt)
            return target.state_bytes + mtp.state_bytes

        capacity = keep(prompts[0], PromptStore(lambda: 1 << 30)) * 3 // 2
        store = PromptStore(lambda: capacity - store.n_bytes)
        for prompt in prompts:
            keep(prompt, store)
        for prompt, n_kept in zip(prompts, (len(prompts[0]), 0), strict=True):
            target.clear()
            mtp.clear()
            store.restore((mtp, target), prompt)
            assert (target.n_past, mtp.n_past) == (n_kept, n_kept)


@pytest.fixture
def options(folder: Path, prompts: Path) -> list[object]:
    """Options of a run on a tiny model that drafts for itself."""
    small = ["-c", 256, "-t", 1, "-n", 12, "--temp", 0, "--ignore-eos", "--prompts", prompts]
    return ["-m", folder / "qwen35.gguf", *small]


def tuned(spectui: Spectui, *arguments: object) -> dict[str, Any]:
    assert spectui("tune", *arguments, "--json", "-", "--quiet") == 0, spectui.err
    document: dict[str, Any] = json.loads(spectui.out)
    return document


def test_tune_tries_what_the_target_can_do_itself(spectui: Spectui, options: list[object]) -> None:
    document = tuned(spectui, *options, "--trials", 6)
    (own,) = document["drafts"]
    assert (own["name"], own["compatible"]) == (MTP_KIND, True)
    tried = [one["params"] for one in document["trials"]]
    by_mtp = [params for params in tried if params.get("mtp")]
    assert by_mtp
    assert {params["draft"] for params in by_mtp} == {MTP_KIND}
    forecasts = [one for one in document["drafters"] if one["params"].get("mtp")]
    assert forecasts
    assert all(one["n_accepted"] <= one["n_drafted"] for one in forecasts)
    assert document["lossless"] is True


def test_several_layers_are_tuned_up_to_their_number(
    spectui: Spectui, options: list[object], folder: Path
) -> None:
    named = ["--spec-type", MTP_KIND, "--trials", 5]
    document = tuned(spectui, "-m", folder / "mimo2.gguf", *options[2:], *named)
    words = shlex.split(document["best_command"])
    best = document["best"]["params"]
    if best["draft"] == MTP_KIND:
        assert words[words.index("--spec-type") + 1] == MTP_KIND
        assert words[words.index("--spec-draft-n-max") + 1] == str(best["draft_max"])
    assert "--spec-draft-model" not in words
    lengths = {
        one["params"]["draft_max"]
        for one in (*document["trials"], *document["forecasts"])
        if one["params"].get("mtp")
    }
    assert lengths <= {1, 2, 3}
    assert 3 in lengths


def test_a_replay_counts_what_bench_counts(
    spectui: Spectui, options: list[object], tmp_path: Path
) -> None:
    path = tmp_path / "x.trace.json.gz"
    assert spectui("trace", *options, "--draft-max", 8, "--out", path, "--quiet") == 0, spectui.err
    assert spectui("replay", path, "--json", "-") == 0, spectui.err
    found = [one for one in json.loads(spectui.out)["configs"] if one["draft"]]
    longest = max(one["draft_max"] for one in found)
    for chosen in ((2, 0, 0.0), (longest, 0, 0.45)):
        names = ("draft_max", "draft_min", "draft_p_min")
        replayed = next(one for one in found if tuple(map(one.get, names)) == chosen)
        setting = ["--draft-max", chosen[0], "--draft-p-min", chosen[2], "--json", "-"]
        assert replayed["mtp"] is True
        assert replayed["tokens_per_s"] > 0
        assert spectui("bench", *options, "--spec-type", MTP_KIND, *setting, "--quiet") == 0
        measured = json.loads(spectui.out)["speculative"]
        for name in ("n_rounds", "n_drafted", "n_accepted"):
            assert replayed[name] == measured[name], name


@pytest.mark.parametrize(
    ("arguments", "refusal"),
    [
        (["--spec-type", "draft-mtp"], (3, "draft with MTP layers: it is a llama without MTP")),
        (["--spec-type", "draft-mtp", "-md", "d.gguf"], (3, "d.gguf: no such file")),
        (["--spec-type", "draft-simple"], (2, "give at least one draft with -md")),
    ],
    ids=["plain", "draft", "no draft"],
)
def test_what_cannot_be_tuned_is_refused_in_one_sentence(
    spectui: Spectui,
    tiny: TinyPath,
    prompts: Path,
    arguments: list[object],
    refusal: tuple[int, str],
) -> None:
    code, sentence = refusal
    own = ["-m", tiny(OTHER), "-c", 256, "-t", 1, "--prompts", prompts]
    assert spectui("tune", *own, *arguments, "--quiet") == code
    assert sentence in spectui.err
    assert spectui.err.count("\n") == 1


def test_a_draft_of_that_name_is_told_apart(
    spectui: Spectui, options: list[object], folder: Path, tmp_path: Path
) -> None:
    draft, path = tmp_path / f"{MTP_KIND}.gguf", tmp_path / "x.trace.json.gz"
    draft.symlink_to(folder / "glm4moe.gguf")
    assert spectui("trace", *options, "-md", draft, "--no-costs", "--out", path) == 0, spectui.err
    assert spectui("replay", path, "--json", "-") == 0
    configs = [one for one in json.loads(spectui.out)["configs"] if one["draft"]]
    found = {one["draft"]: one.get("mtp", False) for one in configs}
    assert found == {f"{MTP_KIND}#1": False, MTP_KIND: True}
    # Where only models are wanted it is left out.
    path, drafts = tmp_path / "y.trace.json.gz", ["-md", draft, "--spec-type", "draft-simple"]
    assert spectui("trace", *options, *drafts, "--no-costs", "--out", path) == 0, spectui.err
    assert spectui("replay", path, "--json", "-") == 0
    assert {one.get("mtp", False) for one in json.loads(spectui.out)["configs"]} == {False}
