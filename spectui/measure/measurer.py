"""Measuring discipline: warm-up, anchors, and pairs interleaved in time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from spectui.engine.commands import Generate
from spectui.engine.events import GenerationResult
from spectui.errors import CancelledError
from spectui.measure.backend import Backend
from spectui.measure.statistics import PairedMeasurement
from spectui.measure.workload import WorkItem, Workload
from spectui.options.setup import Schedule
from spectui.options.speculation import Speculation
from spectui.speculative.counters import Counters
from spectui.speculative.decoder import Stop

_WARM_UP_TOKENS = 8
_ANCHOR_TOKENS = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One prompt decoded without and with speculation, one right after the other."""

    item: WorkItem
    baseline: GenerationResult
    speculative: GenerationResult

    @property
    def measurement(self) -> PairedMeasurement | None:
        """Seconds and tokens; None where the text ended before anything was decoded."""
        if not (self.baseline.n_decoded and self.speculative.n_decoded):
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


class Measurer:
    """Decodes prompts of a workload on the engine's loaded models.

    Prompts are evaluated once and taken up again later, so what is paid for is decoding.
    """

    def __init__(self, engine: Backend, workload: Workload, schedule: Schedule) -> None:
        """Measure ``workload`` with drafting on ``schedule``."""
        self._engine = engine
        self._workload = workload
        self._schedule = schedule
        self._longest_reading = {False: (0.0, 1), True: (0.0, 1)}
        """Seconds and tokens, by whether a draft model read along."""

    @property
    def prompt_token_s(self) -> float:
        """Seconds per token of a prompt that both models evaluate for the first time.

        As in the readings that took longest: most prompts are taken up from memory, and what a
        short one takes says little of the others.
        """
        return sum(seconds / n_tokens for seconds, n_tokens in self._longest_reading.values())

    @property
    def n_beside_off(self) -> int | None:
        """Settings as in ``Backend.n_beside_off``."""
        return self._engine.n_beside_off

    def decode(self, item: WorkItem, speculation: Speculation | None) -> GenerationResult:
        """Decode one prompt. Raises ``CancelledError`` if the engine was stopped meanwhile."""
        return self._generate(item, speculation, self._workload.n_predict)

    def warm_up(self, speculation: Speculation | None) -> None:
        """Touch weights and caches: the first tokens after a load are slower than the rest.

        A server is warm when it is ready.
        """
        if self.n_beside_off is not None:
            return
        self._generate(self._workload.items[0], speculation, _WARM_UP_TOKENS)

    def anchor(self) -> float:
        """Tokens/s of a short run of the target alone: the machine's present speed."""
        sampling = replace(self._workload.sampling, ignore_eos=True)
        result = self._engine.generate(
            Generate(
                prompt=self._workload.items[0].tokens,
                n_predict=_ANCHOR_TOKENS,
                sampling=sampling,
                reuse_prompt=True,
            )
        )
        _check_complete(result)
        return result.n_decoded / result.decode_s

    def pairs(
        self,
        items: Sequence[WorkItem],
        speculation: Speculation | None,
        repeats: int = 1,
        *,
        turn: int = 0,
    ) -> Iterator[Pair]:
        """Decode every prompt without and with speculation, in alternating order.

        That begins with ``turn``. With None for ``speculation`` the target alone is on both sides.
        """
        passes = range(turn, turn + repeats)
        if self.n_beside_off == 0:
            yield from self._apart(items, speculation, passes)
            return
        for repeat in passes:
            for index, item in enumerate(items):
                yield from self.block(item, (speculation,), index + repeat)

    def _apart(
        self, items: Sequence[WorkItem], speculation: Speculation | None, passes: range
    ) -> Iterator[Pair]:
        """Half of the prompts in a row, as each change of the two loads models.

        It goes on with what is loaded, and the halves trade places from repeat to repeat.
        """
        middle = -(-len(items) // 2)
        halves = [half for half in (items[:middle], items[middle:]) if half]
        legs = chain.from_iterable(halves[:: -1 if n % 2 else 1] for n in passes)
        for turn, half in enumerate(legs):
            first, second = (speculation, None) if turn % 2 else (None, speculation)
            begun = [self.decode(item, first) for item in half]
            for item, earlier in zip(half, begun, strict=True):
                later = self.decode(item, second)
                off, on = (earlier, later) if first is None else (later, earlier)
                yield Pair(item=item, baseline=off, speculative=on)

    def block(
        self, item: WorkItem, settings: Sequence[Speculation | None], turn: int
    ) -> list[Pair]:
        """Decode one prompt without speculation and with each of ``settings``.

        The machine's drift is common to all of a block, and what one run does to the next cancels
        as the order turns round with ``turn``.

        Returns:
            A pair for each of ``settings``, with the same run without speculation.
        """
        runs = (None, *settings)
        order = [(turn + step) % len(runs) for step in range(len(runs))]
        results = {index: self.decode(item, runs[index]) for index in order}
        return [
            Pair(item=item, baseline=results[0], speculative=results[index])
            for index in range(1, len(runs))
        ]

    def _generate(
        self, item: WorkItem, speculation: Speculation | None, n_predict: int
    ) -> GenerationResult:
        result = self._engine.generate(
            Generate(
                prompt=item.tokens,
                n_predict=n_predict,
                sampling=self._workload.sampling,
                speculation=speculation,
                schedule=self._schedule,
                reuse_prompt=True,
            )
        )
        _check_complete(result)
        self._learn(result)
        return result

    def _learn(self, result: GenerationResult) -> None:
        has_draft = result.counters.n_steps > 0
        reading = (result.prompt_s, max(result.n_prompt_tokens, 1))
        self._longest_reading[has_draft] = max(self._longest_reading[has_draft], reading)


def _check_complete(result: GenerationResult) -> None:
    if result.stop is Stop.CANCELLED:
        raise CancelledError("the measurement was cancelled")


def total_counters(results: Sequence[GenerationResult]) -> Counters:
    """Counters over all results."""
    return sum((result.counters for result in results), Counters())


def throughput(results: Sequence[GenerationResult]) -> float | None:
    """Tokens/s over all results, decoding only. None if nothing was decoded."""
    seconds = sum(result.decode_s for result in results)
    return sum(result.n_decoded for result in results) / seconds if seconds else None


def measurements(pairs: Sequence[Pair]) -> list[PairedMeasurement]:
    """Return the pairs that decoded something."""
    return [m for pair in pairs if (m := pair.measurement) is not None]
