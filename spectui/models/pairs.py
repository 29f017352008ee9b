"""llama.cpp's rule for pairs: whether a draft's tokens are those of its target. Pure."""

from collections.abc import Sequence
from typing import NamedTuple

_MAX_SIZE_DIFFERENCE = 128
"""``SPEC_VOCAB_MAX_SIZE_DIFFERENCE`` of llama.cpp's ``common/speculative.cpp``."""
_FIRST_COMPARED_TOKEN = 5
"""``SPEC_VOCAB_CHECK_START_TOKEN_ID``."""


class SpecialToken(NamedTuple):
    """A token that the tokenizer adds by itself, and whether it does."""

    id: int
    """-1 for none, as llama.cpp's ``LLAMA_TOKEN_NULL``."""
    added: bool


class Outline(NamedTuple):
    """A model's vocabulary, as far as a pair is concerned."""

    type_name: str
    """Family of the tokenizer, as llama.cpp names it."""
    n_tokens: int
    bos: SpecialToken
    eos: SpecialToken
    texts: Sequence[bytes]
    """Texts of all tokens, by id."""


def incompatibility(target: Outline, draft: Outline) -> str | None:
    """Say why a draft cannot serve a target, None if it can.

    llama.cpp's own rule, ``common_speculative_are_compatible``: same tokenizer type, same BOS and
    EOS where they are added, sizes at most 128 apart, equal token texts from id 5 on.
    """
    if target.type_name != draft.type_name:
        return f"the tokenizers differ: {target.type_name} (target), {draft.type_name} (draft)"
    for name, ours, theirs in (
        ("BOS", target.bos, draft.bos),
        ("EOS", target.eos, draft.eos),
    ):
        if ours.added != theirs.added:
            return (
                f"the {name} rules differ: added by the {'target' if ours.added else 'draft'} only"
            )
        if ours.added and ours.id != theirs.id:
            return f"the {name} tokens differ: {ours.id} (target), {theirs.id} (draft)"
    if abs(target.n_tokens - draft.n_tokens) > _MAX_SIZE_DIFFERENCE:
        return (
            f"the vocabularies differ in size: {target.n_tokens} (target), {draft.n_tokens} "
            f"(draft), at most {_MAX_SIZE_DIFFERENCE} apart is allowed"
        )
    for id_, (own, other) in enumerate(zip(target.texts, draft.texts, strict=False)):
        if id_ >= _FIRST_COMPARED_TOKEN and own != other:
            ours_shown, theirs_shown = (one.decode(errors="replace") for one in (own, other))
            return f"token {id_} differs: {ours_shown!r} (target), {theirs_shown!r} (draft)"
    return None
