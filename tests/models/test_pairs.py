"""Two models beside each other: what differs, and llama.cpp's verdict on it."""

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spectui.llama.architectures import inspect_pair
from spectui.llama.model import Model
from spectui.llama.plan import outline as outline_of
from spectui.models.pairs import (
    Outline,
    PairReport,
    SpecialToken,
    Templates,
    Token,
    TokenDifference,
    report,
)
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


def pair(target: Tiny, draft: Tiny) -> PairReport:
    """What llama.cpp reports of two files' vocabularies; headers have to tell the same verdict."""
    outlines = []
    with tempfile.TemporaryDirectory() as folder:
        for number, recipe in enumerate((target, draft)):
            path = Path(folder) / f"{number}.gguf"
            write_tokenizer(recipe, path)
            with Model(ModelOptions(path=path), vocab_only=True) as model:
                outlines.append(outline_of(model))
    found = report(*outlines)
    assert found.reason == compared(target, draft).reason
    return found


def test_equal_tokenizers_agree_in_all() -> None:
    found = pair(Tiny(), Tiny(seed=3))
    assert found.fits
    assert found.target == found.draft
    assert found.overlap_percent == 100
    assert found.differences == ()
    assert found.target_ends == found.draft_ends == ()
    assert found.templates is Templates.EQUAL
    tokenizer = found.target
    assert (tokenizer.type_name, tokenizer.pre, tokenizer.n_tokens) == ("BPE", "smollm", N_TOKENS)
    assert tokenizer.bos == SpecialToken(id=1, text="<|im_start|>", added=False)
    assert tokenizer.end_tokens == (
        Token(id=0, text="<|endoftext|>"),
        Token(id=2, text="<|im_end|>"),
    )


def test_a_changed_token_is_shown_with_both_texts() -> None:
    found = pair(Tiny(), Tiny(renamed=(9, "other")))
    text = vocabulary(Tiny())[9]
    assert found.reason == f"token 9 differs: {text!r} (target), 'other' (draft)"
    assert found.n_equal == N_TOKENS - 1
    assert found.differences == (TokenDifference(id=9, target=text, draft="other"),)
    # Llama.cpp passes over those below 5.
    found = pair(Tiny(), Tiny(renamed=(4, "<|other|>")))
    assert found.fits
    assert [one.id for one in found.differences] == [4]


def test_another_order_shares_the_texts_but_not_the_ids() -> None:
    found = pair(Tiny(), Tiny(is_reversed=True))
    assert found.reason is not None
    # Reversing leaves the middle one where it is, if there is one.
    assert found.n_equal == N_SPECIAL + (N_TOKENS - N_SPECIAL) % 2
    assert [one.id for one in found.differences] == [5, 6, 7, 8, 9]


def test_another_type_and_another_pre_tokenizer_are_told() -> None:
    found = pair(Tiny(), Tiny(tokenizer="llama"))
    assert found.reason == "the tokenizers differ: BPE (target), SPM (draft)"
    assert found.draft.type_name == "SPM"
    found = pair(Tiny(), Tiny(pre="qwen2"))
    assert found.fits
    assert (found.target.pre, found.draft.pre) == ("smollm", "qwen2")
    # So are tokens that end the text of one only.
    found = pair(Tiny(), Tiny(renamed=(3, "<|eot_id|>")))
    assert found.fits
    assert (found.target_ends, found.draft_ends) == ((), (Token(id=3, text="<|eot_id|>"),))


def test_another_bos_is_told_even_where_it_does_not_count() -> None:
    found = pair(Tiny(), Tiny(bos=3))
    assert found.fits
    assert found.draft.bos == SpecialToken(id=3, text="<|pad|>", added=False)
    refused = pair(Tiny(add_bos=True), Tiny(add_bos=True, bos=3))
    assert refused.reason == "the BOS tokens differ: 1 (target), 3 (draft)"
    for ours, who in ((True, "target"), (False, "draft")):
        refused = pair(Tiny(add_bos=ours), Tiny(add_bos=not ours))
        assert refused.reason == f"the BOS rules differ: added by the {who} only"
    for target, draft in ((0, 129), (129, 0)):
        refused = pair(Tiny(n_extra=target), Tiny(n_extra=draft))
        sizes = f"{273 + target} (target), {273 + draft} (draft)"
        told = f"the vocabularies differ in size: {sizes}, at most 128 apart is allowed"
        assert refused.reason == told


def test_different_templates_are_told_and_do_not_matter() -> None:
    other = CHATML.replace("<|im_end|>", "<|eot_id|>")
    for target, draft, templates in (
        (CHATML, other, Templates.DIFFERENT),
        (None, None, Templates.MISSING),
        (CHATML, None, Templates.MISSING_IN_DRAFT),
        (None, CHATML, Templates.MISSING_IN_TARGET),
    ):
        found = pair(Tiny(chat_template=target), Tiny(chat_template=draft))
        assert (found.fits, found.templates) == (True, templates)


def test_a_model_without_tokens_or_with_one_twice_is_refused_and_llama_cpp_lives_on(
    tiny: TinyPath,
) -> None:
    told = compared(Tiny(tokenizer="none"), Tiny(tokenizer="none"))
    assert "is a model without a tokenizer" in str(told.reason)
    told = compared(Tiny(), Tiny(renamed=(9, vocabulary(Tiny())[8])))
    assert str(told.reason).endswith(
        "is damaged: its tokens are no list of different texts; download it again"
    )
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
    found = pair(*(models if is_target else models[::-1]))
    assert found.fits
    n_tokens = {found.target.n_tokens, found.draft.n_tokens}
    assert n_tokens == {N_TOKENS, N_TOKENS + n_extra}
    assert found.overlap_percent == 100
    assert found.differences == ()


@SLOW_DISK
@given(token=st.integers(N_SPECIAL, N_TOKENS - 1), n_extra=st.integers(0, 128), ours=st.booleans())
def test_a_changed_token_is_always_refused_with_its_id(
    token: int, n_extra: int, *, ours: bool
) -> None:
    changed = Tiny(renamed=(token, "an other"))
    models = (replace(changed, n_extra=n_extra), Tiny())
    found = pair(*(models if ours else models[::-1]))
    assert str(found.reason).startswith(f"token {token} differs: ")
    assert [one.id for one in found.differences] == [token]


# Without files

texts = st.lists(st.binary(max_size=2), max_size=40)


def outline(tokens: list[bytes], template: str | None = None) -> Outline:
    none = SpecialToken(id=-1, text="", added=False)
    own: dict[str, Any] = {"texts": tokens, "n_tokens": len(tokens), "chat_template": template}
    return Outline(type_name="BPE", pre=None, bos=none, eos=none, end_tokens=(), **own)


@given(texts, texts)
def test_counts_are_those_of_a_plain_loop(target: list[bytes], draft: list[bytes]) -> None:
    found = report(outline(target), outline(draft))
    n_shared = min(len(target), len(draft))
    differing = [i for i in range(n_shared) if target[i] != draft[i]]
    assert found.n_equal == n_shared - len(differing)
    assert [one.id for one in found.differences] == differing[:5]
    assert (found.overlap_percent is None) == (n_shared == 0)
