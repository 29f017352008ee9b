"""A target and its drafts by what their headers say: all there is without a llama.cpp library."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from spectui.engine.commands import ComparePair
from spectui.errors import BadInputError
from spectui.models.facts import (
    ModelFacts,
    check_is_model,
    check_is_target,
    check_mtp_file,
    facts_of,
    kind_of_draft,
)
from spectui.models.gguf import FileIdentity, read_gguf
from spectui.models.header import GgufFile, tokens_of
from spectui.models.pairs import SpecialToken, incompatibility
from spectui.models.ranking import ModelInspected, read_share
from spectui.options.drafters import MTP_KIND

_NO_RULE = SpecialToken(id=-1, text="", added=False)
"""Whether BOS and EOS are added depends on llama.cpp where a header does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderDraft:
    """One draft beside the target."""

    name: str
    path: Path
    facts: ModelFacts | None
    """None where its file is unusable."""
    reason: str | None
    """Why it cannot serve; None if its header does not speak against it."""
    read_share: float | None
    """Weights that its token reads, as a share of what the target's reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderLook:
    """What headers say of a target and its drafts."""

    target: ModelFacts
    drafts: tuple[HeaderDraft, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Vocabulary:
    type_name: str
    n_tokens: int
    texts: Sequence[bytes]
    bos: SpecialToken = _NO_RULE
    eos: SpecialToken = _NO_RULE


def look_at_headers(target: Path, drafts: Mapping[str, Path]) -> HeaderLook:
    """Look at a target and at drafts for it.

    Raises:
        BadInputError: the target's file is unusable, or is no model that generates.
    """
    gguf = read_gguf(target)
    check_is_target(target, gguf)
    facts, vocabulary = facts_of(target, gguf), _vocabulary(target, gguf)
    looked_at = (_beside(facts, gguf, vocabulary, name, path) for name, path in drafts.items())
    return HeaderLook(target=facts, drafts=tuple(looked_at))


def compare_headers(command: ComparePair) -> ModelInspected:
    """Look at a draft, or at the target itself, beside a target; as ``Engine.compare``."""
    target, path = command.target, command.draft
    try:
        [draft] = look_at_headers(target, {path.stem: path}).drafts
    except BadInputError as error:
        return ModelInspected(target=target, path=path, facts=None, reason=str(error))
    return ModelInspected(target=target, path=path, facts=draft.facts, reason=draft.reason)


def _beside(
    target: ModelFacts, header: GgufFile, vocabulary: _Vocabulary, name: str, path: Path
) -> HeaderDraft:
    facts = None
    try:
        gguf = read_gguf(path)
        facts = facts_of(path, gguf)
        if kind_of_draft(gguf) == MTP_KIND:
            check_mtp_file(path, gguf, header)
            reason = None
        else:
            check_is_model(path, gguf)
            reason = incompatibility(vocabulary, _vocabulary(path, gguf))
    except BadInputError as error:
        reason = str(error)
    share = read_share(target, facts)
    return HeaderDraft(name=name, path=path, facts=facts, reason=reason, read_share=share)


def _vocabulary(path: Path, gguf: GgufFile) -> _Vocabulary:
    try:
        texts = _texts(FileIdentity.of(path))
    except OSError as error:
        raise BadInputError(f"{path} cannot be read ({error.strerror}); give another") from error
    return _Vocabulary(
        type_name=gguf.text("tokenizer.ggml.model") or "none", n_tokens=len(texts), texts=texts
    )


@lru_cache(maxsize=2)
def _texts(file: FileIdentity) -> Sequence[bytes]:
    """Texts of the vocabulary; a target's are compared with those of many drafts."""
    return tokens_of(file.path)
