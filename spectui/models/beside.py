"""A draft beside a target, by what their headers say: all there is without a llama.cpp library."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from spectui.errors import BadInputError, HubError
from spectui.models.facts import ModelFacts, check_is_model, check_mtp, facts_of
from spectui.models.gguf import FileIdentity, read_gguf
from spectui.models.header import GgufFile, read_header
from spectui.models.pairs import Outline, SpecialToken, incompatibility
from spectui.models.ranking import ModelInspected
from spectui.options.drafters import MTP_KIND


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
    """Look at a draft beside a target, as far as headers tell.

    BOS and EOS are compared where both headers say whether they are added: what llama.cpp does
    otherwise depends on the tokenizer.

    Args:
        target: the model that is drafted for.
        path: the draft.
        read: reads its header.
        here: whether it shall draft in this process, where EAGLE-3 and its like cannot.
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
