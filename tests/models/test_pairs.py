"""A draft beside a target: llama.cpp's rule, from loaded vocabularies and from headers."""

import tempfile
from dataclasses import replace
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spectui.llama.architectures import inspect_pair
from spectui.llama.model import Model
from spectui.models.pairs import incompatibility
from spectui.models.ranking import ModelInspected
from spectui.options.setup import ModelOptions
from tests.support.models import CHATML, Tiny, TinyPath, vocabulary, write_tokenizer

pytest_plugins = ["tests.support.fixtures"]

N_TOKENS = len(vocabulary(Tiny()))
N_SPECIAL = 5


def compared(target: Tiny, draft: Tiny) -> ModelInspected:
    with tempfile.TemporaryDirectory() as folder:
        paths = Path(folder) / "target.gguf", Path(folder) / "draft.gguf"
        for recipe, path in zip((target, draft), paths, strict=True):
            write_tokenizer(recipe, path)
        return inspect_pair(*paths)


def reason_of(target: Tiny, draft: Tiny) -> str | None:
    """The rule on two vocabularies that llama.cpp has; headers have to tell the same."""
    outlines = []
    with tempfile.TemporaryDirectory() as folder:
        for number, recipe in enumerate((target, draft)):
            path = Path(folder) / f"{number}.gguf"
            write_tokenizer(recipe, path)
            with Model(ModelOptions(path=path), vocab_only=True) as model:
                outlines.append(model.vocabulary.outline)
    reason, told = incompatibility(*outlines), compared(target, draft).reason
    # Headers have other names for kinds of tokenizers.
    said = "the tokenizers differ: "
    assert told == reason or (said in str(told) and said in str(reason))
    return reason


def test_equal_tokenizers_fit() -> None:
    other = CHATML.replace("<|im_end|>", "<|eot_id|>")
    for draft in (
        Tiny(seed=3),
        Tiny(pre="qwen2"),
        Tiny(chat_template=other),
        Tiny(bos=3),
        # llama.cpp passes over the ids below 5.
        Tiny(renamed=(4, "<|other|>")),
    ):
        assert reason_of(Tiny(), draft) is None


def test_what_differs_is_told() -> None:
    text = vocabulary(Tiny())[9]
    for target, draft, reason in (
        (Tiny(), Tiny(renamed=(9, "ox")), f"token 9 differs: {text!r} (target), 'ox' (draft)"),
        (Tiny(), Tiny(tokenizer="llama"), "the tokenizers differ: BPE (target), SPM (draft)"),
        (
            Tiny(add_bos=True),
            Tiny(add_bos=True, bos=3),
            "the BOS tokens differ: 1 (target), 3 (draft)",
        ),
        (Tiny(add_bos=True), Tiny(add_bos=False), "the BOS rules differ: added by the target only"),
        (Tiny(add_bos=False), Tiny(add_bos=True), "the BOS rules differ: added by the draft only"),
        *(
            (
                Tiny(n_extra=ours),
                Tiny(n_extra=theirs),
                (
                    f"the vocabularies differ in size: {273 + ours} (target), {273 + theirs} "
                    "(draft), at most 128 apart is allowed"
                ),
            )
            for ours, theirs in ((0, 129), (129, 0))
        ),
    ):
        assert reason_of(target, draft) == reason


def test_a_model_without_tokens_is_refused_and_llama_cpp_lives_on(tiny: TinyPath) -> None:
    told = compared(Tiny(tokenizer="none"), Tiny(tokenizer="none"))
    assert "is a model without a tokenizer" in str(told.reason)
    path = tiny(Tiny(n_experts=4))
    told = inspect_pair(path, path)
    assert (told.reason, told.facts is None) == (None, False)


SLOW_DISK = settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@SLOW_DISK
@given(n_extra=st.integers(0, 128), is_target=st.booleans())
def test_padding_alone_is_always_accepted(n_extra: int, *, is_target: bool) -> None:
    models = (Tiny(n_extra=n_extra), Tiny())
    assert reason_of(*(models if is_target else models[::-1])) is None


@SLOW_DISK
@given(token=st.integers(N_SPECIAL, N_TOKENS - 1), n_extra=st.integers(0, 128), ours=st.booleans())
def test_a_changed_token_is_always_refused_with_its_id(
    token: int, n_extra: int, *, ours: bool
) -> None:
    changed = Tiny(renamed=(token, "an other"))
    models = (replace(changed, n_extra=n_extra), Tiny())
    reason = reason_of(*(models if ours else models[::-1]))
    assert str(reason).startswith(f"token {token} differs: ")
