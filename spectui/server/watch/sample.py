"""Samples of a running llama-server. What it does not tell has a reason."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from spectui.documents import Known
from spectui.server.metrics import Counters
from spectui.server.replies import (
    ModelMeta,
    ModelsReply,
    PropsReply,
    SlotPhase,
    SlotReply,
    one_line,
)

_LONGEST_NAME = 4096

API_KEY_VARIABLES = ("SPECTUI_API_KEY", "LLAMA_API_KEY")
"""The first one that is set counts."""


class Trouble(StrEnum):
    """The kinds of trouble in which a server tells nothing at all, as panels name them."""

    UNREACHABLE = "no connection"
    LOADING = "loading its model"
    LOCKED = "locked"
    STRANGE = "no llama-server"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A round of questions without an answer."""

    trouble: Trouble
    reason: str
    """One sentence: what is wrong, where, and what to do."""
    retry_s: float | None = None
    """Until the next round; None if there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFacts:
    """Properties that do not change while a server runs. None where it does not tell."""

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
    is_sleeping: bool
    """Whether it has unloaded the model, until the next request."""
    models: tuple[str, ...]
    """The names that ``/v1/models`` lists, with the ports of those that a router has loaded."""
    is_router: bool
    """Whether it runs no model itself, but passes requests on to servers of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSample:
    """The server's process on this machine."""

    pid: int
    name: str
    rss_bytes: int


_NOT_SOUGHT: Known[Any] = Known(None, "the server has not been looked for yet")
NOT_ASKED: Known[Any] = Known(None, "the server has not been asked yet")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostState:
    """The server's machine and process."""

    is_here: bool = False
    """Whether it is this machine, so that its readings are those of the server's."""
    process: Known[ProcessSample] = _NOT_SOUGHT
    cores: float | None = None
    """Cores that it keeps busy; None at the first look, as the rate below."""
    read_bytes_per_s: Known[float] = _NOT_SOUGHT


class Work(StrEnum):
    """The activity of a server."""

    IDLE = "idle"
    PROMPT = "reading a prompt"
    GENERATING = "generating"
    WORKING = "working"
    """The server has requests; without ``/slots`` it does not report their progress."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSample:
    """The answers to one round of questions, or what is left of them without a connection."""

    time_s: float = 0.0
    """On the poller's clock."""
    facts: Known[ServerFacts] = NOT_ASKED
    slots: Known[tuple[SlotReply, ...]] = NOT_ASKED
    counters: Known[Counters] = NOT_ASKED
    host: HostState = HostState()
    took_s: float | None = None
    """Duration of the round of questions; None where there is no connection."""
    is_late: bool = False
    """Whether a question was left unanswered for too long; the former answer stands for it."""

    @property
    def work(self) -> Work:
        """The activity of the server."""
        slots, counters = self.slots.value, self.counters.value
        if self.took_s is None or (slots is None and counters is None):
            return Work.UNKNOWN
        if slots is None:
            return Work.WORKING if counters is not None and counters.n_processing else Work.IDLE
        phases = {slot.phase for slot in slots}
        if SlotPhase.GENERATING in phases:
            return Work.GENERATING
        return Work.PROMPT if SlotPhase.PROMPT in phases else Work.IDLE

    @property
    def drafters(self) -> tuple[str, ...]:
        """Drafters of the requests at work."""
        return tuple(dict.fromkeys(name for one in self.slots.value or () for name in one.drafters))

    @property
    def undrafted(self) -> str | None:
        """Why there is no acceptance; None if there is one, in the counters."""
        counters, slots = self.counters.value, self.slots.value
        if counters is None:
            return self.counters.reason
        if counters.drafts is not None and counters.drafts.n_drafts:
            return None
        if self.took_s is None:
            return self.slots.reason
        if counters.drafts is None:
            return "this llama-server does not count drafts in /metrics; newer ones do"
        if slots and not any(slot.speculates for slot in slots):
            return "this server does not speculate"
        return "no request with a draft has ended since the server was started"


Sample = ServerSample | Failure


def facts_of(props: PropsReply, models: ModelsReply | None) -> ServerFacts:
    """Put together what ``/props`` and ``/v1/models`` say.

    Args:
        props: props of the server.
        models: models in the server's list, if it told them; a router lists all that it could run.
    """
    listed = [] if models is None else models.data
    meta = (listed[0].meta if len(listed) == 1 else None) or ModelMeta()
    is_router = props.role == "router"
    return ServerFacts(
        build=_name(props.build_info),
        alias=None if is_router else _name(props.model_alias),
        model_path=None if is_router else _name(props.model_path),
        n_ctx=props.n_ctx,
        n_slots=props.total_slots,
        quantization=_name(props.model_ftype),
        n_params=meta.n_params,
        size_bytes=meta.size,
        is_sleeping=props.is_sleeping,
        models=tuple(one_line(one.place, _LONGEST_NAME) for one in listed),
        is_router=is_router,
    )


def _name(name: str | None) -> str | None:
    return None if not name else one_line(name, _LONGEST_NAME)
