"""Checks by header, and by what llama.cpp knows, whether a model can continue a text."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from spectui.errors import BadInputError, MissingLibraryError
from spectui.llama.library import C
from spectui.llama.native import ensure_backend, native_function
from spectui.models.facts import ModelFacts, check_is_target, facts_of
from spectui.models.gguf import read_gguf
from spectui.models.header import GgufFile
from spectui.models.pairs import compare_headers, header_of
from spectui.models.ranking import ModelInspected
from spectui.speculative.models import Rollback, unserved

_NO_TOKENIZER = frozenset({None, "none", "no_vocab"})
"""Values of ``tokenizer.ggml.model`` for which llama.cpp has no tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """An architecture, as llama.cpp knows it."""

    is_known: bool | None
    """None where there is no library to ask."""
    kind: str | None
    """Kind of model that does not generate; None for one that does."""
    has_state: bool = False
    """Whether its models keep a recurrent state, which cannot forget single tokens."""


@cache
def architecture(name: str) -> Architecture:
    """Ask llama.cpp about ``general.architecture``, instead of keeping a list here.

    llama.cpp gets a model that consists of this name alone: it reads no file and no vocabulary.
    """
    try:
        ensure_backend()
    except MissingLibraryError:
        return Architecture(is_known=None, kind=None)
    params = C.llama_model_default_params()
    params.vocab_only = True
    about = {"general.architecture": name, "tokenizer.ggml.model": "none"}
    with _metadata(about) as metadata:
        no_weights = C.llama_model_set_tensor_data_t()
        model = C.llama_model_init_from_user(metadata, no_weights, None, params)
        if not model:
            return Architecture(is_known=False, kind=None)
        try:
            has_state = C.llama_model_is_recurrent(model) or C.llama_model_is_hybrid(model)
            return Architecture(is_known=True, kind=_kind_of(model), has_state=has_state)
        finally:
            C.llama_model_free(model)


def _kind_of(model: object) -> str | None:
    """Kind of a ``llama_model`` that does not generate, None for one that does."""
    if C.llama_model_has_encoder(model) or not C.llama_model_has_decoder(model):
        return "an encoder model"
    if C.llama_model_is_diffusion(model):
        return "a diffusion model"
    return None


def check_generates(path: Path, gguf: GgufFile) -> None:
    """Refuse models that cannot continue a text, as far as their headers tell.

    Raises:
        BadInputError: an embedding, encoder or diffusion model, or one without a tokenizer.
    """
    name = str(gguf.metadata.get("general.architecture", ""))
    is_causal = gguf.metadata.get(f"{name}.attention.causal", True)
    is_pooled = gguf.metadata.get(f"{name}.pooling_type", 0)
    known = architecture(name)
    if known.is_known is False:
        # Loading reports it.
        return
    kind = "an embedding model" if is_pooled or not is_causal else known.kind
    if kind is None and gguf.metadata.get("tokenizer.ggml.model") in _NO_TOKENIZER:
        kind = "a model without a tokenizer"
    if kind is not None:
        raise BadInputError(
            f"{path} is {kind} ({name}), which cannot continue a text; give a model that generates"
        )


def inspect_header(path: Path) -> ModelInspected:
    """Describe a model by its file's header, and whether it can continue a text."""
    facts = reason = None
    try:
        gguf = read_gguf(path)
        facts = facts_of(path, gguf)
        check_is_target(path, gguf)
        _check_loadable(path, gguf, facts)
        check_generates(path, gguf)
    except BadInputError as error:
        reason = str(error)
    return ModelInspected(target=path, path=path, facts=facts, reason=reason)


def _check_loadable(path: Path, gguf: GgufFile, facts: ModelFacts) -> None:
    """Refuse a file that is cut short, or of an architecture that this llama.cpp does not know.

    Raises:
        BadInputError: it is such a file.
    """
    if facts.size_bytes > facts.file_bytes:
        raise BadInputError(f"{path} is smaller than its weights; download it again")
    name = str(gguf.metadata.get("general.architecture", ""))
    if architecture(name).is_known is False:
        raise BadInputError(
            f"{path} cannot be loaded (this llama.cpp runs no architecture {name!r}); check "
            "that the download is complete, or give another model"
        )


def inspect_pair(target: Path, draft: Path) -> ModelInspected:
    """Compare a draft with its target by their headers; the same file twice inspects one model.

    For an unusable target the result is the target's own, as if it were its draft.
    """
    own = inspect_header(target)
    if own.reason is not None or own.facts is None or draft == target:
        return own
    pair = compare_headers(header_of(target), draft)
    if pair.facts is None or pair.facts.draft_kind is not None:
        # MTP layers: their cache forgets, whatever other layers their architecture has.
        return pair
    alone = inspect_header(draft)
    if alone.reason is not None:
        return replace(alone, target=target, facts=None)
    reason = pair.reason or unserved(_rollback(own.facts), _rollback(pair.facts))
    return replace(pair, reason=reason)


def _rollback(facts: ModelFacts) -> Rollback:
    return Rollback.CHECKPOINT if architecture(facts.arch).has_state else Rollback.TRUNCATE


@contextmanager
def _metadata(entries: dict[str, str]) -> Iterator[int]:
    """A ``gguf_context`` of a few texts, without a file."""
    pointer, text = ctypes.c_void_p, ctypes.c_char_p
    context = native_function("gguf_init_empty", pointer)()
    try:
        for key, value in entries.items():
            add = native_function("gguf_set_val_str", None, pointer, text, text)
            add(context, key.encode(), value.encode())
        yield context
    finally:
        native_function("gguf_free", None, pointer)(context)
