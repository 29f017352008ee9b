"""The state of a watched server, in one frozen piece per panel."""

from dataclasses import dataclass
from enum import StrEnum

from spectui.known import Known
from spectui.server.metrics import Counters, DraftCounts
from spectui.server.replies import SlotReply
from spectui.server.watch.sample import Failure, ProcessSample, ServerFacts

NOT_ASKED = "the server has not been asked yet"
_NOT_SOUGHT = "the server has not been looked for yet"
_UNASKED: Known[float] = Known(None, NOT_ASKED)
_UNTOLD: Known[Counters] = Known(None, NOT_ASKED)
_UNKNOWN: Known[ServerFacts] = Known(None, NOT_ASKED)
_UNREAD: Known[float] = Known(None, _NOT_SOUGHT)
_UNSEEN: Known[ProcessSample] = Known(None, _NOT_SOUGHT)


class SlotPhase(StrEnum):
    """The activity of a slot."""

    IDLE = "idle"
    PROMPT = "reading"
    """It evaluates a prompt."""
    GENERATING = "generating"


class Work(StrEnum):
    """The activity of a server."""

    IDLE = "idle"
    PROMPT = "reading a prompt"
    GENERATING = "generating"
    WORKING = "working"
    """It has requests; without ``/slots`` it does not say what it does for them."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkState:
    """The connection."""

    url: str
    is_connected: bool = False
    failure: Failure | None = None
    """Why not; None before the first answer, too."""
    retry_s: float | None = None
    n_failures: int = 0
    """In a row."""
    waits_s: float | None = None
    """Seconds since the current round of questions began, where that is long."""
    is_late: bool = False
    """Whether the server left a question unanswered for too long."""
    took_s: float | None = None
    """Duration of the last round of questions."""
    n_restarts: int = 0
    """Restarts of the server since it is watched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedState:
    """Throughput and counters."""

    work: Work = Work.UNKNOWN
    now_tokens_per_s: Known[float] = _UNASKED
    """Generation of all slots over the last seconds, by the clock of the watcher."""
    last_tokens_per_s: Known[float] = _UNASKED
    """Generation of the requests that ended last, as the server measured them."""
    mean_tokens_per_s: Known[float] = _UNASKED
    """Generation since the server was started."""
    prompt_tokens_per_s: Known[float] = _UNASKED
    """Rate of the prompts that were evaluated last, as the server measured them."""
    mean_prompt_tokens_per_s: Known[float] = _UNASKED
    counters: Known[Counters] = _UNTOLD
    n_watched_predicted: int = 0
    """Generated since it is watched, of requests that have ended."""
    history: tuple[float | None, ...] = ()
    """Tokens per second of every half second; None where nothing was known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftState:
    """Acceptance of the drafts."""

    reason: str | None = NOT_ASKED
    """Why there are no counts; None if there are."""
    overall: DraftCounts | None = None
    """Since the server was started."""
    watched: DraftCounts | None = None
    """Since it is watched."""
    last: DraftCounts | None = None
    """Counts of the requests that ended last."""
    history: tuple[float | None, ...] = ()
    """Acceptance rates of the requests that ended, one after the other."""
    drafters: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotState:
    """One slot."""

    sample: SlotReply
    phase: SlotPhase
    tokens_per_s: float | None = None
    """While it generates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotsState:
    """All slots."""

    reason: str | None = NOT_ASKED
    slots: tuple[SlotState, ...] = ()
    n_deferred: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class HostState:
    """The server's process."""

    is_here: bool = False
    process: Known[ProcessSample] = _UNSEEN
    cores: float | None = None
    """Cores that it keeps busy."""
    read_bytes_per_s: Known[float] = _UNREAD


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachState:
    """The whole state."""

    link: LinkState
    facts: Known[ServerFacts] = _UNKNOWN
    """The last that were told, kept while the connection is lost."""
    served: ServedState = ServedState()
    drafts: DraftState = DraftState()
    slots: SlotsState = SlotsState()
    host: HostState = HostState()
