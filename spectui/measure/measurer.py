"""Measuring discipline: warm-up, anchors, and pairs interleaved in time."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from random import Random
from statistics import median_low

from spectui.documents import Json, or_reason
from spectui.engine.commands import Generate, GeneratePair
from spectui.engine.events import GenerationResult, Segment
from spectui.errors import CancelledError
from spectui.measure.backend import Backend
from spectui.measure.prices import SteadySeconds, steady_seconds
from spectui.measure.speedup import PairedMeasurement
from spectui.measure.workload import WARM_UP_TOKENS, WorkItem, Workload
from spectui.options.speculation import Speculation
from spectui.speculative.counters import Counters
from spectui.speculative.decoder import Stop

_ANCHOR_TOKENS = 8
_SHORTEST_READ = 16
"""Tokens of the shortest prompt whose reading shows how long one token takes."""


NOTHING_DRAFTED = "nothing was drafted"
NO_ROUNDS = "llama-server does not tell how many rounds it ran"
"""Nor do the tokens show it: a text ended inside a draft, or the target redoes rounds."""
_NOTHING_DECODED = "the answer ended before anything was decoded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One prompt decoded without and with speculation, close in time."""

    item: WorkItem
    baseline: GenerationResult
    """By the target alone."""
    speculative: GenerationResult
    segments: tuple[Segment, ...] = ()
    """Segments of the answer, where both sides took turns within it."""
    whole_s: tuple[float, float] | None = None
    """Seconds of the whole requests without and with speculation, waiting included, where others
    were decoded beside it; else None."""

    @property
    def has_decoded(self) -> bool:
        """Whether neither answer ended before anything was decoded."""
        return bool(self.baseline.n_decoded and self.speculative.n_decoded)

    @property
    def measurement(self) -> PairedMeasurement | None:
        """Seconds and tokens; None where the text ended before anything was decoded."""
        if not self.has_decoded:
            return None
        return PairedMeasurement(
            prompt_id=self.item.id,
            category=self.item.category,
            baseline_s=self.baseline.decode_s,
            baseline_tokens=self.baseline.n_decoded,
            speculative_s=self.speculative.decode_s,
            speculative_tokens=self.speculative.n_decoded,
            n_accepted=self.speculative.counters.n_accepted,
        )

    def within(self, found: SteadySeconds) -> "Pair":
        """The pair as if it had taken other seconds."""
        off = _within(self.baseline, found.baseline_s)
        on = _within(self.speculative, found.speculative_s)
        return replace(self, baseline=off, speculative=on)

    def document(self) -> Json:
        """Result of the prompt in documents."""
        result, counters = self.speculative, self.speculative.counters
        off = self.baseline.tokens_per_s
        return {
            "id": self.item.id,
            "category": self.item.category,
            "n_prompt_tokens": result.n_prompt_tokens,
            **or_reason("baseline_tokens_per_s", off, _NOTHING_DECODED),
            **or_reason("tokens_per_s", result.tokens_per_s, _NOTHING_DECODED),
            "n_drafted": counters.n_drafted,
            "n_accepted": counters.n_accepted,
            **or_reason("n_rounds", counters.known_rounds, NO_ROUNDS),
            "stop": str(result.stop),
            "output_sha256": sha256(result.tokens),
        }


Timed = tuple[GenerationResult, float | None]
"""An answer, and the seconds of the whole request where others were decoded beside it."""


def paired(items: Iterable[WorkItem], off: Iterable[Timed], on: Iterable[Timed]) -> Iterator[Pair]:
    """Pairs of prompts and their answers without and with speculation, as far as all three go."""
    for item, (baseline, off_s), (speculative, on_s) in zip(items, off, on, strict=False):
        whole_s = None if off_s is None or on_s is None else (off_s, on_s)
        yield Pair(item=item, baseline=baseline, speculative=speculative, whole_s=whole_s)


@dataclass(eq=False)
class Measurer:
    """Decodes prompts of a workload on the engine's loaded models.

    Prompts are evaluated once and taken up again later, so what is paid for is decoding.
    """

    engine: Backend
    """Decodes."""
    workload: Workload
    """The prompts, and how they are continued."""
    _: KW_ONLY
    baseline_share: float = 1.0
    """Share of each answer that the target decodes alone as well, where both sides take turns
    within it."""
    n_streams: int = 1
    """Prompts that are decoded at once: as many as a llama-server has slots."""
    together: Callable[[Sequence[Generate]], Sequence[Timed]] | None = None
    """Decodes as many; None where there is one stream."""

    def __post_init__(self) -> None:
        self._read_s: tuple[list[float], list[float]] = [], []
        """Seconds per token of prompts that were read, by the target and by the draft. A server's
        are the target's: it reports their sum."""

    @property
    def prompt_token_s(self) -> float:
        """Seconds per token of a prompt that both models evaluate for the first time.

        The median of what was read: the first prompt after a start may wait for the disk.
        """
        return sum(median_low(rates) for rates in self._read_s if rates)

    @property
    def n_beside_off(self) -> int | None:
        """Settings as in ``Backend.n_beside_off``."""
        return self.engine.n_beside_off

    def decode(self, item: WorkItem, speculation: Speculation | None) -> GenerationResult:
        """Decode one prompt. Raises ``CancelledError`` if the engine was stopped meanwhile."""
        return self._generate(self._command(item, speculation))

    def warm_up(self, speculation: Speculation | None) -> None:
        """Touch weights and caches: the first tokens after a load are slower than the rest.

        A server is warm when it is ready.
        """
        if self.n_beside_off is not None:
            return
        self._generate(self._command(self.workload.items[0], speculation, WARM_UP_TOKENS))

    def anchor(self) -> float:
        """Tokens/s of a short run of the target alone: the machine's present speed.

        Not on the prompt that has warmed the models up: a cold start may have taken many times as
        long to read that.
        """
        command = self._command(self.workload.items[:2][-1], None, _ANCHOR_TOKENS)
        sampling = replace(self.workload.sampling, ignore_eos=True)
        result = self._generate(replace(command, sampling=sampling))
        return result.n_decoded / result.decode_s

    def pairs(
        self,
        items: Sequence[WorkItem],
        speculation: Speculation | None,
        repeats: int = 1,
        *,
        turn: int = 0,
    ) -> Iterator[Pair]:
        """Decode every prompt without and with speculation, ``repeats`` times.

        Of two prompts in a row, the first has a random order and the second the opposite one: a
        machine that grows slower or faster at an even pace favours neither side.

        Args:
            items: the prompts.
            speculation: the setting; None for the target alone on both sides.
            repeats: passes over the prompts.
            turn: passes that were made before, after which the order goes on.
        """
        is_apart = self.n_beside_off == 0
        # Halves of the prompts take turns, and trade places from pass to pass, where each change of
        # the two loads models: so each begins with what is loaded.
        size = -(-len(items) // 2) if is_apart else self.n_streams
        blocks = [items[start : start + size] for start in range(0, len(items), size)]
        number = turn * len(blocks)
        for n in range(turn, turn + repeats):
            for part in blocks[:: -1 if is_apart and n % 2 else 1]:
                block = tuple(self.workload.passes(part, range(n, n + 1)))
                if is_apart:
                    yield from self._in_turn(block, speculation, baseline_first=number % 2 == 0)
                else:
                    yield from self.block(block, speculation, number)
                number += 1

    def _in_turn(
        self, items: Sequence[WorkItem], speculation: Speculation | None, *, baseline_first: bool
    ) -> Iterator[Pair]:
        """Decode prompts with one of both, and then with the other."""
        order = (None, speculation) if baseline_first else (speculation, None)
        begun = list(self.decode_together(items, order[0]))
        ended = self.decode_together(items, order[1])
        off, on = (begun, ended) if baseline_first else (ended, begun)
        yield from paired(items, off, on)

    def decode_together(
        self, items: Sequence[WorkItem], speculation: Speculation | None
    ) -> Iterable[Timed]:
        """Decode prompts, as many at once as there are streams."""
        if self.together is None:
            return ((self.decode(item, speculation), None) for item in items)
        return self.together([self._command(item, speculation) for item in items])

    def block(
        self, items: Sequence[WorkItem], speculation: Speculation | None, turn: int
    ) -> tuple[Pair, ...]:
        """Decode as many prompts as there are streams without and with speculation.

        Args:
            items: the prompts.
            speculation: what drafts.
            turn: number of the block. Of two in a row, the first has a random order, and the
                second the opposite one.
        """
        if self.n_streams == 1:
            return tuple(self.pair(item, speculation, turn) for item in items)
        first = self._begins_with_off(turn)
        return tuple(self._in_turn(items, speculation, baseline_first=first))

    def _begins_with_off(self, turn: int) -> bool:
        """Whether a block begins without speculation: one of two in a row does, at random."""
        seed = self.workload.sampling.seed
        chance = Random(f"{seed} {turn // 2}")  # noqa: S311 - an order, not a secret
        return chance.randrange(2) == turn % 2

    def pair(self, item: WorkItem, speculation: Speculation | None, turn: int) -> Pair:
        """Decode one prompt without and with speculation; arguments as ``block``."""
        command = GeneratePair(
            speculative=self._command(item, speculation),
            baseline_first=self._begins_with_off(turn),
            baseline_share=self.baseline_share,
        )
        done = self.engine.generate_pair(command)
        for result in (done.speculative, done.baseline):
            uncancelled(result)
        self._record_reading(done.speculative)
        return Pair(
            item=item, baseline=done.baseline, speculative=done.speculative, segments=done.segments
        )

    def _generate(self, command: Generate) -> GenerationResult:
        result = uncancelled(self.engine.generate(command))
        self._record_reading(result)
        return result

    def _command(
        self, item: WorkItem, speculation: Speculation | None, n_predict: int | None = None
    ) -> Generate:
        return Generate(
            prompt=item.tokens,
            n_predict=n_predict or self.workload.n_predict,
            sampling=self.workload.sampling_of(item),
            speculation=speculation,
            reuse_prompt=True,
        )

    def _record_reading(self, result: GenerationResult) -> None:
        """Record the seconds of reading a prompt, unless its cache was restored."""
        draft_s = result.prompt_draft_s or 0.0
        n_read = result.n_prompt_tokens if result.n_evaluated is None else result.n_evaluated
        if n_read >= _SHORTEST_READ:
            self._read_s[0].append((result.prompt_s - draft_s) / n_read)
        if result.n_read is not None and result.n_read >= _SHORTEST_READ:
            self._read_s[1].append(draft_s / result.n_read)


def uncancelled(result: GenerationResult) -> GenerationResult:
    """Return a result as it is.

    Raises:
        CancelledError: the engine was stopped meanwhile.
    """
    if result.stop is Stop.CANCELLED:
        raise CancelledError("the measurement was cancelled")
    return result


def total_counters(results: Sequence[GenerationResult]) -> Counters:
    """Counters over all results."""
    return sum((result.counters for result in results), Counters())


def throughput(results: Sequence[GenerationResult]) -> float | None:
    """Tokens/s over all results, decoding only. None if nothing was decoded."""
    seconds = sum(result.decode_s for result in results)
    return sum(result.n_decoded for result in results) / seconds if seconds else None


def throughput_document(results: Sequence[GenerationResult]) -> Json:
    """Tokens, seconds and the resulting throughput."""
    return {
        **or_reason("tokens_per_s", throughput(results), "nothing was decoded"),
        "n_tokens": sum(result.n_decoded for result in results),
        "decode_s": sum(result.decode_s for result in results),
    }


def sha256(tokens: Sequence[int]) -> str:
    """SHA-256 of the token ids as decimal numbers, one per line."""
    return hashlib.sha256("\n".join(map(str, tokens)).encode()).hexdigest()


def steady(pairs: Sequence[Pair]) -> tuple[Pair, ...]:
    """Pairs with the same setting, with the seconds of a machine that nothing disturbs.

    As ``prices.py`` finds them, where both sides took turns within the prompts; else unchanged.
    """
    decoded = [pair for pair in pairs if pair.has_decoded]
    if not decoded or not all(pair.segments for pair in decoded):
        return tuple(pairs)
    found = iter(steady_seconds([pair.segments for pair in decoded]))
    return tuple(pair.within(next(found)) if pair.has_decoded else pair for pair in pairs)


def _within(result: GenerationResult, seconds: float) -> GenerationResult:
    """The result as if it had taken ``seconds``."""
    factor = seconds / result.decode_s
    counters = result.counters.scaled(factor)
    return replace(result, decode_s=seconds, counters=counters)


def measurements(pairs: Sequence[Pair]) -> list[PairedMeasurement]:
    """Return the pairs that decoded something."""
    return [m for pair in pairs if (m := pair.measurement) is not None]
