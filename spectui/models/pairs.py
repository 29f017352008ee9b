"""Two models' tokens and chat templates beside each other. Pure: a screen need not load llama.cpp.

Whether a pair fits is llama.cpp's rule alone (``incompatibility``); a report says how near or far
the two are, also in what that rule does not look at.
"""

import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import islice

_MAX_SIZE_DIFFERENCE = 128
"""``SPEC_VOCAB_MAX_SIZE_DIFFERENCE`` of llama.cpp's ``common/speculative.cpp``."""
_FIRST_COMPARED_TOKEN = 5
"""``SPEC_VOCAB_CHECK_START_TOKEN_ID``."""
_N_DIFFERENCES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """One entry of a vocabulary."""

    id: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecialToken:
    """A token that the tokenizer adds by itself, and whether it does."""

    id: int
    """-1 for none, as llama.cpp's ``LLAMA_TOKEN_NULL``."""
    text: str
    """Empty for none."""
    added: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """A model without its weights, as far as a pair is concerned, and as its file describes it."""

    type_name: str
    """Family of the tokenizer, as llama.cpp names it."""
    pre: str | None = None
    """``tokenizer.ggml.pre``, how text is cut before tokens are made of it; None if not said."""
    n_tokens: int
    bos: SpecialToken
    eos: SpecialToken
    end_tokens: tuple[Token, ...] = ()
    """All that end a generation (``llama_vocab_is_eog``): EOS, EOT, EOM and their like, by id."""
    texts: Sequence[bytes] = ()
    """Texts of all tokens, by id; none in a report, as they take megabytes."""
    chat_template: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenDifference:
    """An id that stands for different texts."""

    id: int
    target: str
    draft: str


class Templates(StrEnum):
    """Comparison of two models' chat templates."""

    EQUAL = "equal"
    DIFFERENT = "different"
    MISSING_IN_TARGET = "missing in the target"
    MISSING_IN_DRAFT = "missing in the draft"
    MISSING = "missing in both"


@dataclass(frozen=True, slots=True, kw_only=True)
class PairReport:
    """Comparison of a target and a draft."""

    target: Outline
    draft: Outline
    n_equal: int
    """Ids that stand for the same text in both."""
    differences: tuple[TokenDifference, ...]
    """The first five. llama.cpp's rule passes over the ids below 5; this does not."""
    templates: Templates
    """The draft never sees its own: it continues what the target's template has made."""
    reason: str | None
    """Why llama.cpp refuses the pair, None if it does not."""

    @property
    def fits(self) -> bool:
        """Whether llama.cpp accepts the pair."""
        return self.reason is None

    @property
    def overlap_percent(self) -> float | None:
        """Ids that stand for the same text, in percent of the smaller vocabulary.

        Of the smaller one, because llama.cpp compares the ids that both have: what the larger one
        has beyond them, mostly padding, can neither be drafted nor be understood, and costs no
        agreement. None where one has no tokens.
        """
        n_shared = min(self.target.n_tokens, self.draft.n_tokens)
        return 100 * self.n_equal / n_shared if n_shared else None

    @property
    def target_ends(self) -> tuple[Token, ...]:
        """Tokens that end a generation for the target only."""
        return tuple(t for t in self.target.end_tokens if t not in self.draft.end_tokens)

    @property
    def draft_ends(self) -> tuple[Token, ...]:
        """Tokens that end a generation for the draft only."""
        return tuple(t for t in self.draft.end_tokens if t not in self.target.end_tokens)


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
    compared = _differences(target.texts, draft.texts)
    first = next((one for one in compared if one.id >= _FIRST_COMPARED_TOKEN), None)
    if first is None:
        return None
    return f"token {first.id} differs: {first.target!r} (target), {first.draft!r} (draft)"


def report(target: Outline, draft: Outline) -> PairReport:
    """Put two models beside each other."""
    return PairReport(
        target=replace(target, texts=(), chat_template=None),
        draft=replace(draft, texts=(), chat_template=None),
        n_equal=sum(map(operator.eq, target.texts, draft.texts)),
        differences=tuple(islice(_differences(target.texts, draft.texts), _N_DIFFERENCES)),
        templates=_templates(target.chat_template, draft.chat_template),
        reason=incompatibility(target, draft),
    )


def readable(text: bytes) -> str:
    """A token's text as characters; what is no UTF-8 becomes U+FFFD."""
    return text.decode(errors="replace")


def _differences(target: Sequence[bytes], draft: Sequence[bytes]) -> Iterator[TokenDifference]:
    for id_, (ours, theirs) in enumerate(zip(target, draft, strict=False)):
        if ours != theirs:
            yield TokenDifference(id=id_, target=readable(ours), draft=readable(theirs))


def _templates(target: str | None, draft: str | None) -> Templates:
    if target is None:
        return Templates.MISSING if draft is None else Templates.MISSING_IN_TARGET
    if draft is None:
        return Templates.MISSING_IN_DRAFT
    return Templates.EQUAL if target == draft else Templates.DIFFERENT
