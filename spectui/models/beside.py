"""A draft beside a target, by what their headers say: all there is without a llama.cpp library."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from spectui.errors import BadInputError
from spectui.models.facts import (
    ModelFacts,
    check_hidden_states,
    check_is_model,
    check_mtp_file,
    facts_of,
)
from spectui.models.gguf import FileIdentity, read_gguf, vocabulary
from spectui.models.header import GgufFile
from spectui.models.pairs import Outline, SpecialToken, incompatibility
from spectui.models.ranking import ModelInspected
from spectui.options.drafters import MTP_KIND


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
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
    return vocabulary(file.path)


def unfitness(target: Header, draft: Header, *, here: bool = True) -> str | None:
    """Reason why a draft cannot serve a target, as far as headers tell; None if it can.

    BOS and EOS are compared where both headers say whether they are added: what llama.cpp does
    otherwise depends on the tokenizer.

    Args:
        target: the model that is drafted for.
        draft: the draft.
        here: whether it shall draft in this process, where EAGLE-3 and its like cannot.
    """
    path, kind = draft.facts.path, draft.facts.draft_kind
    try:
        if kind == MTP_KIND:
            check_mtp_file(path, draft.gguf, target.gguf)
        elif here or kind is None:
            check_is_model(path, draft.gguf)
            ours, theirs = _vocabulary(target, draft), _vocabulary(draft, target)
            return incompatibility(ours, theirs)
        else:
            check_hidden_states(path, draft.gguf, target.gguf)
    except BadInputError as error:
        return str(error)
    return None


def inspected(target: Header, draft: Header, *, here: bool = True) -> ModelInspected:
    """Look at a draft beside a target; arguments as those of ``unfitness``."""
    return ModelInspected(
        target=target.facts.path,
        path=draft.facts.path,
        facts=draft.facts,
        reason=unfitness(target, draft, here=here),
    )


def _vocabulary(model: Header, other: Header) -> Outline:
    bos, eos = (_special(model.gguf, other.gguf, name) for name in ("bos", "eos"))
    type_name = model.gguf.text("tokenizer.ggml.model") or "none"
    n_tokens = len(model.texts)
    return Outline(type_name=type_name, n_tokens=n_tokens, bos=bos, eos=eos, texts=model.texts)


def _special(gguf: GgufFile, other: GgufFile, name: str) -> SpecialToken:
    key = f"tokenizer.ggml.add_{name}_token"
    added, _ = rules = gguf.metadata.get(key), other.metadata.get(key)
    if None in rules:
        return SpecialToken(id=-1, text="", added=False)
    id_ = gguf.metadata.get(f"tokenizer.ggml.{name}_token_id", -1)
    return SpecialToken(id=int(id_), text="", added=bool(added))
