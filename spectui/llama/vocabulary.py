"""A model's vocabulary: text to tokens and back, and whether two models can share tokens."""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from spectui.llama.c import C

_MAX_SIZE_DIFFERENCE = 128
"""``SPEC_VOCAB_MAX_SIZE_DIFFERENCE`` of llama.cpp's ``common/speculative.cpp``."""
_FIRST_COMPARED_TOKEN = 5
"""``SPEC_VOCAB_CHECK_START_TOKEN_ID``."""

_TYPE_NAMES = {0: "none", 1: "SPM", 2: "BPE", 3: "WPM", 4: "UGM", 5: "RWKV", 6: "PLaMo2"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecialToken:
    """A token that the tokenizer adds by itself, and whether it does."""

    id: int
    added: bool


class Vocabulary:
    """Wraps ``llama_vocab``. Valid as long as its model is open."""

    def __init__(self, model: object) -> None:
        """Take the vocabulary of a ``llama_model`` pointer."""
        self._vocab = C.llama_model_get_vocab(model)
        self.n_tokens: int = C.llama_vocab_n_tokens(self._vocab)
        self.type: int = C.llama_vocab_type(self._vocab)

    @property
    def type_name(self) -> str:
        """Tokenizer family, as llama.cpp names it."""
        return _TYPE_NAMES.get(self.type, f"type {self.type}")

    @cached_property
    def bos(self) -> SpecialToken:
        """Beginning of text."""
        return SpecialToken(
            id=C.llama_vocab_bos(self._vocab), added=C.llama_vocab_get_add_bos(self._vocab)
        )

    @cached_property
    def eos(self) -> SpecialToken:
        """End of text."""
        return SpecialToken(
            id=C.llama_vocab_eos(self._vocab), added=C.llama_vocab_get_add_eos(self._vocab)
        )

    @cached_property
    def end_tokens(self) -> frozenset[int]:
        """Every token that ends a generation."""
        is_eog = C.llama_vocab_is_eog
        return frozenset(id_ for id_ in range(self.n_tokens) if is_eog(self._vocab, id_))

    def text(self, token: int) -> bytes:
        """Return the token's raw text as the vocabulary stores it."""
        return bytes(C.llama_vocab_get_text(self._vocab, token) or b"")

    def tokenize(self, text: str, *, add_special: bool = True) -> tuple[int, ...]:
        """Tokens of ``text``, special tokens parsed, as llama-server tokenizes a prompt."""
        # Half of a surrogate pair, as undecodable bytes of an argument become, has no UTF-8.
        data = text.encode(errors="replace")
        capacity = len(data) + 8
        while True:
            tokens = (C.llama_token * capacity)()
            n = C.llama_tokenize(self._vocab, data, len(data), tokens, capacity, add_special, True)
            if n >= 0:
                return tuple(tokens[:n])
            capacity = -n

    def piece(self, token: int, *, special: bool = False) -> bytes:
        """Return the bytes that ``token`` adds to the output: possibly half a character."""
        buffer = ctypes.create_string_buffer(64)
        n = C.llama_token_to_piece(self._vocab, token, buffer, len(buffer), 0, special)
        if n < 0:
            buffer = ctypes.create_string_buffer(-n)
            n = C.llama_token_to_piece(self._vocab, token, buffer, len(buffer), 0, special)
        return buffer.raw[:n]

    def detokenize(self, tokens: Sequence[int], *, special: bool = False) -> str:
        """Text of ``tokens``; bytes that are no UTF-8 become U+FFFD."""
        return b"".join(self.piece(t, special=special) for t in tokens).decode(errors="replace")


def incompatibility(target: Vocabulary, draft: Vocabulary) -> str | None:
    """Say why a draft cannot serve a target, None if it can.

    llama.cpp's own rule, ``common_speculative_are_compatible``: same tokenizer type, same BOS and
    EOS where they are added, sizes at most 128 apart, equal token texts from id 5 on.
    """
    if target.type != draft.type:
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
    for token in range(_FIRST_COMPARED_TOKEN, min(target.n_tokens, draft.n_tokens)):
        if target.text(token) != draft.text(token):
            return (
                f"token {token} differs: {_show(target.text(token))} (target), "
                f"{_show(draft.text(token))} (draft)"
            )
    return None


def _show(text: bytes) -> str:
    return repr(text.decode(errors="replace"))
