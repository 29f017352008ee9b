"""What a llama-server tells at one moment. What it does not tell is None, with a reason."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """What an endpoint told, or None and the reason why it told nothing."""

    value: T | None
    reason: str | None = None
    is_late: bool = False
    """Whether it told nothing within the time that it has."""


class Trouble(StrEnum):
    """Why a server tells nothing at all."""

    UNREACHABLE = "unreachable"
    """No connection."""
    BROKEN = "broken"
    """It takes connections, and they break."""
    SILENT = "silent"
    """It takes connections and does not answer in time."""
    LOADING = "loading"
    """It loads its model."""
    LOCKED = "locked"
    """It wants an API key, or another one."""
    STRANGE = "strange"
    """It answers, but not as a llama-server does."""
    MODEL = "model"
    """It does not run the model that was asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A server that tells nothing at all, for now."""

    trouble: Trouble
    reason: str
    """One sentence: what is wrong, where, and what to do if there is something to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFacts:
    """What does not change while a server runs. None where it does not say."""

    build: str | None
    alias: str | None
    model_path: str | None
    n_ctx: int | None
    """Tokens that a slot has room for."""
    n_slots: int | None
    quantization: str | None
    """Such as ``Q4_K - Medium``."""
    n_params: int | None
    size_bytes: int | None
    n_ctx_train: int | None
    has_slots: bool | None
    """Whether ``/slots`` is on."""
    has_metrics: bool | None
    """Whether ``/metrics`` is on."""
    is_sleeping: bool
    """Whether it has unloaded the model, until the next request."""
    models: tuple[str, ...]
    """The names that ``/v1/models`` lists."""
    models_reason: str | None
    """Why ``/v1/models`` tells nothing; None if it does."""
    is_router: bool
    """Whether it runs no model itself, but passes requests on to servers of its own."""
    running: tuple[str, ...] = ()
    """Of a router: those of its models that it has loaded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotSample:
    """One slot."""

    id: int
    is_processing: bool
    n_ctx: int | None
    n_used: int | None
    """Tokens of the slot's context that are in use, drafts under way included."""
    n_prompt_processed: int | None
    """Of the request's prompt; older servers do not say."""
    n_prompt_cached: int | None
    """Of the request's prompt, taken over from the request before."""
    n_decoded: int | None
    """Tokens generated for the request; the last one's when idle."""
    n_remaining: int | None
    """Tokens that may still come; None for no limit."""
    task: int | None
    """The request's number."""
    speculates: bool | None
    drafters: tuple[str, ...]
    """Who drafts for the request, in llama-server's words; empty where it does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftCounts:
    """What drafts came to, over some requests."""

    n_drafts: int
    """Drafts that the target verified."""
    n_drafted: int
    n_accepted: int
    accepted_per_position: tuple[int, ...]
    """Drafts of which the token at that position was accepted."""

    @property
    def acceptance_rate(self) -> float | None:
        """Accepted / drafted; None when nothing was drafted."""
        return self.n_accepted / self.n_drafted if self.n_drafted else None

    @property
    def mean_accepted_length(self) -> float | None:
        """Tokens per verified draft, the bonus token included; None when there was none."""
        return 1 + self.n_accepted / self.n_drafts if self.n_drafts else None

    @property
    def share_per_position(self) -> tuple[float, ...]:
        """Accepted at a position / all drafts, those too short to reach it included.

        The server does not count how many drafts reached a position.
        """
        if not self.n_drafts:
            return ()
        return tuple(accepted / self.n_drafts for accepted in self.accepted_per_position)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """What a server counts since it was started. Requests count when they end, prompts before."""

    n_prompt: int
    """Evaluated; what came from the cache is not counted."""
    prompt_s: float
    n_prompt_cached: int | None
    """None of a server that does not count them."""
    n_predicted: int
    predicted_s: float
    n_processing: int
    n_deferred: int
    """Requests that wait for a slot."""
    drafts: DraftCounts | None
    """None of a server that does not count them."""
    started: str | None
    """Changes when the server is started again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSample:
    """The server's process on this machine."""

    pid: int
    name: str
    rss_bytes: int
    n_threads: int
    cpu_s: float
    """Time of all cores since it was started."""
    started_s: float
    """Seconds since the epoch."""
    read_bytes: Answer[int]
    """From disk, since it was started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Whereabouts:
    """Where the server runs."""

    is_here: bool
    """Whether it is this machine, so that its readings are those of the server's."""
    process: Answer[ProcessSample]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSample:
    """All that a server told in one round of questions."""

    time_s: float
    """On the poller's clock."""
    facts: Answer[ServerFacts]
    slots: Answer[tuple[SlotSample, ...]]
    counters: Answer[Counters]
    whereabouts: Whereabouts
    took_s: float
    """What the round of questions took."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingSample:
    """A round of questions that takes long: what was told before is not how it is now."""

    time_s: float
    waited_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedSample:
    """A round of questions without an answer."""

    time_s: float
    failure: Failure
    retry_s: float | None = None
    """Until the next round; None if there is none."""


Sample = ServerSample | FailedSample
Event = Sample | WaitingSample
