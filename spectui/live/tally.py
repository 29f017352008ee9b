"""The numbers behind the live panels: events and readings in, one frozen state out.

Among them tokens per second: now and in this turn, against the target alone.
"""

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import fmean

from spectui.engine.devices import concerned
from spectui.engine.events import PromptEvaluated, Role
from spectui.live import machine, rounds
from spectui.live.setup import BaselineMeasured, RamMeasured
from spectui.llama.buffers import ModelMemory
from spectui.monitor import bottleneck
from spectui.monitor.bottleneck import ratio
from spectui.monitor.readings import Reading, Snapshot
from spectui.options.speculation import Speculation
from spectui.speculative.counters import Counters, Round, count
from spectui.trace.terms import ExpectationState, expectation_state

WINDOW_S = 2.0
"""Length of "now". Shorter, and a round more or less moves the number."""
_SAMPLE_S = 0.5
"""Decode time that one sample of the history stands for."""
_N_SAMPLES = 160
_MINUTE_S = 60
_STALE_S = 120.0
"""Age at which the speed of the target alone is measured again: the machine's load changes."""
_ALONE = "this turn runs without the draft"
_N_RECENT = 160
"""Rounds that a strip may show."""
_N_LOADS = 8
"""Readings of the machine, of two seconds at the usual pace."""


class Phase(StrEnum):
    """Phases of an answer."""

    IDLE = "idle"
    PROMPT = "reading the prompt"
    DECODING = "decoding"


@dataclass(frozen=True, slots=True, kw_only=True)
class ThroughputState:
    """Decode throughput, as llama-server counts it: without the prompt and its first token."""

    phase: Phase = Phase.IDLE
    now_tokens_per_s: float | None = None
    """Over the last ``WINDOW_S`` of decoding; None while nothing is decoded."""
    turn_tokens_per_s: float | None = None
    baseline_tokens_per_s: float | None = None
    """The target alone; None before it was measured."""
    baseline_age_min: int | None = None
    """Whole minutes since the baseline was measured."""
    prompt_s: int = 0
    """Whole seconds for which the prompt has been read; 0 where none is."""
    prompt: PromptEvaluated | None = None
    n_used: int = 0
    """Tokens in the context: the prompt and its answer so far."""
    n_ctx: int = 0
    """Tokens that the context holds; 0 where that is not known."""
    histories: tuple[bottleneck.Samples, ...] = ((), ())
    """Tokens per second of each half second of decoding, of turns without and of those with the
    draft; None between turns, and in those of the other kind."""
    means: tuple[float | None, float | None] = (None, None)
    """Tokens per second of all turns of a kind; None where there was none."""


@dataclass(slots=True)
class Rate:
    """Tokens over seconds, added up."""

    n_tokens: int = 0
    seconds: float = 0.0

    def add(self, n_tokens: int, seconds: float) -> None:
        """Count some more."""
        self.n_tokens += n_tokens
        self.seconds += seconds

    @property
    def per_s(self) -> float | None:
        """None before anything took time."""
        return ratio(self.n_tokens, self.seconds)


class ThroughputMeter:
    """Counts rounds. Times are the rounds' own: events may arrive late and in bunches."""

    def __init__(self) -> None:
        """Start without a round."""
        self.phase = Phase.IDLE
        self._prompt: PromptEvaluated | None = None
        self._turn, self._sample = Rate(), Rate()
        self._recent: deque[tuple[int, float]] = deque()
        self._recent_s = 0.0
        self._histories = tuple(deque[float | None](maxlen=_N_SAMPLES) for _kind in range(2))
        self._drafts = True
        self._by_kind = Rate(), Rate()

    def begin_turn(self, *, drafts: bool) -> None:
        """Start counting a turn, with the draft or without."""
        if self._turn.n_tokens:
            self._extend(None)
        self._drafts = drafts
        self.phase = Phase.PROMPT
        self._prompt = None
        self._turn, self._sample = Rate(), Rate()
        self._recent.clear()
        self._recent_s = 0.0

    def prompt_evaluated(self, prompt: PromptEvaluated) -> None:
        """Decoding begins."""
        self.phase, self._prompt = Phase.DECODING, prompt

    def add(self, n_tokens: int, seconds: float) -> None:
        """Count a round."""
        for rate in (self._turn, self._sample, self._by_kind[self._drafts]):
            rate.add(n_tokens, seconds)
        self._recent.append((n_tokens, seconds))
        self._recent_s += seconds
        # One round is kept, however long it takes.
        while len(self._recent) > 1 and self._recent_s - self._recent[0][1] >= WINDOW_S:
            self._recent_s -= self._recent.popleft()[1]
        if self._sample.seconds >= _SAMPLE_S:
            self._extend(self._sample.per_s)
            self._sample = Rate()

    def _extend(self, tokens_per_s: float | None) -> None:
        for drafts, history in enumerate(self._histories):
            history.append(tokens_per_s if drafts == self._drafts else None)

    def state(self, baseline: BaselineMeasured | None, age_s: float) -> ThroughputState:
        """Return the present numbers, beside the target alone as measured ``age_s`` ago."""
        recent = Rate(sum(n for n, _s in self._recent), sum(s for _n, s in self._recent))
        return ThroughputState(
            phase=self.phase,
            now_tokens_per_s=recent.per_s if self.phase is Phase.DECODING else None,
            turn_tokens_per_s=self._turn.per_s,
            baseline_tokens_per_s=None if baseline is None else baseline.tokens_per_s,
            baseline_age_min=None if baseline is None else int(age_s // _MINUTE_S),
            prompt=self._prompt,
            n_used=0 if self._prompt is None else self._prompt.n_tokens + 1 + self._turn.n_tokens,
            histories=tuple(map(tuple, self._histories)),
            means=(self._by_kind[0].per_s, self._by_kind[1].per_s),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveState:
    """A part for each panel, so that a panel repaints only when its own part has changed."""

    throughput: ThroughputState
    acceptance: rounds.AcceptanceState
    memory: machine.MemoryState
    traffic: machine.TrafficState
    expectation: ExpectationState
    rounds: rounds.RoundState


class LiveTally:
    """Adds up rounds, prompts and readings. Not thread-safe: the screen's thread owns it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Start with nothing loaded and nothing read.

        Args:
            clock: gives the baseline's age: a machine's speed changes.
        """
        self._clock = clock
        self._snapshot: Snapshot | None = None
        self._history = bottleneck.TrafficHistory()
        self._ram_bytes_per_s: float | None = None
        self.reset()

    def reset(self) -> None:
        """Forget models and rounds: another pair is loaded. Readings of the machine stay."""
        self._models: dict[Role, ModelMemory] = {}
        self._reads = machine.Reads()
        self._swap_before_bytes: float | None = None
        self._baseline: BaselineMeasured | None = None
        self._measured_s = self._began_s = 0.0
        self._n_ctx = 0
        self._throughput = ThroughputMeter()
        self._verify = rounds.VerifyTimes()
        self._speculation: Speculation | None = Speculation()
        """How the last turn drafts; None for the target alone."""
        self._turn = Counters()
        self._watts: list[float] = []
        """Watts of all GPUs together, at each reading while this turn was decoded."""
        self._reset_setting()

    def _reset_setting(self) -> None:
        """Forget rounds of other settings: these say nothing about the present ones."""
        self._setting = Counters()
        self._setting_rate = Rate()
        self._recent: deque[Round] = deque(maxlen=_N_RECENT)
        self._loads: deque[Snapshot] = deque(maxlen=_N_LOADS)

    def loaded(self, role: Role, memory: ModelMemory) -> None:
        """Note the memory that a loaded model takes."""
        self._models[role] = memory
        self._reads = machine.Reads.of(self._models)
        if self._snapshot is not None:
            self._swap_before_bytes = self._snapshot.host.swap_used_bytes

    def baseline(self, measured: BaselineMeasured) -> None:
        """Take the speed of the target alone."""
        self._baseline, self._measured_s = measured, self._clock()

    def ram_measured(self, measured: RamMeasured) -> None:
        """Take the limit of the machine's RAM."""
        self._ram_bytes_per_s = measured.bytes_per_s

    @property
    def baseline_tokens_per_s(self) -> float | None:
        """Speed of the target alone; None before it was measured."""
        return None if self._baseline is None else self._baseline.tokens_per_s

    @property
    def baseline_is_stale(self) -> bool:
        """Whether the speed of the target alone was measured long ago."""
        return self._baseline is not None and self._clock() - self._measured_s > _STALE_S

    def generation_started(self, speculation: Speculation | None, n_ctx: int = 0) -> None:
        """Begin a turn.

        Args:
            speculation: how it drafts; None runs the target alone.
            n_ctx: tokens that the context holds; 0 where that is not known.
        """
        if speculation != self._speculation:
            self._speculation = speculation
            self._reset_setting()
        self._turn = Counters()
        self._watts = []
        self._began_s, self._n_ctx = self._clock(), n_ctx
        self._throughput.begin_turn(drafts=speculation is not None)

    def prompt_evaluated(self, event: PromptEvaluated) -> None:
        """Take the prompt's time; decoding begins."""
        self._throughput.prompt_evaluated(event)

    def round_finished(self, finished: Round) -> None:
        """Take one round."""
        counters = count((finished,))
        self._turn += counters
        self._setting += counters
        n_tokens, seconds = len(finished.tokens), finished.times.total_s
        self._setting_rate.add(n_tokens, seconds)
        self._throughput.add(n_tokens, seconds)
        self._verify.add(finished.n_drafted + 1, finished.times.verify_s)
        self._recent.append(finished)

    def generation_finished(self) -> None:
        """End the turn."""
        self._throughput.phase = Phase.IDLE

    def snapshot(self, snapshot: Snapshot) -> None:
        """Take a reading of the machine."""
        self._snapshot = snapshot
        if self._is_decoding:
            # What the machine does between two turns says nothing about a round.
            shown = concerned(snapshot, self._models)
            self._loads.append(shown)
            powers = [gpu.power_w.value for gpu in shown.gpus]
            self._watts += [sum(filter(None, powers))] if powers and None not in powers else []
        self._history.add(snapshot, self._dram() if self._is_decoding else Reading(None))

    @property
    def _is_decoding(self) -> bool:
        return self._throughput.phase is Phase.DECODING

    def _dram(self) -> Reading:
        return self._reads.dram(tuple(self._recent))

    def _dram_limit(self, costs: Sequence[rounds.VerifyCost]) -> machine.DramLimit | None:
        """The limit of RAM, by decodes of these sizes and the draft's where they show more."""
        best = self._reads.best_rate(costs, rounds.draft_step_s(self._setting))
        return machine.dram_limit(self._ram_bytes_per_s, best)

    def _rounds(
        self, recent: Sequence[Round], costs: tuple[rounds.VerifyCost, ...]
    ) -> rounds.RoundState:
        state = rounds.round_state(recent, costs)
        if state.times is None or state.batch is None:
            return state
        # Of these rounds alone: those before may have been decoded on another load of the machine.
        usual = [
            one for one in recent[-rounds.N_MEAN :] if one.n_drafted + 1 == state.batch.n_tokens
        ]
        now = replace(state.batch, seconds=fmean(one.times.verify_s for one in usual))
        # Beside its own rate any batch would look as fast as RAM allows.
        limit = self._dram_limit([cost for cost in costs if cost is not state.batch])
        evidence = bottleneck.Evidence(
            times=state.times,
            ram_share=self._reads.ram_share(now.n_tokens),
            dram_bytes_per_s=self._reads.verify_rate(now),
            dram_limit_bytes_per_s=None if limit is None else limit.bytes_per_s,
            is_limit_measured=limit is not None and limit.is_measured,
            **bottleneck.mean_load(self._loads),
        )
        return replace(state, bottleneck=bottleneck.find_bottleneck(evidence))

    def _traffic(self, costs: Sequence[rounds.VerifyCost]) -> machine.TrafficState:
        snapshot, limit = self._snapshot, self._dram_limit(costs)
        shown = None if snapshot is None else concerned(snapshot, self._models)
        gpus = () if shown is None else shown.gpus
        return machine.TrafficState(
            machine=shown,
            received_history=self._history.of("rx", gpus[0].index) if len(gpus) == 1 else (),
            dram_bytes_per_s=self._dram(),
            is_decoding=self._is_decoding,
            dram_limit=limit,
            token=self._reads.token(limit, self.baseline_tokens_per_s),
            dram_history=self._history.of("dram"),
            disk_history=self._history.of("disk"),
        )

    def _acceptance(self) -> rounds.AcceptanceState:
        if self._speculation is None:
            return rounds.AcceptanceState(reason=_ALONE, turn=self._turn)
        if not self._recent:
            return rounds.AcceptanceState()
        by_ngrams = self._speculation.model is None
        return rounds.AcceptanceState(
            reason=rounds.undrafted_reason(self._turn, by_ngrams=by_ngrams),
            turn=self._turn,
            setting=self._setting,
            recent=tuple((one.n_drafted, one.n_accepted) for one in self._recent),
        )

    def _expectation(self, step_s: float | None) -> ExpectationState:
        measured = ratio(self._setting_rate.per_s, self.baseline_tokens_per_s)
        if self._speculation is None:
            return ExpectationState(reason=_ALONE, measured=measured)
        return expectation_state(
            self._setting,
            step_s=step_s,
            baseline_tokens_per_s=self.baseline_tokens_per_s,
            measured=measured,
        )

    def state(self) -> LiveState:
        """Return the present state."""
        recent, baseline = tuple(self._recent), self._baseline
        baseline_s = None if baseline is None else baseline.step_s
        step_s, costs = self._verify.step_s(baseline_s), self._verify.costs(baseline_s)
        costs = tuple(replace(one, at_random=self._reads.at_random(one.n_tokens)) for one in costs)
        age_s = 0.0 if baseline is None else self._clock() - self._measured_s
        is_reading = self._throughput.phase is Phase.PROMPT
        throughput = self._throughput.state(baseline, age_s)
        watts = fmean(self._watts) if self._watts else None
        return LiveState(
            throughput=replace(
                throughput,
                prompt_s=int(self._clock() - self._began_s) if is_reading else 0,
                n_ctx=self._n_ctx,
            ),
            acceptance=self._acceptance(),
            rounds=self._rounds(recent, costs),
            memory=machine.memory_state(
                self._snapshot,
                self._models,
                is_decoding=self._is_decoding,
                swap_before_bytes=self._swap_before_bytes,
                joules_per_token=ratio(watts, throughput.turn_tokens_per_s),
            ),
            traffic=self._traffic(costs),
            expectation=self._expectation(step_s),
        )
