"""A model's vocabulary: text to tokens and back."""

import ctypes
from functools import cached_property
from itertools import compress, repeat

from spectui.llama.library import C
from spectui.models.pairs import Outline, SpecialToken

_NO_TOKENIZER = 0
"""``LLAMA_VOCAB_TYPE_NONE``: llama.cpp ends the process when it is asked for such a token."""
_TYPE_NAMES = {0: "none", 1: "SPM", 2: "BPE", 3: "WPM", 4: "UGM", 5: "RWKV", 6: "PLaMo2"}


class Vocabulary:
    """Wraps ``llama_vocab``. Valid as long as its model is open."""

    def __init__(self, model: object) -> None:
        """Take the vocabulary of a ``llama_model`` pointer."""
        self._vocab = C.llama_model_get_vocab(model)
        self.n_tokens: int = C.llama_vocab_n_tokens(self._vocab)
        self.type: int = C.llama_vocab_type(self._vocab)

    @cached_property
    def outline(self) -> Outline:
        """The vocabulary, as llama.cpp's rule for pairs looks at it; it may outlive the model."""
        return Outline(
            type_name=_TYPE_NAMES.get(self.type, f"type {self.type}"),
            n_tokens=self.n_tokens,
            bos=self.bos,
            eos=self.eos,
            texts=self.texts,
        )

    @cached_property
    def bos(self) -> SpecialToken:
        """Beginning of text."""
        added = C.llama_vocab_get_add_bos(self._vocab)
        return SpecialToken(id=C.llama_vocab_bos(self._vocab), added=added)

    @cached_property
    def eos(self) -> SpecialToken:
        """End of text."""
        added = C.llama_vocab_get_add_eos(self._vocab)
        return SpecialToken(id=C.llama_vocab_eos(self._vocab), added=added)

    @cached_property
    def end_tokens(self) -> frozenset[int]:
        """Every token that ends a generation."""
        ids = range(self.n_tokens)
        return frozenset(compress(ids, map(C.llama_vocab_is_eog, repeat(self._vocab), ids)))

    @cached_property
    def texts(self) -> tuple[bytes, ...]:
        """Raw texts of all tokens by id, as the vocabulary stores them."""
        if self.type == _NO_TOKENIZER:
            return ()
        # One loop in C: a vocabulary has some 150000.
        return tuple(map(C.llama_vocab_get_text, repeat(self._vocab), range(self.n_tokens)))

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
