"""What the live panels show, in one frozen piece."""

from dataclasses import dataclass

from spectui.live.acceptance import AcceptanceState
from spectui.live.expectation import ExpectationState
from spectui.live.memory import MemoryState
from spectui.live.rounds import RoundState
from spectui.live.throughput import ThroughputState
from spectui.live.traffic import TrafficState


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveState:
    """A part for each panel, so that a panel repaints only when its own part has changed."""

    throughput: ThroughputState
    acceptance: AcceptanceState
    rounds: RoundState
    memory: MemoryState
    traffic: TrafficState
    expectation: ExpectationState
