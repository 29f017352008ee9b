"""llama.cpp's n-gram drafters, rule by rule, and slow: every search is a loop over the text.

What llama.cpp leaves undefined, reading beyond or before its text, finds nothing here.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from hypothesis import strategies as st

from spectui.speculative.drafters import Drafter

N_VALUES = 4


class Reference(Protocol):
    """One slot of a server. ``text`` lacks the last token, which was sampled but not decoded."""

    def begin(self, prompt: Sequence[int]) -> None: ...

    def draft(self, text: Sequence[int], last: int) -> list[int]: ...

    def accept(self, n_accepted: int) -> None: ...


def slot_32(ngram: Sequence[int], n_slots: int) -> int:
    """Hash an n-gram as ngram-map does."""
    value = 0
    for token in ngram:
        value = (value * 2654435761 + token) % 2**32
    return value % n_slots


def slot_64(ngram: Sequence[int], n_slots: int) -> int:
    """Hash an n-gram as ngram-mod does."""
    value = 0
    for token in ngram:
        value = (value * 6364136223846793005 + token) % 2**64
    return value % n_slots


class KeyReference:
    """A key of ngram-map, with all its places for values."""

    def __init__(self, at: int, size_m: int) -> None:
        self.at = at
        self.stat_at = 0
        self.hits = 0
        self.value_at = [0] * N_VALUES
        self.value_seen = [0] * N_VALUES
        self.value_accepted = [size_m] * N_VALUES

    def drop_values_from(self, position: int) -> None:
        for index in reversed(range(N_VALUES)):
            if self.value_at[index] != 0 and self.value_at[index] >= position:
                for after in range(index, N_VALUES - 1):
                    self.value_at[after] = self.value_at[after + 1]
                    self.value_seen[after] = self.value_seen[after + 1]
                    self.value_accepted[after] = self.value_accepted[after + 1]
                self.value_at[-1] = 0
                self.value_seen[-1] = 0


class MapReference:
    """ngram-map-k, and with values ngram-map-k4v."""

    def __init__(
        self, size_n: int, size_m: int, *, with_values: bool, min_hits: int, n_slots: int
    ) -> None:
        self.n = size_n
        self.m = size_m
        self.with_values = with_values
        self.min_hits = min_hits
        self.table = [0] * n_slots
        self.table_last = 0
        self.keys: list[KeyReference] = []
        self.size_begin = 0
        self.size_check = 0
        self.chosen: tuple[KeyReference, int] | None = None

    def begin(self, prompt: Sequence[int]) -> None:
        size = len(prompt)
        clean_from = self.size_begin
        if clean_from > size:
            clean_from = size - self.n - self.m if size > self.n + self.m else 0
        if size < self.size_check:
            for slot, position in enumerate(self.table):
                if position != 0 and position >= clean_from:
                    self.table[slot] = 0
            self.table_last = clean_from - 1 if clean_from > 0 else 0
            self._clean_keys(clean_from)
        self.size_check = size
        self.size_begin = size

    def _clean_keys(self, clean_from: int) -> None:
        for index in reversed(range(len(self.keys))):
            key = self.keys[index]
            if key.at >= clean_from:
                del self.keys[index]
            elif self.with_values:
                key.drop_values_from(clean_from)
                if key.value_at[0] == 0:
                    del self.keys[index]

    def draft(self, text: Sequence[int], last: int) -> list[int]:
        self.chosen = None
        n, m = self.n, self.m
        if len(text) < 2 * n + m:
            return []
        self.size_check = len(text)
        pattern = [*text[len(text) - n + 1 :], last]
        position = self._search(text, pattern)
        self._fill(text)
        if position == 0:
            return []
        key = self._key(text, pattern, position)
        key.hits = min(key.hits + 1, 16380)
        value = self._choose(text, pattern, key, position) if self.with_values else 0
        if value is None:
            return []
        self.chosen = (key, value)
        n_tokens = min(m, key.value_accepted[value])
        return [text[position + n + index] for index in range(n_tokens)]

    def accept(self, n_accepted: int) -> None:
        if self.chosen is not None:
            key, value = self.chosen
            key.value_accepted[value] = n_accepted

    def _is_at(self, text: Sequence[int], position: int, pattern: Sequence[int]) -> bool:
        return all(
            position + index < len(text) and text[position + index] == pattern[index]
            for index in range(len(pattern))
        )

    def _search(self, text: Sequence[int], pattern: Sequence[int]) -> int:
        beyond = self.n + self.m + 1
        position = self.table[slot_32(pattern, len(self.table))]
        if position != 0 and position < len(text) - beyond and self._is_at(text, position, pattern):
            return position
        if self.size_begin > beyond:
            position = self.size_begin - beyond
            while position > self.table_last:
                if self._is_at(text, position, pattern):
                    return position
                position -= 1
        position = len(text) - beyond
        while position > self.size_begin and position > self.table_last:
            if self._is_at(text, position, pattern):
                return position
            position -= 1
        return 0

    def _fill(self, text: Sequence[int]) -> None:
        beyond = self.n + self.m + 1
        if self.size_begin > beyond:
            position = self.size_begin - beyond
            while position > self.table_last:
                self._fill_one(text, position)
                position -= 1
        position = len(text) - beyond
        while position > self.size_begin and position > self.table_last:
            self._fill_one(text, position)
            position -= 1
        self.table_last = max(len(text) - beyond, self.table_last)

    def _fill_one(self, text: Sequence[int], position: int) -> None:
        slot = slot_32(text[position : position + self.n], len(self.table))
        if self.table[slot] == 0:
            self.table[slot] = position

    def _key(self, text: Sequence[int], pattern: Sequence[int], position: int) -> KeyReference:
        for key in self.keys:
            if self._is_at(text, key.at, pattern):
                return key
        self.keys.append(KeyReference(position, self.m))
        return self.keys[-1]

    def _choose(
        self, text: Sequence[int], pattern: Sequence[int], key: KeyReference, position: int
    ) -> int | None:
        if key.hits < self.min_hits:
            return None
        for at in range(key.stat_at, position + 1):
            if self._is_at(text, at, pattern):
                self._count(text, key, at + self.n)
        key.stat_at = position
        most, best = 0, 0
        for index in range(N_VALUES):
            if key.value_seen[index] > most:
                most, best = key.value_seen[index], index
        others = sum(key.value_seen[index] for index in range(N_VALUES) if index != best)
        if others > 0 and most < 2 * others:
            return None
        return best

    def _count(self, text: Sequence[int], key: KeyReference, at: int) -> None:
        for index in range(N_VALUES):
            if key.value_at[index] == 0:
                key.value_at[index] = at
                key.value_seen[index] = 1
                key.value_accepted[index] = self.m
                return
            if self._is_at(text, key.value_at[index], text[at : at + self.m]):
                key.value_seen[index] = min(key.value_seen[index] + 1, 16380)
                return


class ModReference:
    """ngram-mod."""

    def __init__(self, n_match: int, n_max: int, *, n_min: int, n_entries: int) -> None:
        self.n = n_match
        self.n_max = n_max
        self.n_min = n_min
        self.n_entries = n_entries
        self.table: dict[int, int] = {}
        self.n_used = 0
        self.i_last = 0
        self.n_draft_last = 0
        self.n_low = 0

    def begin(self, prompt: Sequence[int]) -> None:
        self.i_last = 0
        self.n_draft_last = 0
        if len(prompt) < self.n:
            return
        for at in range(len(prompt) - self.n):
            self._add(prompt, at)
        self.i_last = len(prompt) - self.n
        if self.n_used / self.n_entries > 0.25:
            self._reset()

    def draft(self, text: Sequence[int], last: int) -> list[int]:
        n = self.n
        self.n_draft_last = 0
        if len(text) < n:
            return []
        if self.i_last + 32 < len(text):
            for at in range(self.i_last, len(text) - n):
                self._add(text, at)
            self.i_last = len(text) - n
        window = [*text[len(text) - n + 1 :], last]
        drafted: list[int] = []
        for index in range(self.n_max):
            token = self.table.get(slot_64(window, self.n_entries), -1)
            if token == -1:
                if index < self.n_min:
                    return []
                break
            drafted.append(token)
            window = [*window[1:], token]
        self.n_draft_last = len(drafted)
        return drafted

    def accept(self, n_accepted: int) -> None:
        if self.n_draft_last > 0:
            if n_accepted / self.n_draft_last < 0.25:
                self.n_low += 1
                if self.n_low >= 5:
                    self._reset()
                    self.n_low = 0
                    self.i_last = 0
            else:
                self.n_low = 0

    def _add(self, text: Sequence[int], at: int) -> None:
        slot = slot_64(text[at : at + self.n], self.n_entries)
        if self.table.get(slot, -1) == -1:
            self.n_used += 1
        self.table[slot] = text[at + self.n]

    def _reset(self) -> None:
        self.table = {}
        self.n_used = 0


class UnorderedMap:
    """libstdc++'s hash map from integers: one linked list, and what precedes each bucket in it."""

    def __init__(self) -> None:
        self.counts: dict[int, int] = {}
        self._n_buckets = 1
        self._n_resize = 0
        self._next: dict[int | None, int | None] = {None: None}
        """After each key; after None, the first one."""
        self._before: dict[int, int | None] = {}
        """By bucket, if it has elements."""

    def add(self, key: int, count: int) -> None:
        if key not in self.counts:
            self._insert(key)
        self.counts[key] = self.counts.get(key, 0) + count

    def walk(self) -> list[int]:
        keys: list[int] = []
        at = self._next[None]
        while at is not None:
            keys.append(at)
            at = self._next[at]
        return keys

    def _insert(self, key: int) -> None:
        if len(self.counts) + 1 > self._n_resize:
            wanted = max(len(self.counts) + 1, 0 if self._n_resize else 11)
            self._rehash(max(wanted + 1, 2 * self._n_buckets))
        self._link(key)

    def _rehash(self, at_least: int) -> None:
        keys = self.walk()
        self._n_buckets = next(size for size in (13, 29, 59, 127, 257) if size >= at_least)
        self._n_resize = self._n_buckets
        self._next = {None: None}
        self._before = {}
        for key in keys:
            self._link(key)

    def _link(self, key: int) -> None:
        bucket = key % self._n_buckets
        if bucket in self._before:
            before = self._before[bucket]
            self._next[key] = self._next[before]
            self._next[before] = key
            return
        first = self._next[None]
        self._next[key] = first
        self._next[None] = key
        if first is not None:
            self._before[first % self._n_buckets] = key
        self._before[bucket] = None


Counts = dict[tuple[int, ...], UnorderedMap]
LAX = ((2, 66), (2, 50), (1, 50), (1, 50))
STRICT = ((4, 75), (3, 66), (2, 66), (2, 66))


class CacheReference:
    """ngram-cache."""

    def __init__(self, *, dynamic: Counts, static: Counts) -> None:
        self.context: Counts = {}
        self.dynamic = dynamic
        self.static = static
        self.size = 0

    def begin(self, prompt: Sequence[int]) -> None:
        """Nothing."""

    def draft(self, text: Sequence[int], last: int) -> list[int]:
        if self.size < len(text) + 1:
            self._update([*text[self.size :], last])
            self.size = len(text) + 1
        whole = [*text, last]
        drafted: list[int] = []
        if len(whole) < 2:
            return drafted
        while len(drafted) < 8:
            token = self._next_token([*whole, *drafted])
            if token is None:
                break
            drafted.append(token)
        return drafted

    def accept(self, n_accepted: int) -> None:
        """Nothing."""

    def _update(self, tokens: Sequence[int]) -> None:
        for size in (1, 2, 3, 4):
            for at in range(size, len(tokens)):
                part = self.context.setdefault(tuple(tokens[at - size : at]), UnorderedMap())
                part.add(tokens[at], 1)

    def _next_token(self, text: Sequence[int]) -> int | None:
        static = self.static.get(tuple(text[-2:]))
        known = {} if static is None else static.counts
        for counts, bounds in ((self.context, LAX), (self.dynamic, STRICT)):
            for size in (4, 3, 2, 1):
                if size > len(text):
                    continue
                part = counts.get(tuple(text[len(text) - size :]))
                token = None if part is None else _best(part, known, *bounds[size - 1])
                if token is not None:
                    return token
        return None if static is None else _best(static, {}, *LAX[1])


def _best(part: UnorderedMap, static: dict[int, int], n_least: int, percent: int) -> int | None:
    best, best_count, best_weight, total = -1, 0, 0, 0
    for token in part.walk():
        count = part.counts[token]
        weight = count * (100 * static[token] if token in static else 1)
        if weight > best_weight:
            best, best_count, best_weight = token, count, weight
        total += count
    return best if total >= n_least and 100 * best_count >= percent * total else None


@dataclass(frozen=True, kw_only=True)
class Step:
    """A round: the token before it, its bound (0 for no draft at all), and what is accepted."""

    last: int
    n_max: int
    n_accepted: int


@dataclass(frozen=True, kw_only=True)
class Turn:
    """A request: some eighths of the text so far, new tokens, and the rounds of the answer."""

    eighths: int
    added: tuple[int, ...]
    steps: tuple[Step, ...]
    again: bool = False
    """Begins with the last request instead of the text, which has its answer as well."""


def turns(vocabulary: Sequence[int]) -> st.SearchStrategy[list[Turn]]:
    """Chats that go on, begin anew, or are cut off anywhere."""
    token = st.sampled_from(vocabulary)
    step = st.builds(
        Step,
        last=token,
        n_max=st.sampled_from((99, 99, 99, 99, 3, 1, 0)),
        n_accepted=st.sampled_from((0, 0, 0, 1, 2, 4, 99)),
    )
    added = st.lists(token, max_size=30) | st.lists(token, min_size=50, max_size=70)
    turn = st.builds(
        Turn,
        eighths=st.sampled_from((8, 8, 8, 7, 6, 4, 1, 0)),
        added=added.map(tuple),
        steps=st.lists(step, max_size=25).map(tuple),
        again=st.sampled_from((False, False, True)),
    )
    return st.lists(turn, min_size=1, max_size=5)


def long_chat(seed: int, vocabulary: Sequence[int]) -> list[Turn]:
    """Texts of some hundred tokens that often go on as they did before."""
    source = random.Random(seed)  # noqa: S311 - a test needs no secrets
    habits = {token: source.choice(vocabulary) for token in vocabulary}
    token = vocabulary[0]

    def follow() -> int:
        nonlocal token
        token = habits[token] if source.random() < 0.85 else source.choice(vocabulary)
        return token

    def step() -> Step:
        n_accepted = source.choice((0, 1, 3, 99, 99))
        return Step(last=follow(), n_max=source.choice((99, 99, 2)), n_accepted=n_accepted)

    return [
        Turn(
            eighths=eighths,
            added=tuple(follow() for _ in range(80)),
            steps=tuple(step() for _ in range(120)),
        )
        for eighths in (0, 8, 6, 8, 3)
    ]


def assert_equal_drafts(
    next_drafter: Callable[[], Drafter], reference: Reference, chat: Sequence[Turn]
) -> int:
    """Run both through ``chat``, a drafter per turn; return how many tokens were drafted."""
    text: list[int] = []
    prompt: list[int] = []
    n_drafted = 0
    for turn in chat:
        kept = prompt if turn.again else text[: len(text) * turn.eighths // 8]
        prompt = [*kept, *turn.added]
        text = list(prompt)
        drafter = next_drafter()
        drafter.begin(prompt)
        reference.begin(prompt)
        for step in turn.steps:
            drafted: tuple[int, ...] = ()
            if step.n_max > 0:
                drafted = drafter.draft(step.last, step.n_max).tokens
                assert list(drafted) == reference.draft(text, step.last)[: step.n_max]
            n_accepted = min(step.n_accepted, len(drafted))
            batch = (step.last, *drafted)
            drafter.verified(batch)
            if drafted:
                # llama-server says nothing of rounds without a draft.
                drafter.judged(n_accepted)
                reference.accept(n_accepted)
            drafter.accept(n_accepted)
            text += batch[: 1 + n_accepted]
            n_drafted += len(drafted)
    return n_drafted


def say(drafter: Drafter, *tokens: int) -> None:
    """Let the text grow by rounds for which nothing was to be drafted."""
    for token in tokens:
        drafter.verified((token,))
        drafter.accept(0)


def play(drafter: Drafter, last: int, n_accepted: int, n_max: int = 99) -> tuple[int, ...]:
    """One round: what was drafted, of which ``n_accepted`` tokens are accepted."""
    drafted = drafter.draft(last, n_max).tokens
    drafter.verified((last, *drafted))
    if drafted:
        drafter.judged(n_accepted)
    drafter.accept(n_accepted)
    return drafted
