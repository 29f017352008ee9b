"""The binding, on tiny random models: what llama.cpp really does, and what spectui says of it."""

import ctypes
import math
import re
import resource
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectui.errors import BadInputError, CancelledError, DoesNotFitError, UsageError
from spectui.llama.architectures import check_generates
from spectui.llama.context import Context, Logits
from spectui.llama.devices import buffer_types
from spectui.llama.library import C
from spectui.llama.log import NativeLog, native_log
from spectui.llama.model import AbortFlag, Model
from spectui.llama.pair import DraftContext, TargetContext
from spectui.llama.sampling import SamplerChain, top_token
from spectui.models.facts import facts_of
from spectui.models.gguf import read_gguf
from spectui.models.weights import overrides
from spectui.options.setup import (
    CACHE_TYPES,
    ContextOptions,
    FlashAttention,
    ModelOptions,
    SamplingConfig,
    TensorOverride,
)
from spectui.speculative.models import Outputs
from tests.support.models import (
    EMBEDDING,
    END_TOKENS,
    MOE,
    TARGET,
    Tiny,
    TinyPath,
    vocabulary,
    write_empty,
)

pytest_plugins = ("tests.support.fixtures",)

TEXT = "in the string"
TOKENS = tuple(range(20, 60))
NOISE = 1e-3
"""Far more than batching moves a logit of these models, far less than another cache would."""


@pytest.fixture(scope="module")
def model(tiny: TinyPath) -> Iterator[Model]:
    with Model(ModelOptions(path=tiny(TARGET))) as loaded:
        yield loaded


@pytest.fixture
def context(model: Model) -> Iterator[Context]:
    with new_context(model) as made:
        yield made


def new_context(
    model: Model,
    *,
    ctx_size: int = 512,
    batch_size: int = 64,
    max_outputs: int = 32,
    flash_attn: FlashAttention = FlashAttention.AUTO,
) -> Context:
    options = ContextOptions(
        ctx_size=ctx_size, batch_size=batch_size, flash_attn=flash_attn, threads=1
    )
    return Context(model, options, max_outputs=max_outputs)


def last_logits(context: Context, tokens: tuple[int, ...]) -> Logits:
    context.decode(tokens, Outputs.LAST)
    return context.logits(0).copy()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "no such file"),
        (b"", "is not a GGUF file (it starts with '')"),
        (b"Not a model.\n", "is not a GGUF file (it starts with 'Not ')"),
        (b"PK\x03\x04 and more", r"is not a GGUF file (it starts with 'PK\x03\x04')"),
        ("folder", "is a folder; give one of its models, which spectui models scan"),
        ("header", "unknown model architecture"),
    ],
)
def test_files_that_are_no_models_are_refused_by_name(
    tmp_path: Path, content: bytes | str | None, reason: str
) -> None:
    path = tmp_path / "Modèle ü 日本.gguf"
    if content == "header":
        write_empty(path)
    elif content == "folder":
        path.mkdir()
    elif isinstance(content, bytes):
        path.write_bytes(content)
    with pytest.raises(BadInputError) as caught:
        Model(ModelOptions(path=path))
    assert str(path) in str(caught.value)
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


def test_truncated_downloads_and_embedding_models_are_refused(
    tmp_path: Path, tiny: TinyPath, model: Model
) -> None:
    whole, path = tiny(TARGET).read_bytes(), tmp_path / "part.gguf"
    for kept in (0.02, 0.5, 0.99):
        path.write_bytes(whole[: int(len(whole) * kept)])
        with pytest.raises(BadInputError, match="check that the download is complete") as caught:
            Model(ModelOptions(path=path))
        assert str(path) in str(caught.value)
    path = tiny(EMBEDDING)
    with pytest.raises(BadInputError) as caught:
        check_generates(path, read_gguf(path))
    assert str(caught.value) == (
        f"{path} is an embedding model (llama), which cannot continue a text; "
        "give a model that generates"
    )
    check_generates(model.options.path, read_gguf(model.options.path))


def test_info_says_what_the_file_says(model: Model, tiny: TinyPath) -> None:
    info = model.info
    assert (info.arch, info.name, info.n_layers) == ("llama", "Tiny 0", 2)
    assert (info.n_ctx_train, info.n_vocab) == (32_768, len(vocabulary(TARGET)))
    assert 0 < info.size_bytes < tiny(TARGET).stat().st_size
    # The name of its type is llama.cpp's.
    assert replace(facts_of(tiny(TARGET), read_gguf(tiny(TARGET))), quantization="F32") == info


@pytest.mark.parametrize("mmap", [True, False])
def test_loading_reports_progress_and_can_be_cancelled(
    tmp_path: Path, tiny: TinyPath, *, mmap: bool
) -> None:
    seen: list[float] = []
    path = tmp_path / "Modèle ü 日本.gguf"
    path.symlink_to(tiny(TARGET))
    options = ModelOptions(path=path, mmap=mmap)
    abort = AbortFlag()

    def stop(fraction: float) -> None:
        seen.append(fraction)
        if len(seen) == 2:
            abort.set()

    with pytest.raises(CancelledError, match="was cancelled"):
        Model(options, on_progress=stop, abort=abort)
    assert len(seen) == 2
    seen.clear()
    with Model(options, on_progress=seen.append) as loaded:
        assert loaded.info.path == path
    assert seen == sorted(seen)
    assert seen[-1] == 1.0


@pytest.mark.parametrize(
    ("options", "layers"),
    [
        ({"override_tensor": (TensorOverride(pattern=r"blk\.1\..*_exps", buffer="CPU"),)}, (1,)),
        ({"cpu_moe": True}, (0, 1)),
        ({"n_cpu_moe": 1}, (0,)),
    ],
)
def test_experts_are_overridden_and_nothing_else(
    tiny: TinyPath, options: dict[str, Any], layers: tuple[int, ...]
) -> None:
    with Model(ModelOptions(path=tiny(MOE), **options)):
        lines = [line for line in native_log.tail(2_000) if "type overridden to CPU" in line]
        assert {line.split()[1] for line in lines} == {
            f"blk.{layer}.ffn_{part}_exps.weight"
            for layer in layers
            for part in ("gate", "up", "down")
        }


def test_overrides_keep_llama_servers_order() -> None:
    options = ModelOptions(
        path=Path("x.gguf"),
        override_tensor=(TensorOverride(pattern="a", buffer="CUDA0"),),
        cpu_moe=True,
        n_cpu_moe=2,
    )
    experts = r"\.ffn_(up|down|gate|gate_up)_(ch|)exps"
    assert overrides(options) == [
        ("a", "CUDA0"),
        (experts, "CPU"),
        (rf"blk\.0{experts}", "CPU"),
        (rf"blk\.1{experts}", "CPU"),
    ]


def test_overrides_that_cannot_be_are_refused(tiny: TinyPath) -> None:
    patterns = ("blk.([", "exps(", "exps)", "*_exps", "(?i)EXPS", "a{x", "[9-0]", "a\\")
    for pattern, buffer, reason in (
        ("exps", "GPU9", r"-ot exps=GPU9: .* use one of .*CPU"),
        *(
            (one, "CPU", f"^-ot {re.escape(one)}=CPU: .* cannot be loaded with it")
            for one in patterns
        ),
    ):
        override = TensorOverride(pattern=pattern, buffer=buffer)
        with pytest.raises(UsageError, match=reason):
            Model(ModelOptions(path=tiny(MOE), override_tensor=(override,)))
    assert "CPU" in buffer_types()


@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
@settings(max_examples=100, deadline=None)
def test_any_text_survives_tokens_and_back(text: str, model: Model) -> None:
    tokens = model.vocabulary.tokenize(text)
    pieces = [model.vocabulary.piece(token, special=True) for token in tokens]
    assert b"".join(pieces).decode() == text


def test_the_vocabulary_is_llama_cpps(model: Model, tiny: TinyPath) -> None:
    names, words = vocabulary(TARGET), model.vocabulary
    tokens = words.tokenize("<|im_start|>in the")
    assert [names[token] for token in tokens] == ["<|im_start|>", "in", "Ġthe"]
    # Half a surrogate pair.
    assert words.tokenize("a\udcffb") == words.tokenize("a?b")
    assert (words.piece(1), words.piece(1, special=True)) == (b"", b"<|im_start|>")
    assert [words.piece(token) for token in words.tokenize("é")] == [b"\xc3", b"\xa9"]
    assert words.end_tokens == END_TOKENS
    with Model(ModelOptions(path=tiny(Tiny(add_bos=True)))) as adding:
        tokens = adding.vocabulary.tokenize(TEXT)
        assert tokens[0] == adding.vocabulary.bos.id == 1
        assert adding.vocabulary.tokenize(TEXT, add_special=False) == tokens[1:]


def test_a_context_computes_with_as_many_threads_as_llama_server(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spectui.llama.context.default_threads", lambda: 3)
    for (threads, threads_batch), taken in (((0, 0), (3, 3)), ((2, 0), (2, 2)), ((0, 1), (3, 1))):
        options = ContextOptions(ctx_size=64, threads=threads, threads_batch=threads_batch)
        with Context(model, options, max_outputs=1) as made:
            assert (C.llama_n_threads(made.c), C.llama_n_threads_batch(made.c)) == taken


rows = st.builds(
    lambda n, seed, scale: (scale * np.random.default_rng(seed).standard_normal(n)).astype("f4"),
    st.one_of(st.integers(1, 130), st.integers(600, 760), st.sampled_from((1280, 4097))),
    st.integers(0, 2**32),
    st.sampled_from((0.1, 1.0, 30.0)),
)
ties = st.lists(st.integers(-3, 3), min_size=1, max_size=1500)


@given(logits=st.one_of(rows, ties), best=st.integers(0, 2**31))
@settings(max_examples=300, deadline=None)
def test_top_token_is_the_softmax_over_the_ten_highest(
    logits: Logits | list[int], best: int
) -> None:
    if isinstance(logits, list):
        # Ties count as ten candidates, and there is one best.
        logits = np.array(logits, np.float32)
        logits[best % len(logits)] = 4.0
    token, probability = top_token(logits)
    ten = np.sort(logits)[::-1][:10].astype(np.float64)
    assert token == logits.argmax()
    assert probability == pytest.approx(1 / np.exp(ten - ten[0]).sum(), rel=1e-6)


_ODD = st.sampled_from((math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, 2.0))


@given(
    values=st.lists(st.tuples(st.integers(0, 2**31), _ODD), max_size=8),
    base=st.sampled_from((-math.inf, 0.0, 1.0)),
    ends=st.sampled_from((-math.inf, 0.5, 3.0, math.inf, math.nan)),
    ignore_eos=st.booleans(),
)
@settings(max_examples=200, deadline=None)
def test_greedy_is_what_llama_cpp_takes_of_ties_and_of_what_is_no_number(
    values: list[tuple[int, float]], base: float, ends: float, model: Model, *, ignore_eos: bool
) -> None:
    logits = np.full(model.vocabulary.n_tokens, base, np.float32)
    logits[list(END_TOKENS)] = ends
    for at, value in values:
        logits[at % len(logits)] = value
    with SamplerChain(SamplingConfig(temp=0.0, ignore_eos=ignore_eos), model.vocabulary) as chain:
        assert chain.sample(logits) == chain._by_chain(logits)


def test_a_chain_draws_by_its_seed_within_its_limits(model: Model) -> None:
    def drawn(config: SamplingConfig, logits: Sequence[Logits]) -> list[int]:
        with SamplerChain(config, model.vocabulary) as chain:
            return [chain.sample(one) for one in logits]

    many = [random_logits(model, index) for index in range(30)]
    one, same, other = (drawn(SamplingConfig(temp=1.0, seed=seed), many) for seed in (1, 1, 2))
    assert one == same != other
    for top_k, top_p, min_p, n_allowed in ((3, 1.0, 0.0, 3), (0, 0.01, 0.0, 1), (0, 1.0, 1.0, 1)):
        limit = SamplingConfig(temp=5.0, top_k=top_k, top_p=top_p, min_p=min_p)
        before = many[4].copy()
        assert set(drawn(limit, many[4:5] * 200)) == set(np.argsort(before)[::-1][:n_allowed])
        assert np.array_equal(many[4], before)
    for temp, ignore_eos in product((0.0, 1.0), (False, True)):
        logits = many[0].copy()
        logits[list(END_TOKENS)] = 50.0
        config = SamplingConfig(temp=temp, ignore_eos=ignore_eos, seed=1)
        assert END_TOKENS.isdisjoint(drawn(config, [logits] * 50)) is ignore_eos


def random_logits(model: Model, seed: int) -> Logits:
    stream = np.random.default_rng(seed)
    return stream.standard_normal(model.vocabulary.n_tokens).astype(np.float32)


def test_logits_that_were_not_asked_for_are_refused(context: Context) -> None:
    for outputs, n_known in ((Outputs.NONE, 0), (Outputs.LAST, 1), (Outputs.ALL, 5)):
        context.decode(TOKENS[:5], outputs)
        assert [context.logits(n).any() for n in range(n_known)] == [True] * n_known
        for output in (-1, n_known):
            with pytest.raises(IndexError, match=f"output {output} of {n_known}"):
                context.logits(output)
    assert context.native_s > 0
    with pytest.raises(UsageError, match="33 outputs of one decode, in a context made for 32"):
        context.decode(TOKENS[:33], Outputs.ALL)
    assert context.n_past == 15


def test_prompts_give_the_same_logits_in_batches_of_any_size(
    model: Model, context: Context
) -> None:
    whole = last_logits(context, TOKENS)
    for batch_size in (1, 7, 39, 40):
        with new_context(model, batch_size=batch_size) as small:
            assert small.n_batch == batch_size
            assert np.allclose(last_logits(small, TOKENS), whole, atol=NOISE)
            assert small.n_past == len(TOKENS)
    context.clear()
    context.decode(TOKENS[:9], Outputs.ALL)
    together = [context.logits(output).copy() for output in range(9)]
    context.clear()
    for token, expected in zip(TOKENS, together, strict=False):
        assert np.allclose(last_logits(context, (token,)), expected, atol=NOISE)


def test_truncated_caches_continue_as_fresh_ones(context: Context) -> None:
    fresh = last_logits(context, TOKENS)
    context.truncate(25)
    context.decode((7, 8, 9), Outputs.ALL)
    assert not np.allclose(last_logits(context, TOKENS[28:]), fresh, atol=10 * NOISE)
    context.truncate(25)
    assert context.n_past == 25
    with pytest.raises(ValueError, match="cannot keep 26 of 25 tokens"):
        context.truncate(26)
    # Nothing is decoded of what has a token that the model does not know.
    for token in (-1, 273):
        with pytest.raises(DoesNotFitError, match="could not compute"):
            context.decode((5, token), Outputs.LAST)
        with pytest.raises(IndexError):
            context.logits(0)
    assert np.allclose(last_logits(context, TOKENS[25:]), fresh, atol=NOISE)


def test_restored_caches_are_bit_equal(context: Context) -> None:
    context.decode(TOKENS[:30], Outputs.LAST)
    state = context.save()
    expected = last_logits(context, TOKENS[30:])
    context.clear()
    context.decode((9, 9, 9), Outputs.LAST)
    context.restore(state, TOKENS[:30])
    assert context.n_past == 30
    with pytest.raises(IndexError):
        context.logits(0)
    assert context.save() == state
    assert np.array_equal(last_logits(context, TOKENS[30:]), expected)


def test_contexts_too_small_for_the_tokens_are_refused(model: Model) -> None:
    with new_context(model, ctx_size=256) as context:
        context.decode((5,) * 250, Outputs.LAST)
        with pytest.raises(BadInputError, match="257 tokens do not fit in a context of 256"):
            context.decode((5,) * 7, Outputs.LAST)
        context.decode((5,) * 6, Outputs.LAST)
        assert context.n_past == context.n_ctx == 256


@pytest.mark.parametrize("spare_bytes", [32 << 20, 256 << 20])
def test_contexts_that_memory_cannot_hold_are_refused(model: Model, spare_bytes: int) -> None:
    # 2^21 tokens: 512 MB of cache and some 80 MB of bookkeeping.
    options = ContextOptions(ctx_size=2**21, threads=1)
    with address_space(spare_bytes), pytest.raises(DoesNotFitError, match="choose a smaller -c"):
        Context(model, options, max_outputs=1)


@contextmanager
def address_space(spare_bytes: int) -> Iterator[None]:
    """Let this process have ``spare_bytes`` more than it has."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    limit = psutil.Process().memory_info().vms + spare_bytes
    resource.setrlimit(resource.RLIMIT_AS, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def test_every_cache_type_works_with_flash_attention(tiny: TinyPath) -> None:
    for name in CACHE_TYPES:
        options = ModelOptions(path=tiny(TARGET), cache_type_k=name, cache_type_v=name)
        with (
            Model(options) as quantised,
            new_context(quantised, flash_attn=FlashAttention.ON) as context,
        ):
            assert np.isfinite(last_logits(context, TOKENS)).all()
            assert any(f"V ({name})" in line for line in native_log.tail(2_000))
    with (
        Model(ModelOptions(path=tiny(TARGET), cache_type_v="q8_0")) as loaded,
        pytest.raises(UsageError, match="requires flash_attn"),
    ):
        new_context(loaded, flash_attn=FlashAttention.OFF)


def test_an_abort_between_the_pieces_of_a_prompt_forgets_all_of_it(model: Model) -> None:
    class AbortedAfterOnePiece(Context):
        def _decode_piece(self, piece: Sequence[int], outputs: Outputs, start: int) -> None:
            super()._decode_piece(piece, outputs, start)
            if len(piece) == 8:
                model.abort.set()

    options = ContextOptions(ctx_size=512, batch_size=8, threads=1)
    with AbortedAfterOnePiece(model, options, max_outputs=8) as context:
        context.decode(TOKENS[:5], Outputs.LAST)
        before = context.save()
        with pytest.raises(CancelledError):
            context.decode(TOKENS[5:], Outputs.LAST)
        model.abort.clear()
        assert context.n_past == 5
        assert context.save() == before
        with pytest.raises(IndexError):
            context.logits(0)


def test_target_samples_only_with_a_sampler(model: Model) -> None:
    options = ContextOptions(ctx_size=256, threads=1)
    with TargetContext(model, options, max_draft=4) as target:
        target.decode(TOKENS, Outputs.LAST)
        with pytest.raises(RuntimeError, match="no sampler"):
            target.sample(0)
        with SamplerChain(SamplingConfig(temp=0.0), model.vocabulary) as chain:
            target.sampler = chain
            assert target.sample(0) == target.logits(0).argmax()
        assert [target.is_eog(token) for token in (0, 1, 2, 3)] == [True, False, True, False]
        assert target.max_outputs == 5


def test_a_draft_proposes_what_the_target_knows_and_takes_all_of_its_tokens(
    tiny: TinyPath, model: Model
) -> None:
    def drafting(own: Model, target: Model) -> DraftContext:
        options, words = ContextOptions(ctx_size=256, threads=1), target.vocabulary
        return DraftContext(own, options, target_vocabulary=words)

    with Model(ModelOptions(path=tiny(Tiny(n_extra=128)))) as larger:
        with drafting(larger, model) as draft:
            beyond = 0
            for token in range(100):
                draft.clear()
                draft.decode((token,), Outputs.LAST)
                logits = draft.logits(0)
                beyond += int(logits.argmax() >= 273)
                assert draft.top() == top_token(logits[:273])
            assert beyond > 0
        with drafting(model, larger) as draft:
            draft.decode((20, 300, 21), Outputs.LAST)
            assert draft.n_past == 3
            assert draft.top()[0] < 273


def test_log_joins_pieces_to_lines_and_forgets_on_demand() -> None:
    log, heard = NativeLog(capacity=3), list[str]()
    log.listen(heard.append)
    for text in ("one\ntw", "o\n", b"three \xff\nfour\nfi".decode(errors="replace")):
        log._receive(2, text.encode(), ctypes.c_void_p(0))
    assert heard == ["one", "two", "three \N{REPLACEMENT CHARACTER}", "four"]
    assert log.tail(10) == tuple(heard[1:])
    assert log.tail(1) == ("four",)
    log.mark()
    assert log.tail(10) == ()

    def listener(line: str) -> None:
        heard.append(line)
        log.listen(None)

    # A listener may be taken away while it is told.
    log.listen(listener)
    log._receive(2, b"five\nsix\n", ctypes.c_void_p(0))
    log._receive(2, b"seven\n", ctypes.c_void_p(0))
    assert heard[4:] == ["five", "six"]
