"""The target's sampler chain, and the draft's top token."""

import ctypes
from copy import copy
from typing import Any

import numpy as np

from spectui.closing import Closing
from spectui.llama.context import Logits
from spectui.llama.library import C
from spectui.llama.vocabulary import Vocabulary
from spectui.options.setup import SamplingConfig

_CANDIDATE = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])
"""``struct llama_token_data``."""

DRAFT_TOP_K = 10
"""``common_speculative_impl_draft_simple`` looks at ten candidates."""

_N_ROWS = 64


class SamplerChain(Closing):
    """llama.cpp's samplers over a candidate array that is allocated once."""

    def __init__(self, config: SamplingConfig, vocabulary: Vocabulary) -> None:
        """Build the chain in llama-server's default order: top-k, top-p, min-p, temperature."""
        self._is_greedy = config.is_greedy
        self.probability = 1.0
        """Probability of the last token among those that the samplers had left."""
        self._forbidden = vocabulary.end_tokens if config.ignore_eos else frozenset()
        self._chain = C.llama_sampler_chain_init(C.llama_sampler_chain_default_params())
        if config.ignore_eos:
            self._add(_forbid(vocabulary))
        if self._is_greedy:
            self._add(C.llama_sampler_init_greedy())
        else:
            self._add(C.llama_sampler_init_top_k(config.top_k))
            self._add(C.llama_sampler_init_top_p(config.top_p, 1))
            self._add(C.llama_sampler_init_min_p(config.min_p, 1))
            self._add(C.llama_sampler_init_temp(config.temp))
            self._add(C.llama_sampler_init_dist(config.seed))
        n = vocabulary.n_tokens
        self._ids = np.arange(n, dtype=np.int32)
        self._candidates = np.zeros(n, dtype=_CANDIDATE)
        self._data = ctypes.cast(
            ctypes.c_void_p(self._candidates.ctypes.data), C.llama_token_data_p
        )
        self._array = C.llama_token_data_array()

    def _add(self, sampler: object) -> None:
        C.llama_sampler_chain_add(self._chain, sampler)

    def sample(self, logits: Logits) -> int:
        """Draw one token from ``logits`` ([n_vocab] float32) and advance the seeded stream."""
        if self._is_greedy:
            # The first of the highest, as llama.cpp's greedy sampler, which keeps no state.
            token = int(logits.argmax())
            if token not in self._forbidden and not np.isnan(logits[token]):
                return token
        return self._by_chain(logits)

    def chance(self, logits: Logits, token: int) -> float:
        """Probability that ``token`` would be drawn from ``logits``."""
        array = self._applied(logits)
        left = (array.data[index] for index in range(array.size))
        return next((float(one.p) for one in left if one.id == token), 0.0)

    def _applied(self, logits: Logits) -> Any:  # noqa: ANN401 - a C structure
        """The candidates that the samplers leave, one of which is selected."""
        n = len(logits)
        self._candidates["id"][:n] = self._ids[:n]
        self._candidates["logit"][:n] = logits
        array = self._array
        # Samplers may point the array elsewhere, shrink it and mark it sorted.
        array.data, array.size, array.selected, array.sorted = self._data, n, -1, False
        C.llama_sampler_apply(self._chain, ctypes.byref(array))
        return array

    def _by_chain(self, logits: Logits) -> int:
        array = self._applied(logits)
        chosen = array.data[array.selected]
        token, self.probability = int(chosen.id), 1.0 if self._is_greedy else float(chosen.p)
        C.llama_sampler_accept(self._chain, token)
        return token

    def copy(self) -> "SamplerChain":
        """Return a chain of its own that draws what this one would draw next."""
        twin = copy(self)
        twin._chain = C.llama_sampler_clone(self._chain)  # noqa: SLF001 - of this class
        return twin

    def close(self) -> None:
        """Free the chain with its samplers."""
        if self._chain:
            C.llama_sampler_free(self._chain)
            self._chain = None


def _forbid(vocabulary: Vocabulary) -> object:
    """Sampler that makes every end-of-generation token impossible (``--ignore-eos``)."""
    ends = sorted(vocabulary.end_tokens)
    biases = (C.llama_logit_bias * len(ends))(*((token, float("-inf")) for token in ends))
    return C.llama_sampler_init_logit_bias(vocabulary.n_tokens, len(ends), biases)


def top_token(logits: Logits) -> tuple[int, float]:
    """Most probable token of ``logits`` and its softmax probability among the top ten.

    The tenth largest of the maxima of groups bounds the tenth largest logit from below, so that
    only a handful of logits has to be sorted. Groups are columns of a matrix: rows are compared
    many elements at once.
    """
    n = len(logits)
    maxima = logits[: n - n % _N_ROWS].reshape(_N_ROWS, -1).max(axis=0)
    if len(maxima) > DRAFT_TOP_K:
        bound = np.partition(maxima, -DRAFT_TOP_K)[-DRAFT_TOP_K]
        high = logits[logits >= bound]
    else:
        high = logits
    top = np.sort(high)[: -DRAFT_TOP_K - 1 : -1]
    weights = np.exp(top - top[0])
    return int(logits.argmax()), float(weights[0] / weights.sum(dtype=np.float32))
