"""Targets that draft for themselves: what the MTP layers read and draft, and that it is safe."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from spectui.cli.click_options import HELP_NAMES, request_of
from spectui.cli.cockpit import Cockpit, make_launch
from spectui.cli.cockpit import command as cockpit_command
from spectui.engine.commands import Generate, LoadTarget, RecordChains
from spectui.engine.driver import Engine
from spectui.engine.events import Event, RoundFinished
from spectui.engine.planning import Planner
from spectui.errors import BadInputError, UsageError
from spectui.llama.architectures import inspect_pair
from spectui.llama.model import Model
from spectui.llama.mtp import MtpContext
from spectui.llama.pair import TargetContext
from spectui.llama.planned import PlanRequest
from spectui.models.facts import check_is_target
from spectui.models.header import GgufFile, TensorInfo
from spectui.options.drafters import DraftMtp, DraftSimple, NgramSimple
from spectui.options.setup import ModelOptions
from spectui.options.speculation import Speculation
from spectui.settings import Settings
from spectui.speculative.models import Outputs, Rollback
from spectui.tui.export import export_choices
from spectui.tui.launch import Launch, Pair
from tests.support.architectures import (
    WRITERS,
    write_lfm2,
    write_pair,
    write_special_draft,
)
from tests.support.engine import ENDLESS, assert_lossless, local_engine, small_context
from tests.support.models import TARGET, Tiny, TinyPath

pytest_plugins = ("tests.support.fixtures", "tests.support.cli_fixtures")

MAX_DRAFT = 8
NOISE = 0.01
"""Batches of another size move logits of up to 20 by a thousandth; a wrong state by units."""
PROMPTS = ((88, 102, 126, 263, 261, 109, 271) * 4, tuple(range(40, 90)), (77,))
FILES = {f"{arch} beside": arch for arch in ("qwen35", "gemma4")}
"""Targets whose MTP layers are in a file of their own."""
ROLLBACKS = dict.fromkeys((*WRITERS, *FILES), Rollback.TRUNCATE) | dict.fromkeys(
    ("qwen35", "qwen35 beside"), Rollback.SNAPSHOT
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("mtp")
    for name, write in WRITERS.items():
        write(Tiny(), found / f"{name}.gguf")
        write(Tiny(), found / f"{name}-echoes.gguf", echoes=True)
    return found


@dataclass(frozen=True, kw_only=True)
class Opened:
    target: TargetContext
    mtp: MtpContext


@pytest.fixture(params=WRITERS)
def echoing(folder: Path, request: pytest.FixtureRequest) -> Iterator[Opened]:
    """A target whose MTP layer says what the target said a token earlier."""
    options, context = ModelOptions(path=folder / f"{request.param}-echoes.gguf"), small_context()
    with (
        Model(options, load_mtp=True) as model,
        TargetContext(model, context, max_draft=MAX_DRAFT) as target,
        MtpContext(target, context) as mtp,
    ):
        target.show_states_to(mtp)
        yield Opened(target=target, mtp=mtp)


def test_every_token_is_read_with_the_targets_state_before_it(echoing: Opened) -> None:
    target, mtp = echoing.target, echoing.mtp
    tokens = PROMPTS[1][:MAX_DRAFT]
    target.decode(tokens, Outputs.ALL)
    said = [target.logits(index).copy() for index in range(len(tokens))]
    mtp.decode(tokens[:3], Outputs.NONE)
    mtp.decode(tokens[3:], Outputs.ALL)
    for index in range(3, len(tokens)):
        assert np.allclose(mtp.logits(index - 3), said[index - 1], atol=NOISE)
    # What the target has not decoded is read with the layer's own state, which is the same here.
    mtp.mark()
    for token in (99, 98):
        mtp.decode((token,), Outputs.LAST)
        assert np.allclose(mtp.logits(mtp.n_outputs - 1), said[-1], atol=NOISE)


def test_what_a_stopped_chain_read_with_its_own_states_is_not_kept(echoing: Opened) -> None:
    target, mtp = echoing.target, echoing.mtp
    tokens, chain = PROMPTS[1][:MAX_DRAFT], (99, 98)
    target.decode(tokens, Outputs.LAST)
    mtp.decode(tokens, Outputs.NONE)
    mtp.mark()
    for token in chain:
        mtp.decode((token,), Outputs.LAST)
    # The draft was right, as it happens, and the target is told so by the next prompt alone.
    mtp.keep_prefix_of_both((*tokens, *chain, 97))
    assert target.n_past == len(tokens)
    assert mtp.tokens == list(tokens)


def test_a_batch_and_one_token_after_the_other_say_the_same(folder: Path) -> None:
    context, tokens = small_context(), PROMPTS[1]
    model = Model(ModelOptions(path=folder / "qwen35.gguf"), load_mtp=True)
    with (
        model,
        TargetContext(model, context, max_draft=MAX_DRAFT) as target,
        MtpContext(target, context) as mtp,
    ):
        target.show_states_to(mtp)
        target.decode(tokens, Outputs.LAST)
        mtp.decode(tokens, Outputs.LAST)
        batched = mtp.logits(mtp.n_outputs - 1).copy()
        mtp.clear()
        target.clear()
        for token in tokens:
            target.decode((token,), Outputs.LAST)
            mtp.decode((token,), Outputs.LAST)
        assert np.allclose(mtp.logits(0), batched, atol=NOISE)
        assert np.ptp(batched) > 100 * NOISE


@pytest.fixture(scope="module", params=[*WRITERS, *FILES])
def engine(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Engine]:
    """Has loaded a target with its own MTP layers, or with those of a file."""
    options, context = ModelOptions(path=folder / f"{request.param}.gguf"), small_context()
    with local_engine() as started:
        if request.param in FILES:
            target, draft = write_pair(FILES[request.param], tmp_path_factory.mktemp("pair"))
            options = ModelOptions(path=target)
            loaded = started.load_target(
                LoadTarget(options=options, context=context, max_draft=MAX_DRAFT, mtp_file=True)
            )
            started.load_draft(ModelOptions(path=draft), mtp=True)
        else:
            loaded = started.load_target(
                LoadTarget(options=options, context=context, max_draft=MAX_DRAFT, mtp=True)
            )
        assert loaded.rollback is ROLLBACKS[request.param]
        yield started


def mtp(draft_max: int, p_min: float = 0.0, draft_min: int = 0) -> Speculation:
    return Speculation(DraftMtp(draft_max=draft_max, draft_p_min=p_min, draft_min=draft_min))


def test_drafts_stop_where_the_context_does(folder: Path) -> None:
    command = Generate(prompt=PROMPTS[0], sampling=ENDLESS)
    with local_engine() as engine:
        options = ModelOptions(path=folder / "glm4moe.gguf")
        loaded = engine.load_target(
            LoadTarget(options=options, context=small_context(64), max_draft=MAX_DRAFT, mtp=True)
        )
        plain = engine.generate(command)
        assert len(command.prompt) + len(plain.tokens) == loaded.n_ctx
        drafting = replace(command, speculation=mtp(MAX_DRAFT))
        assert_lossless(engine, command, plain, engine.generate(drafting))


@pytest.mark.parametrize("prompt", PROMPTS[:2], ids=len)
def test_output_is_the_targets_own(engine: Engine, prompt: tuple[int, ...]) -> None:
    command = Generate(prompt=prompt, n_predict=40, sampling=ENDLESS, reuse_prompt=True)
    plain = engine.generate(command)
    assert plain.counters.n_drafted == 0
    n_drafted = n_accepted = 0
    after_ngrams = mtp(3).after([NgramSimple(size_n=2, size_m=6)])
    for setting in (mtp(1), mtp(3), mtp(8, 0.3), mtp(4, 0.2, 2), after_ngrams):
        result = engine.generate(replace(command, speculation=setting))
        assert_lossless(engine, command, plain, result)
        n_drafted += result.counters.n_drafted
        n_accepted += result.counters.n_accepted
    assert 0 < n_accepted < n_drafted


def test_a_prompt_of_several_batches_teaches_what_one_batch_does(folder: Path) -> None:
    command = Generate(prompt=PROMPTS[1] * 3, n_predict=40, sampling=ENDLESS, speculation=mtp(3))
    counters = []
    for size in (512, 16):
        context = replace(small_context(), batch_size=size)
        with local_engine() as engine:
            options = ModelOptions(path=folder / "qwen35.gguf")
            engine.load_target(
                LoadTarget(options=options, context=context, max_draft=MAX_DRAFT, mtp=True)
            )
            result = engine.generate(command)
            counters.append((result.counters.n_drafted, result.counters.n_accepted))
    assert counters[0] == counters[1]


def test_prompts_that_are_taken_up_again_change_nothing(engine: Engine) -> None:
    first, second = (
        Generate(prompt=prompt, n_predict=30, sampling=ENDLESS, speculation=mtp(3))
        for prompt in PROMPTS[:2]
    )
    fresh = [engine.generate(command) for command in (first, second)]
    # The target knows the second prompt already, and its MTP layer does not.
    engine.generate(replace(second, speculation=None, reuse_prompt=True))
    for command, wanted in zip((first, second, first, second), fresh * 2, strict=True):
        found = engine.generate(replace(command, reuse_prompt=True))
        assert found.tokens == wanted.tokens
        assert found.counters.n_drafted == wanted.counters.n_drafted
        assert found.counters.n_accepted == wanted.counters.n_accepted


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many tokens targets decode, batch by batch."""
    seen: list[int] = []
    decode_piece = TargetContext._decode_piece

    def count(target: TargetContext, piece: Sequence[int], outputs: Outputs, start: int) -> None:
        seen.append(len(piece))
        decode_piece(target, piece, outputs, start)

    monkeypatch.setattr(TargetContext, "_decode_piece", count)
    return seen


def test_a_chats_next_turn_decodes_nothing_twice(engine: Engine, decoded: list[int]) -> None:
    text: tuple[int, ...] = PROMPTS[0]
    turn = Generate(prompt=text, sampling=ENDLESS, speculation=mtp(3), conversation=True)
    for n_predict in range(10, 16):
        said = engine.generate(replace(turn, prompt=text, n_predict=n_predict)).tokens
        text = (*text, *said, 90, 91, 92)
        decoded.clear()
        said = engine.generate(replace(turn, prompt=text, n_predict=1)).tokens
        # The end of the answer, which was only said, and what follows.
        assert sum(decoded) == 4
        text = (*text, *said, 93)


def test_a_chat_may_switch_drafting_on_and_off(engine: Engine) -> None:
    text: tuple[int, ...] = PROMPTS[0]
    for setting in (mtp(3), None, mtp(3), mtp(2)):
        command = Generate(prompt=text, n_predict=20, sampling=ENDLESS, conversation=True)
        said = engine.generate(replace(command, speculation=setting))
        alone = engine.generate(replace(command, conversation=False))
        assert_lossless(engine, replace(command, conversation=False), alone, said)
        assert (said.counters.n_drafted > 0) is (setting is not None)
        text = (*text, *said.tokens, 90, 91, 92)


def test_a_chat_that_is_cut_back_drafts_as_a_new_one_does(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[float] = []

    def listen(event: Event) -> None:
        if isinstance(event, RoundFinished):
            found.extend(event.round.probabilities)

    monkeypatch.setattr(engine, "on_event", listen)
    # Longer than the window of those that have one.
    fresh = Generate(prompt=PROMPTS[0], n_predict=40, sampling=ENDLESS, speculation=mtp(3))
    engine.generate(fresh)
    expected = found.copy()
    turn = replace(fresh, conversation=True)
    engine.generate(turn)
    for is_put_aside in (False, True):
        if is_put_aside:
            engine.record_chains(RecordChains(prompt=(77,), output=(1, 2), depth=2, mtp=True))
        found.clear()
        engine.generate(turn)
        assert found == pytest.approx(expected, abs=0.004), is_put_aside


def test_recording_a_chats_answer_reads_no_more_than_that(
    engine: Engine, decoded: list[int], request: pytest.FixtureRequest
) -> None:
    turn = Generate(
        prompt=PROMPTS[0], n_predict=12, sampling=ENDLESS, speculation=mtp(3), conversation=True
    )
    said = engine.generate(turn).tokens
    decoded.clear()
    command = RecordChains(prompt=PROMPTS[0], output=said, depth=4, mtp=True)
    chains = engine.record_chains(command).chains
    # The last two of the prompt, for the state and the logits, and all that was said but its end.
    n_read = 2 + len(said) - 1
    if ROLLBACKS[request.node.callspec.params["engine"]] is not Rollback.TRUNCATE:
        # A recurrent state cannot go back to before the answer.
        n_read += len(PROMPTS[0]) - 2
    assert sum(decoded) == n_read
    fresh = engine.record_chains(replace(command, reuse_prompt=True)).chains
    assert chains.tokens == fresh.tokens
    assert chains.probabilities == pytest.approx(fresh.probabilities, abs=0.004)


def test_what_cannot_draft_for_itself_is_refused(tmp_path: Path, tiny: TinyPath) -> None:
    write_lfm2(Tiny(), tmp_path / "plain.gguf")
    context = small_context()
    with local_engine() as engine:
        plain = ModelOptions(path=tmp_path / "plain.gguf")
        with pytest.raises(BadInputError, match="is a lfm2 without MTP layers; give another draft"):
            engine.load_target(LoadTarget(options=plain, context=context, max_draft=4, mtp=True))
        engine.load_target(
            LoadTarget(options=ModelOptions(path=tiny(TARGET)), context=context, max_draft=4)
        )
        with pytest.raises(UsageError, match="without its MTP layers"):
            engine.generate(Generate(prompt=(77,), speculation=mtp(2)))


def launch(*arguments: object) -> Launch:
    context = cockpit_command.make_context(
        "cockpit", [str(argument) for argument in arguments], help_option_names=HELP_NAMES
    )
    return make_launch(request_of(Cockpit, context), Settings())


def test_the_screen_drafts_with_what_is_chosen(
    folder: Path, tmp_path: Path, tiny: TinyPath
) -> None:
    whole, simple = folder / "qwen35.gguf", Speculation(DraftSimple(draft_max=2))
    named = ("--spec-type", "draft-mtp")
    make_setup = launch("-m", whole, *named, "--draft-max", 2).make_setup
    assert make_setup(Pair(target=whole, draft=None)).drafting == mtp(2)
    assert make_setup(Pair(target=whole, draft=tiny(TARGET))).drafting == simple
    # A file of layers drafts as such. A model that has them is one of its own, unless asked for.
    target, layers = write_pair("qwen35", tmp_path)
    for draft, typed, drafting in (
        (layers, (), mtp(2)),
        (layers, named, mtp(2)),
        (whole, (), simple),
    ):
        setup = launch("-m", target, "-md", draft, "--draft-max", 2, *typed).make_setup(
            Pair(target=target, draft=draft)
        )
        assert setup.drafting == drafting
        assert setup.used_draft == ModelOptions(path=draft)


@pytest.mark.parametrize(("usable", "written"), [(8, 0), (6, 6)])
def test_the_screen_takes_llama_servers_threads_and_caches(
    folder: Path, monkeypatch: pytest.MonkeyPatch, usable: int, written: int
) -> None:
    monkeypatch.setattr("spectui.cores.default_threads", lambda: 8)
    monkeypatch.setattr("spectui.cores.usable_processors", lambda: usable)
    pair = Pair(target=folder / "qwen35.gguf", draft=None)
    options = ("-m", pair.target, "--spec-type", "draft-mtp")
    setup = launch(*options, "-ctkd", "q8_0").make_setup(pair)
    # Another number is written: llama-server would take eight.
    choices = export_choices(setup, None)
    threads = {one.context.threads for one, _note in choices.values()}
    assert threads == {setup.context.threads} == {written}
    assert (setup.target.cache_type_k_mtp, setup.target.cache_type_k) == ("q8_0", "f16")
    # What drafts is exported.
    ngram = Speculation(NgramSimple(size_m=3))
    for setting, exported in ((mtp(2), mtp(2)), (ngram, ngram), (Speculation(), None)):
        live, off = export_choices(replace(setup, speculation=setting), None).values()
        assert (live[0].speculation, off[0].speculation) == (exported, None)


SPECIAL = {
    "eagle3": ("eagle3", "fc.weight", "an EAGLE-3 draft", "draft-eagle3"),
    "dflash": ("dflash", "fc.weight", "a DFlash draft", "draft-dflash"),
    "dspark": ("dflash", "markov_w1.weight", "a DSpark draft", "draft-dspark"),
    "mtp": ("qwen35", "blk.2.nextn.eh_proj.weight", "a file of MTP layers alone", None),
    "gemma": ("gemma4-assistant", "a.weight", "a file of MTP layers alone", None),
}
"""Architecture, a tensor, the kind, and the type of speculation that the engine lacks."""


@pytest.mark.parametrize("name", SPECIAL)
def test_they_are_told_before_anything_is_loaded(tiny: TinyPath, tmp_path: Path, name: str) -> None:
    arch, tensor, kind, lacking = SPECIAL[name]
    path = tmp_path / "draft.gguf"
    write_special_draft(arch, path, tensor)
    how = f"drafts with --spec-type {lacking or 'draft-mtp'}, not as a model of its own"
    as_draft = f"draft.gguf is {kind}, which {how}"
    as_target = f"{kind}, which cannot generate without the model that it drafts for"
    target, draft = ModelOptions(path=tiny(TARGET)), ModelOptions(path=path)
    request = PlanRequest(target=target, draft=draft, context=small_context())
    with local_engine() as engine, Planner() as planner:
        told = inspect_pair(target.path, path)
        wanted = as_draft if lacking else "cannot draft with MTP layers"
        assert re.search(wanted, str(told.reason))
        told = inspect_pair(path, path)
        assert as_target in str(told.reason)
        with pytest.raises(BadInputError, match=as_target):
            engine.load_target(LoadTarget(options=draft, context=small_context(), max_draft=4))
        with pytest.raises(BadInputError, match=as_draft):
            planner.plan(request)
        with pytest.raises(BadInputError, match=as_target):
            planner.plan(replace(request, target=draft, draft=None))


def test_a_model_whose_layers_begin_without_a_norm_is_whole(tmp_path: Path) -> None:
    names = ("blk.0.attn_q.weight", "blk.1.nextn.eh_proj.weight")
    tensors = tuple(TensorInfo(name=name, size_bytes=1) for name in names)
    gguf = GgufFile(metadata={"general.architecture": "exaone4"}, array_lengths={}, tensors=tensors)
    check_is_target(tmp_path / "exaone4.gguf", gguf)
    with pytest.raises(BadInputError, match="a file of MTP layers alone"):
        check_is_target(tmp_path / "mtp.gguf", replace(gguf, tensors=tensors[1:]))
