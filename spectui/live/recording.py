"""Recordings of the user's own answers, made in the engine's idle time.

Everything stays in memory, and no more of it than the newest answers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import msgspec

from spectui.engine import events
from spectui.engine.commands import Generate, RecordChains
from spectui.engine.thread import EngineThread, Priority
from spectui.errors import CancelledError, EngineDiedError
from spectui.options.drafters import DraftMtp, Model
from spectui.options.speculation import Speculation
from spectui.speculative.models import Rollback
from spectui.speculative.mtp import longest_draft
from spectui.trace.record import Chains, Recording

Item = TypeVar("Item")
MAX_TOKENS = 8_000
"""Tokens of answers that are kept: a replay of them all takes about a second."""


def newest(items: Sequence[Item], n_tokens: int, size: Callable[[Item], int]) -> tuple[Item, ...]:
    """Return the last items that have ``n_tokens`` together; one at least, if there is any."""
    total = 0
    for index in range(len(items) - 1, -1, -1):
        total += size(items[index])
        if total > n_tokens and index + 1 < len(items):
            return tuple(items[index + 1 :])
    return tuple(items)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRecording:
    """A session's recorded answers and runs, at one moment."""

    draft: str
    """Name of the draft; ``MTP_KIND`` for the target's own MTP layers."""
    depth: int
    """Longest draft that the recordings are made for."""
    mtp_layers: int = 0
    """MTP layers of the target that draft, 0 for a draft model."""
    answers: tuple[Recording, ...] = ()
    """Different answers, oldest first; without chains until the drafter has read them."""
    failure: str | None = None
    """Why the last answer could not be recorded."""

    @property
    def is_mtp(self) -> bool:
        """Whether the target drafts for itself."""
        return self.mtp_layers > 0

    @property
    def longest(self) -> int:
        """Longest draft that there can be."""
        return longest_draft(self.depth, self.mtp_layers)

    def alone(self, speculation: Speculation | None) -> Model | None:
        """The setting as it runs if only the recorded drafter drafts; None otherwise."""
        setting = None if speculation is None or speculation.ahead else speculation.model
        if setting is None or isinstance(setting, DraftMtp) is not self.is_mtp:
            return None
        longest = longest_draft(setting.draft_max, self.mtp_layers)
        return msgspec.structs.replace(setting, draft_max=longest)

    @property
    def recordings(self) -> tuple[Recording, ...]:
        """Recordings that can be replayed."""
        return tuple(answer for answer in self.answers if answer.chains)


class ChatRecorder:
    """Records the answers of one loaded pair. Except for ``close``, used on the engine's thread."""

    def __init__(
        self,
        engine: EngineThread,
        sink: Callable[[ChatRecording], None],
        state: ChatRecording,
        *,
        n_ctx: int,
        rollback: Rollback,
        max_tokens: int = MAX_TOKENS,
    ) -> None:
        """Listen; nothing is recorded yet.

        Args:
            engine: has loaded the pair.
            sink: called with every change, on the engine's thread.
            state: the drafter, without answers.
            n_ctx: context size of the target.
            rollback: the target's way to forget.
            max_tokens: limit of tokens in kept answers.
        """
        self._sink = sink
        self._n_ctx = n_ctx
        self._rollback = rollback
        self._max_tokens = max_tokens
        self._turn: Generate | None = None
        self._n_answers = 0
        self._under_way: str | None = None
        """Id of the answer that the drafter reads."""
        self.state = state
        self._engine = engine
        self.client = engine.connect(self._on_event, Priority.BACKGROUND)

    def close(self) -> None:
        """Cancel what is under way, from any thread."""
        self.client.quit()
        self._engine.disconnect(self.client)

    def begin(self, turn: Generate) -> None:
        """Note the request of an answer."""
        self._turn = turn

    def hear(self, event: events.Event) -> None:
        """Process an event of the chat's client."""
        if self._turn is not None and isinstance(event, events.GenerationResult):
            turn, self._turn = self._turn, None
            self._add(turn, event)
            self._record_next()

    def _add(self, turn: Generate, result: events.GenerationResult) -> None:
        known = {(answer.prompt, answer.output) for answer in self.state.answers}
        if not result.n_decoded or (turn.prompt, result.tokens) in known:
            return
        self._n_answers += 1
        recording = Recording(
            id=f"answer-{self._n_answers}",
            category="chat",
            prompt=turn.prompt,
            output=result.tokens,
            stop=result.stop,
            n_predict=turn.n_predict,
            n_ctx=self._n_ctx,
            chains={},
            rollback=self._rollback,
        )
        answers = (*self.state.answers, recording)
        kept = newest(answers, self._max_tokens, lambda answer: len(answer.output))
        self._change(answers=kept)

    def _record_next(self) -> None:
        waiting = next((answer for answer in self.state.answers if not answer.chains), None)
        if self._under_way is not None or waiting is None:
            return
        self._under_way = waiting.id
        self.client.submit(
            RecordChains(
                prompt=waiting.prompt,
                output=waiting.output,
                depth=self.state.depth,
                mtp=self.state.is_mtp,
            )
        )

    def _on_event(self, event: events.Event) -> None:
        match event:
            case events.ChainsRecorded(chains=chains):
                self._recorded(chains)
            case events.EngineFailed(error=CancelledError()):
                # The pair is going.
                return
            case events.EngineFailed(error=error):
                others = [one for one in self.state.answers if one.id != self._under_way]
                self._change(answers=tuple(others), failure=str(error))
                if isinstance(error, EngineDiedError):
                    # The next one might end another process.
                    self._under_way = None
                    return
            case _:
                # It gave way to the chat, and will begin again by itself.
                return
        self._under_way = None
        self._record_next()

    def _recorded(self, chains: Chains) -> None:
        recorded = {self.state.draft: chains}
        answers = tuple(
            replace(answer, chains=recorded) if answer.id == self._under_way else answer
            for answer in self.state.answers
        )
        self._change(answers=answers, failure=None)

    def _change(self, **changes: object) -> None:
        self.state = replace(self.state, **changes)  # type: ignore[arg-type] # its own fields
        self._sink(self.state)
