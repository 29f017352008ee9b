"""Measuring what rounds cost: generations in which every round drafts another number of tokens."""

import random
from collections.abc import Sequence

from spectui.config import NgramConfig, Schedule, SpeculationConfig
from spectui.engine.commands import Generate
from spectui.engine.driver import Engine
from spectui.engine.events import CommandRestarted, Event, GenerationResult, RoundFinished
from spectui.errors import CancelledError
from spectui.replay.costs import Observed, Probed
from spectui.speculative.counters import Round
from spectui.speculative.decoder import Stop
from spectui.tune.workload import WorkItem, Workload

_LENGTHS = (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 254)
"""Between these a curve is taken to be straight; 32 is where llama.cpp's offload begins."""
_REPEATS = 64
"""Of all lengths, in random order: more rounds than any probe runs."""
_OFF_TOKENS = 24


class CostProbe:
    """Measures the loaded models on prompts of a workload."""

    def __init__(
        self,
        engine: Engine,
        workload: Workload,
        schedule: Schedule,
        *,
        depth: int,
        ngram: NgramConfig | None = None,
        seed: int = 0,
    ) -> None:
        """Prepare; nothing runs yet.

        Args:
            engine: has loaded the target, and the draft that drafts.
            workload: how far to decode, and how to sample.
            schedule: the work per round.
            depth: longest draft.
            ngram: drafts in place of a draft model.
            seed: of the order of lengths.
        """
        self._engine = engine
        self._workload = workload
        self._schedule = schedule
        self._depth = depth
        self._speculation = SpeculationConfig(draft_max=depth, ngram=ngram)
        self._random = random.Random(seed)  # noqa: S311 - an order of measurements needs no secrets
        self._rounds: list[Round] = []

    def run(self, items: Sequence[WorkItem]) -> Probed | None:
        """Measure on each of ``items``, and the target alone right before it.

        Returns:
            What was measured; None if every text ended before a round drafted anything.

        Raises:
            CancelledError: it was stopped.
        """
        observed: list[Observed] = []
        off_s: dict[int, float] = {}
        for group, item in enumerate(items):
            off = self._generate(item, None)
            found = self._probe(item, group)
            if off.n_decoded and found:
                off_s[group] = off.decode_s / off.n_decoded
                observed += found
        if not any(one.round.n_drafted for one in observed):
            return None
        return Probed(observed=observed, off_s=off_s)

    def _probe(self, item: WorkItem, group: int) -> list[Observed]:
        listener = self._engine.on_event
        self._rounds = []
        self._engine.on_event = self._listen
        try:
            self._generate(item, self._lengths())
        finally:
            self._engine.on_event = listener
        # The first round after a prompt is slower than the rest.
        return observed_rounds(self._rounds, len(item.tokens), group, self._schedule)[1:]

    def _listen(self, event: Event) -> None:
        match event:
            case RoundFinished(round=finished):
                self._rounds.append(finished)
            case CommandRestarted():
                # It gave way to a chat: its rounds so far have a pause beside them.
                self._rounds.clear()
            case _:
                pass

    def _lengths(self) -> tuple[int, ...]:
        lengths = [length for length in _LENGTHS if length < self._depth] + [self._depth]
        shuffled = [self._random.sample(lengths, len(lengths)) for _ in range(_REPEATS)]
        return tuple(length for block in shuffled for length in block)

    def _generate(self, item: WorkItem, lengths: tuple[int, ...] | None) -> GenerationResult:
        result = self._engine.generate(
            Generate(
                prompt=item.tokens,
                n_predict=_OFF_TOKENS if lengths is None else self._workload.n_predict,
                sampling=self._workload.sampling,
                speculation=None if lengths is None else self._speculation,
                schedule=self._schedule,
                draft_lengths=lengths or (),
                reuse_prompt=True,
            )
        )
        if result.stop is Stop.CANCELLED:
            raise CancelledError("the measurement was cancelled")
        return result


def observed_rounds(
    rounds: Sequence[Round], n_prompt: int, group: int, schedule: Schedule
) -> list[Observed]:
    """Rounds with the depth at which each began, and whether its draft had to catch up."""
    found = []
    n_past = n_prompt
    lacks = False
    for one in rounds:
        found.append(
            Observed(group=group, n_past=n_past, catches_up=lacks and one.n_steps > 0, round=one)
        )
        n_past += len(one.tokens)
        lacks = schedule is Schedule.FAST and _leaves_one_behind(one)
    return found


def _leaves_one_behind(one: Round) -> bool:
    """Whether the draft's cache lacks a token after the round, on the ``fast`` schedule."""
    # Without a step it took no part; fully accepted, its last token was never decoded.
    return one.n_steps == 0 or one.n_accepted == one.n_drafted == one.n_steps
