"""Checks by headers whether a draft can serve a target: the same tokens, and a fitting kind.

Works without a llama.cpp library.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from spectui.errors import BadInputError, HubError
from spectui.models.facts import ModelFacts, check_is_model, check_mtp, facts_of
from spectui.models.gguf import FileIdentity, read_gguf
from spectui.models.header import GgufFile, read_header
from spectui.models.ranking import ModelInspected
from spectui.options.drafters import MTP_KIND

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
    """Return why a draft cannot serve a target; None if it can.

    llama.cpp's own rule, ``common_speculative_are_compatible``: same tokenizer type, same BOS and
    EOS where they are added, sizes at most 128 apart, equal token texts from id 5 on.
    """
    if target.type_name != draft.type_name:
        return f"the tokenizers differ: {target.type_name} (target), {draft.type_name} (draft)"
    for name, own, other in (
        ("BOS", target.bos, draft.bos),
        ("EOS", target.eos, draft.eos),
    ):
        if own.added != other.added:
            return (
                f"the {name} rules differ: added by the {'target' if own.added else 'draft'} only"
            )
        if own.added and own.id != other.id:
            return f"the {name} tokens differ: {own.id} (target), {other.id} (draft)"
    if abs(target.n_tokens - draft.n_tokens) > _MAX_SIZE_DIFFERENCE:
        return (
            f"the vocabularies differ in size: {target.n_tokens} (target), {draft.n_tokens} "
            f"(draft), at most {_MAX_SIZE_DIFFERENCE} apart is allowed"
        )
    for id_, texts in enumerate(zip(target.texts, draft.texts, strict=False)):
        if id_ >= _FIRST_COMPARED_TOKEN and texts[0] != texts[1]:
            own_text, other_text = (one.decode(errors="replace") for one in texts)
            return f"token {id_} differs: {own_text!r} (target), {other_text!r} (draft)"
    return None


class Header(NamedTuple):
    """The header of a model, on disk or on a hub."""

    gguf: GgufFile
    facts: ModelFacts
    texts: Sequence[bytes]
    """Texts of the vocabulary, by id; none where the file has no list of them."""


def header_of(path: Path) -> Header:
    """Read the header of a model on disk.

    Raises:
        BadInputError: the file is unusable.
    """
    gguf = read_gguf(path)
    return Header(gguf=gguf, facts=facts_of(path, gguf), texts=_texts(FileIdentity.of(path)))


@lru_cache(maxsize=2)
def _texts(file: FileIdentity) -> Sequence[bytes]:
    """Texts of the vocabulary; a target's are compared with those of many drafts."""
    tokens: list[bytes] = []
    read_header(file.path, tokens.append)
    return tokens


def compare_headers(
    target: Header, path: Path, read: Callable[[Path], Header] = header_of, *, here: bool = True
) -> ModelInspected:
    """Inspect a draft beside a target, by their headers alone.

    BOS and EOS are compared where both headers say whether they are added: what llama.cpp does
    otherwise depends on the tokenizer.

    Args:
        target: the model that is drafted for.
        path: the draft.
        read: reads its header.
        here: whether it is to draft in this process, where EAGLE-3, DFlash and DSpark cannot.
    """
    facts = reason = None
    try:
        draft = read(path)
        facts = draft.facts
        if facts.draft_kind == MTP_KIND:
            check_mtp(path, draft.gguf, target.gguf)
        elif here:
            check_is_model(path, draft.gguf)
        if facts.draft_kind in {None, MTP_KIND}:
            reason = incompatibility(_vocabulary(target, draft), _vocabulary(draft, target))
    except (BadInputError, HubError) as error:
        reason = str(error)
    return ModelInspected(target=target.facts.path, path=path, facts=facts, reason=reason)


def _vocabulary(model: Header, other: Header) -> Outline:
    bos, eos = (_special(model.gguf, other.gguf, name) for name in ("bos", "eos"))
    type_name, texts = model.gguf.text("tokenizer.ggml.model") or "none", model.texts
    return Outline(type_name=type_name, n_tokens=len(texts), bos=bos, eos=eos, texts=texts)


def _special(gguf: GgufFile, other: GgufFile, name: str) -> SpecialToken:
    key = f"tokenizer.ggml.add_{name}_token"
    added, _ = rules = gguf.metadata.get(key), other.metadata.get(key)
    if None in rules:
        return SpecialToken(id=-1, added=False)
    id_ = gguf.metadata.get(f"tokenizer.ggml.{name}_token_id", -1)
    return SpecialToken(id=int(id_), added=bool(added))
