"""Looking at models without loading their weights: metadata, tokens, whether a pair fits."""

import re
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path

from spectui.config import ModelOptions
from spectui.engine.commands import ComparePair
from spectui.engine.events import PairCompared
from spectui.errors import BadInputError, DoesNotFitError
from spectui.llama.draft_files import check_is_model, check_is_target
from spectui.llama.gguf_file import check_tokens, read_gguf
from spectui.llama.model import Model, file_size
from spectui.llama.vocabulary import incompatibility
from spectui.models import pairs
from spectui.models.pairs import Outline, Token, Tokenizer, readable
from spectui.models.ranking import ModelFacts

_UNREADABLE = (BadInputError, DoesNotFitError)
"""A damaged header may ask for more memory than there is."""
_BYTES_PER_CACHE_ELEMENT = 2
"""Of an f16 cache."""


class Inspector:
    """Compares drafts with a target, whose vocabulary stays open for the next draft."""

    def __init__(self) -> None:
        """Nothing is open yet."""
        self._target: Model | None = None

    def compare(self, command: ComparePair, cancelled: Callable[[], bool]) -> PairCompared:
        """Apply llama.cpp's own rule to the two vocabularies.

        A target that cannot be read is told as the draft of itself. A model that is compared with
        itself is opened once.

        Raises:
            CancelledError: ``cancelled`` said so.
        """
        try:
            target = self._open_target(command.target, cancelled)
        except _UNREADABLE as error:
            path = command.target
            return PairCompared(target=path, draft=path, facts=None, reason=str(error))
        facts = reason = report = None
        is_itself = command.draft == command.target
        try:
            if not is_itself:
                check_is_model(command.draft, read_gguf(command.draft))
            opened: AbstractContextManager[Model] = (
                nullcontext(target) if is_itself else _open(command.draft, cancelled)
            )
            with opened as draft:
                facts = _facts(draft)
                reason = _misfit(target, draft)
                if command.in_detail:
                    report = pairs.report(_outline(target), _outline(draft), reason)
                draft.check_generates()
        except _UNREADABLE as error:
            reason = str(error)
        return PairCompared(
            target=command.target, draft=command.draft, facts=facts, reason=reason, report=report
        )

    def _open_target(self, path: Path, cancelled: Callable[[], bool]) -> Model:
        if self._target is None or self._target.options.path != path:
            self.close()
            check_is_target(path, read_gguf(path))
            self._target = _open(path, cancelled)
        return self._target

    def close(self) -> None:
        """Close the target."""
        if self._target is not None:
            self._target.close()
            self._target = None


def _open(path: Path, cancelled: Callable[[], bool]) -> Model:
    check_tokens(path)
    return Model(ModelOptions(path=path), cancelled=cancelled, vocab_only=True)


def _misfit(target: Model, draft: Model) -> str | None:
    return None if draft is target else incompatibility(target.vocabulary, draft.vocabulary)


def _outline(model: Model) -> Outline:
    vocabulary = model.vocabulary
    ends = sorted(vocabulary.end_tokens)
    tokenizer = Tokenizer(
        type_name=vocabulary.type_name,
        pre=model.metadata("tokenizer.ggml.pre"),
        n_tokens=vocabulary.n_tokens,
        bos=vocabulary.bos,
        eos=vocabulary.eos,
        end_tokens=tuple(Token(id=id_, text=readable(vocabulary.text(id_))) for id_ in ends),
    )
    return Outline(tokenizer=tokenizer, texts=vocabulary.texts, chat_template=model.chat_template)


def _facts(model: Model) -> ModelFacts:
    info = model.info
    return ModelFacts(
        path=info.path,
        arch=info.arch,
        name=info.name,
        n_params=_n_params(model),
        size_bytes=file_size(info.path),
        n_layers=_number(model, "block_count"),
        # llama.cpp reads it with the weights only.
        n_ctx_train=_number(model, "context_length"),
        n_vocab=info.n_vocab,
        kv_bytes_per_token=_kv_bytes_per_token(model),
        n_experts=_number(model, "expert_count"),
    )


def _n_params(model: Model) -> int | None:
    """From the size label, such as 135M or 30B-A3B: without weights nothing can be counted."""
    label = model.metadata("general.size_label") or ""
    match = re.match(r"(?:(\d+)x)?([\d.]+)([KMBT])", label)
    if match is None:
        return None
    scale = {"K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}[match[3]]
    return round(int(match[1] or 1) * float(match[2]) * scale)


def _kv_bytes_per_token(model: Model) -> int | None:
    """Of an f16 cache; None where layers differ, so that one number does not tell."""
    n_layers, n_heads = _number(model, "block_count"), _number(model, "attention.head_count")
    n_heads_kv = _number(model, "attention.head_count_kv") or n_heads
    n_embd = _number(model, "embedding_length")
    if not (n_layers and n_heads and n_heads_kv and n_embd):
        return None
    key = _number(model, "attention.key_length") or n_embd // n_heads
    value = _number(model, "attention.value_length") or n_embd // n_heads
    return n_layers * n_heads_kv * (key + value) * _BYTES_PER_CACHE_ELEMENT


def _number(model: Model, key: str) -> int:
    """A number of the model's own metadata, 0 where it lacks the key or has a list there."""
    text = model.metadata(f"{model.info.arch}.{key}")
    with suppress(TypeError, ValueError):
        return int(text or 0)
    return 0
