"""What the generations of a live session took, round by round."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from spectui.engine.commands import Generate
from spectui.engine.events import Event, GenerationFinished, PromptEvaluated, RoundFinished
from spectui.options.setup import Schedule
from spectui.options.speculation import Speculation
from spectui.speculative.counters import Round

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One generation with one setting."""

    speculation: Speculation | None
    """None for the target alone."""
    schedule: Schedule
    n_prompt: int
    rounds: tuple[Round, ...]
    n_decoded: int
    """Tokens that rounds emitted: the first one came with the prompt."""
    decode_s: float


class RunMeter:
    """Listens to the generations of one client, one after the other."""

    def __init__(self) -> None:
        """Nothing has been heard."""
        self._rounds: list[Round] = []

    def hear(self, event: Event, command: Generate) -> Run | None:
        """Take an event of ``command``; return the run when it has ended."""
        match event:
            case PromptEvaluated():
                # A generation that gave way to another client begins here once more.
                self._rounds = []
            case RoundFinished(round=finished):
                self._rounds.append(finished)
            case GenerationFinished(result=result):
                return Run(
                    speculation=command.speculation,
                    schedule=command.schedule,
                    n_prompt=result.n_prompt_tokens,
                    rounds=tuple(self._rounds),
                    n_decoded=result.n_decoded,
                    decode_s=result.decode_s,
                )
            case _:
                pass
        return None


def newest(items: Sequence[Item], n_tokens: int, size: Callable[[Item], int]) -> tuple[Item, ...]:
    """Return the last items that have ``n_tokens`` together; one at least, if there is any."""
    total = 0
    for index in range(len(items) - 1, -1, -1):
        total += size(items[index])
        if total > n_tokens and index + 1 < len(items):
            return tuple(items[index + 1 :])
    return tuple(items)
