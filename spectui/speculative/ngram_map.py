"""``ngram-map-k`` and ``ngram-map-k4v``: lookups that remember how their drafts fared.

Their rules are llama.cpp's (``common/ngram-map.cpp``), with what looks like an oversight as well,
so that the same drafts come out; how they are looked up is our own. Positions count tokens from
the start of the text.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from spectui.speculative.drafters import Draft, TextDrafter
from spectui.speculative.ngram_hash import RollingHash

_CODE_FACTOR = 6364136223846793005
_N_CODES = 1 << 64


Occurrences = tuple[list[int], list[int]]
"""Positions of an n-gram's first token, rising, and codes of the tokens behind it there."""


class Continuations:
    """Knows of every n-gram where it stands, and tells continuations apart by a code of 64 bits.

    To compare tokens instead would take ten times as long, which adds up where a text repeats
    itself. Two continuations of one n-gram share a code by an accident that no text will see.
    """

    def __init__(self, size_n: int, size_m: int) -> None:
        """Take n-grams of ``size_n`` tokens and continuations of ``size_m``."""
        self._size_n = size_n
        self._codes = RollingHash(size_m, _CODE_FACTOR, _N_CODES)
        self._known: defaultdict[tuple[int, ...], Occurrences] = defaultdict(lambda: ([], []))
        self._n_known = 0

    def grow(self, tokens: Sequence[int]) -> None:
        """Add the n-grams that ``tokens`` has gained and whose continuation it has, too."""
        self._codes.grow(tokens)
        n, known, first = self._size_n, self._known, self._n_known
        codes = self._codes.slots[first + n :]
        for place, code in enumerate(codes, first):
            # One look at the dictionary: to hash an n-gram takes half of a turn.
            places, others = known[tuple(tokens[place : place + n])]
            places.append(place)
            others.append(code)
        self._n_known = first + len(codes)

    def code(self, start: int) -> int | None:
        """Code of the continuation from position ``start`` on, None where the text is too short."""
        codes = self._codes.slots
        return codes[start] if start < len(codes) else None

    def of(self, ngram: tuple[int, ...], first: int, last: int) -> Occurrences:
        """Occurrences from position ``first`` to ``last``, both included."""
        places, codes = self._known[ngram]
        part = slice(bisect_left(places, first), bisect_right(places, last))
        return places[part], codes[part]


N_SLOTS = 1 << 18
"""Slots of the table from n-grams to places: ``COMMON_NGRAM_HASH_MAP_SIZE``."""
_FACTOR = 2654435761
_MAX_VALUES = 4
_MAX_COUNT = 16380


@dataclass(slots=True, kw_only=True)
class MapValue:
    """A continuation of a key. ``ngram-map-k`` has one per key, which stands for all of them."""

    start: int
    """Position of its first token; 0 if it stands for all."""
    n_accepted: int
    """Longest draft from now on: tokens accepted of the last one, ``size_m`` before the first."""
    n_seen: int = 0


@dataclass(slots=True, kw_only=True)
class MapKey:
    """An n-gram that was looked up and found."""

    start: int
    """Position where it was found first. What stands there in the present text is the n-gram."""
    values: list[MapValue]
    n_hits: int = 0
    counted_to: int = 0
    """Position of its occurrence up to which ``values`` are counted."""


class NgramMapDrafter(TextDrafter):
    """Proposes what followed the last ``size_n`` tokens at the place that a table has for them.

    The first n-gram in a slot stays: of the prompt the latest, then of the output the earliest.
    Others are found only in the round that fails to enter them. No lookup finds the first token
    of the text, nor the ``size_n + size_m`` positions before the end of the prompt and the one
    behind it. No draft is longer than what was accepted of the last one for the same n-gram; if
    that was nothing, nothing is drafted for it again.

    With values, the first ``_MAX_VALUES`` different continuations of an n-gram are counted up to
    the place found, and that place anew at every lookup. A draft is made if the most frequent one
    has at least twice the others' count, and copies what follows the place, whichever that is.
    """

    def __init__(
        self,
        size_n: int,
        size_m: int,
        *,
        with_values: bool,
        min_hits: int = 1,
        n_slots: int = N_SLOTS,
    ) -> None:
        """Look ``size_n`` tokens up and propose at most ``size_m``.

        Args:
            size_n: tokens of a key, at least 1.
            size_m: tokens of a value, at least 1.
            with_values: compare continuations, as ``ngram-map-k4v`` does.
            min_hits: lookups that must find a key before it drafts. llama-server takes it for
                ``ngram-map-k`` too, where it does nothing.
            n_slots: size of the table, a power of two. Tests take a small one, in which n-grams
                collide.
        """
        super().__init__()
        self._size_n = size_n
        self._size_m = size_m
        self._with_values = with_values
        self._min_hits = min_hits
        # Kept from one text to the next, but for what ``_forget`` drops: positions are taken to
        # mean the same in the next prompt, which begins as the last one did if the chat goes on.
        self._keys: list[MapKey] = []
        self._places: dict[int, int] = {}
        """Position of the n-gram that came first into each slot; a slot without one is missing."""
        self._entered_to = 0
        """Last position that was offered to ``_places``."""
        self._n_prompt = 0
        self._n_checked = 0
        """Length of the text at the last lookup."""
        self._last: MapValue | None = None
        """Origin of the last draft."""
        self._hash = RollingHash(size_n, _FACTOR, n_slots)
        self._continuations = Continuations(size_n, size_m)
        """Only with values."""
        self._named: dict[tuple[int, ...], int] = {}
        """Index of the first key with an n-gram."""

    def begin(self, prompt: Sequence[int]) -> None:
        """Take the prompt as the text so far, and forget what llama.cpp forgets then."""
        super().begin(prompt)
        self._hash.slots.clear()
        self._continuations = Continuations(self._size_n, self._size_m)
        self._named = {}
        self._read()
        self._forget(len(prompt))
        # What is kept lies whole in the prompt: keys are never made around the end of the last one.
        for index, key in enumerate(self._keys):
            ngram = tuple(self._tokens[key.start : key.start + self._size_n])
            self._named.setdefault(ngram, index)

    def draft(self, last: int, n_max: int) -> Draft:
        """Look up the n-gram that ``last`` ends."""
        self._last = None
        tokens, n, m = self._tokens, self._size_n, self._size_m
        if len(tokens) < 2 * n + m:
            return Draft()
        self._n_checked = len(tokens)
        self._read()
        ngram = (*tokens[len(tokens) - n + 1 :], last)
        slot = self._hash.ending(tokens, last)
        place = self._find(ngram, slot)
        self._enter()
        if place == 0:
            return Draft()
        self._last = self._value(ngram, place)
        if self._last is None:
            return Draft()
        n_tokens = min(m, self._last.n_accepted, n_max)
        return Draft(tokens=tuple(tokens[place + n : place + n + n_tokens]))

    def judged(self, n_accepted: int) -> None:
        """Bound the next draft of the same n-gram by the number of accepted tokens."""
        if self._last is not None:
            self._last.n_accepted = n_accepted

    def _forget(self, n_prompt: int) -> None:
        """Drop what may have changed if the text has become shorter.

        A prompt longer than the text that was looked up last drops nothing, even if it is
        another one.
        """
        kept = self._n_prompt
        if kept > n_prompt:
            kept = max(n_prompt - self._size_n - self._size_m, 0)
        if n_prompt < self._n_checked:
            self._places = {slot: at for slot, at in self._places.items() if at < kept}
            self._entered_to = max(kept - 1, 0)
            self._keys = [key for key in self._keys if self._keeps(key, kept)]
        self._n_checked = self._n_prompt = n_prompt

    def _keeps(self, key: MapKey, kept: int) -> bool:
        if self._with_values:
            key.values = [value for value in key.values if value.start < kept]
        return key.start < kept and bool(key.values)

    def _read(self) -> None:
        """Take note of the n-grams that the text has gained."""
        self._hash.grow(self._tokens)
        if self._with_values:
            self._continuations.grow(self._tokens)

    def _find(self, ngram: tuple[int, ...], slot: int) -> int:
        """Position of an occurrence of ``ngram``, 0 for none."""
        place = self._places.get(slot, 0)
        if 0 < place < self._highest() and self._is_at(place, ngram):
            return place
        slots = self._hash.slots
        # Equal n-grams have equal slots.
        found = (at for at in self._new() if slots[at] == slot and self._is_at(at, ngram))
        return next(found, 0)

    def _enter(self) -> None:
        """Offer the new positions to the table."""
        slots = self._hash.slots
        for place in self._new():
            self._places.setdefault(slots[place], place)
        self._entered_to = max(self._entered_to, self._highest())

    def _new(self) -> Iterator[int]:
        """Positions that the table was not offered, in llama.cpp's order."""
        prompt_end = self._n_prompt - self._size_n - self._size_m - 1
        in_prompt = range(prompt_end, self._entered_to, -1)
        in_output = range(self._highest(), max(self._entered_to, self._n_prompt), -1)
        return chain(in_prompt, in_output)

    def _highest(self) -> int:
        """Last position whose n-gram and continuation the text has, with one token to spare."""
        return len(self._tokens) - self._size_n - self._size_m - 1

    def _is_at(self, place: int, ngram: tuple[int, ...]) -> bool:
        return tuple(self._tokens[place : place + self._size_n]) == ngram

    def _value(self, ngram: tuple[int, ...], place: int) -> MapValue | None:
        """The continuation to draft from; None for no draft."""
        key = self._key(ngram, place)
        key.n_hits = min(key.n_hits + 1, _MAX_COUNT)
        if not self._with_values:
            return key.values[0]
        if key.n_hits < self._min_hits:
            return None
        self._count(key, ngram, place)
        best = max(key.values, key=lambda value: value.n_seen)
        n_others = sum(value.n_seen for value in key.values) - best.n_seen
        return best if best.n_seen >= 2 * n_others else None

    def _key(self, ngram: tuple[int, ...], place: int) -> MapKey:
        keys = self._keys
        if ngram not in self._named:
            self._named[ngram] = len(keys)
            everything = MapValue(start=0, n_accepted=self._size_m)
            keys.append(MapKey(start=place, values=[] if self._with_values else [everything]))
        return keys[self._named[ngram]]

    def _count(self, key: MapKey, ngram: tuple[int, ...], place: int) -> None:
        """Count the continuations from the last place found to this one, both included."""
        places, codes = self._continuations.of(ngram, key.counted_to, place)
        key.counted_to = place
        n_left, counted = len(codes), set[int]()
        for number in range(_MAX_VALUES):
            if n_left == 0:
                break
            if number == len(key.values):
                new = next(at for at, code in enumerate(codes) if code not in counted)
                start = places[new] + self._size_n
                key.values.append(MapValue(start=start, n_accepted=self._size_m))
            value = key.values[number]
            # Where an earlier text's value reaches beyond this one, llama.cpp reads on in memory.
            code = self._continuations.code(value.start)
            if code is not None and code not in counted:
                n_seen = codes.count(code)
                value.n_seen = min(value.n_seen + n_seen, _MAX_COUNT)
                counted.add(code)
                n_left -= n_seen
