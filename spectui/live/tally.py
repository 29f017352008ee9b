"""The numbers behind the live panels: events and readings in, one frozen state out."""

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from spectui.engine.events import PromptEvaluated, Role
from spectui.live.acceptance import (
    AcceptanceState,
    ExpectationState,
    acceptance_state,
    draft_step_s,
    expectation_state,
)
from spectui.live.memory import MemoryState, memory_state
from spectui.live.rounds import (
    N_MEAN,
    Bottleneck,
    Evidence,
    RoundState,
    VerifyCost,
    VerifyTimes,
    find_bottleneck,
    mean_times,
    round_state,
    usual_batch,
)
from spectui.live.throughput import Phase, Rate, ThroughputMeter, ThroughputState, ratio
from spectui.live.traffic import (
    MachineLoad,
    TrafficHistory,
    TrafficState,
    best_rate,
    dram_estimate,
    ram_share,
    traffic_state,
    verify_rate,
)
from spectui.llama.buffers import ModelMemory
from spectui.monitor.readings import Reading, Snapshot
from spectui.options.speculation import Speculation
from spectui.speculative.counters import Counters, Round, count

_N_RECENT = 160
"""Rounds that a strip may show."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveState:
    """A part for each panel, so that a panel repaints only when its own part has changed."""

    throughput: ThroughputState
    acceptance: AcceptanceState
    rounds: RoundState
    memory: MemoryState
    traffic: TrafficState
    expectation: ExpectationState


class LiveTally:
    """Adds up what happens. Not thread-safe: the screen's thread owns it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Start with nothing loaded and nothing read. ``clock`` gives a baseline's age."""
        self._clock = clock
        self._snapshot: Snapshot | None = None
        self._history = TrafficHistory()
        self.reset()

    def reset(self) -> None:
        """Forget models and rounds: another pair is loaded. Readings of the machine stay."""
        self._models: dict[Role, ModelMemory] = {}
        self._swap_before_bytes: float | None = None
        self._throughput = ThroughputMeter(clock=self._clock)
        self._verify = VerifyTimes()
        self._speculation: Speculation | None = None
        self._speculates = True
        self._turn = Counters()
        self._reset_setting()

    def _reset_setting(self) -> None:
        """Forget what other settings did: their rounds say nothing about the present ones."""
        self._setting = Counters()
        self._setting_rate = Rate()
        self._recent: deque[Round] = deque(maxlen=_N_RECENT)
        self._load = MachineLoad()

    def loaded(self, role: Role, memory: ModelMemory) -> None:
        """Note the memory that a loaded model takes."""
        self._models[role] = memory
        if self._snapshot is not None:
            self._swap_before_bytes = self._snapshot.host.swap_used_bytes

    def baseline(self, tokens_per_s: float, step_s: float) -> None:
        """Take the target's own speed, and V(1), seconds of a single-token decode."""
        self._throughput.measured_alone(tokens_per_s)
        self._verify.baseline_s = step_s

    def generation_started(self, speculation: Speculation | None) -> None:
        """Begin a turn; None runs the target alone."""
        self._speculates = speculation is not None
        if speculation != self._speculation:
            self._speculation = speculation
            self._reset_setting()
        self._turn = Counters()
        self._throughput.begin_turn()

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
        self._throughput.end_turn()

    def snapshot(self, snapshot: Snapshot) -> None:
        """Take a reading of the machine."""
        self._snapshot = snapshot
        if self._is_decoding:
            # What the machine does between two turns says nothing about a round.
            self._load.add(snapshot)
        self._history.add(snapshot, self._dram())

    @property
    def _is_decoding(self) -> bool:
        return self._throughput.phase is Phase.DECODING

    def _dram(self) -> Reading:
        return dram_estimate(self._models, tuple(self._recent), is_decoding=self._is_decoding)

    def _bottleneck(
        self, recent: Sequence[Round], costs: Sequence[VerifyCost], best: float | None
    ) -> Bottleneck | None:
        last = recent[-N_MEAN:]
        batch = usual_batch(last, costs)
        if batch is None:
            return None
        return find_bottleneck(
            Evidence(
                times=mean_times(last),
                disk_bytes_per_s=self._load.disk_bytes_per_s(),
                pcie_use=self._load.pcie_use(),
                gpu_use=self._load.gpu_use(),
                ram_share=ram_share(self._models, batch.n_tokens),
                dram_bytes_per_s=verify_rate(self._models, batch),
                dram_best_bytes_per_s=best,
                cores_busy=self._load.cores_busy(),
            )
        )

    def state(self) -> LiveState:
        """Return the present state."""
        recent = tuple(self._recent)
        costs, step_s = self._verify.costs(), self._verify.step_s
        best = best_rate(self._models, costs, draft_step_s(self._setting))
        baseline = self._throughput.baseline_tokens_per_s
        return LiveState(
            throughput=self._throughput.state(),
            acceptance=acceptance_state(
                self._turn,
                self._setting,
                recent,
                speculates=self._speculates,
                by_ngrams=self._speculation is not None and self._speculation.model is None,
                step_s=step_s,
            ),
            rounds=round_state(recent, costs, self._bottleneck(recent, costs, best)),
            memory=memory_state(
                self._snapshot,
                self._models,
                is_decoding=self._is_decoding,
                swap_before_bytes=self._swap_before_bytes,
            ),
            traffic=traffic_state(self._snapshot, self._history, self._dram(), best),
            expectation=expectation_state(
                self._setting,
                speculates=self._speculates,
                step_s=step_s,
                measured=ratio(self._setting_rate.per_s, baseline),
            ),
        )
