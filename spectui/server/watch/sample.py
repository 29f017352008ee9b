"""Samples of a running llama-server. What it does not tell has a reason."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum
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


class Trouble(Enum):
    """The kinds of trouble in which a server tells nothing at all."""

    UNREACHABLE = (
        "no connection",
        "there is no connection",
        "start the server, or give the address that it prints when it starts",
    )
    BROKEN = (
        "connection breaks",
        "there is no connection",
        "look into the server's log; a server with TLS has an address with https://",
    )
    SILENT = (
        "no answer",
        "the server does not answer",
        "look into the server's log, or try again when it has less to do",
    )
    LOADING = "loading its model", "the server loads its model", "try again in a moment"
    LOCKED = (
        "locked",
        "the server tells nothing without its API key",
        f"put its key into {' or '.join(API_KEY_VARIABLES)} and try again",
    )
    STRANGE = "no llama-server", "nothing that a llama-server tells", ""
    MODEL = "no such model", "the server does not run that model", ""

    def __init__(self, brief: str, in_panels: str, remedy: str) -> None:
        """Describe the trouble.

        Args:
            brief: a word or three.
            in_panels: the reason why panels are empty, a clause.
            remedy: the next step, a clause; empty where the failure's own reason has it.
        """
        self.brief = brief
        self.in_panels = in_panels
        self.remedy = remedy


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A round of questions without an answer."""

    trouble: Trouble
    reason: str
    """One sentence: what is wrong, where, and what to do if there is something to do."""
    retry_s: float | None = None
    """Until the next round; None if there is none."""

    @property
    def sentence(self) -> str:
        """The failure and its remedy."""
        remedy = self.trouble.remedy
        return f"{self.reason}; {remedy}" if remedy else self.reason


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
    n_ctx_train: int | None
    is_sleeping: bool
    """Whether it has unloaded the model, until the next request."""
    models: tuple[str, ...]
    """The names that ``/v1/models`` lists."""
    models_reason: str | None
    """Why ``/v1/models`` tells nothing; None if it does."""
    is_router: bool
    """Whether it runs no model itself, but passes requests on to servers of its own."""
    running: tuple[str, ...] = ()
    """Models that a router has loaded."""


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
        if counters.n_processing:
            return "drafts count when their request has ended, and none has yet"
        return "nothing was drafted since the server was started"


Sample = ServerSample | Failure


def facts_of(props: PropsReply, models: Known[ModelsReply], model: str | None) -> ServerFacts:
    """Put together what ``/props`` and ``/v1/models`` say.

    Args:
        props: props of the server.
        models: models in the server's list; a router lists every one that it could run.
        model: the requested model.
    """
    listed = [] if models.value is None else models.value.data
    wanted = None if models.value is None or model is None else models.value.named(model)
    one = listed[0] if len(listed) == 1 else wanted
    meta = (None if one is None else one.meta) or ModelMeta()
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
        n_ctx_train=meta.n_ctx_train,
        is_sleeping=props.is_sleeping,
        models=tuple(one_line(model.id, _LONGEST_NAME) for model in listed),
        models_reason=models.reason,
        is_router=is_router,
        running=tuple(one_line(one.id, _LONGEST_NAME) for one in listed if one.is_running),
    )


def _name(name: str | None) -> str | None:
    return None if not name else one_line(name, _LONGEST_NAME)


_COMING = frozenset({"loading", "downloading"})
_MOST_NAMED = 12
"""Models that one sentence lists."""


def unchosen(url: str, facts: ServerFacts) -> str:
    """Say that a router has models to choose from, those first that it has loaded."""
    others = [name for name in facts.models if name not in facts.running]
    names = _listed([*(f"{name} (loaded)" for name in facts.running), *others])
    found = (
        names if facts.models_reason is None else f"it does not list them: {facts.models_reason}"
    )
    return f"{url} is a router; choose one of its models with --model: {found}"


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMED
    tail = f" and {more} more" if more > 0 else ""
    return ", ".join(names[:_MOST_NAMED]) + tail if names else "it lists none"


def unroutable(url: str, model: str, listed: ModelsReply) -> Failure | None:
    """Say why a server cannot be asked for a model; None where it can.

    Args:
        url: address of the server.
        model: the requested model.
        listed: by the server.
    """
    found, name = listed.named(model), one_line(model)
    status = None if found is None or found.status is None else one_line(found.status.value)
    trouble = Trouble.MODEL
    if not listed.is_routers:
        reason = "is no router and runs one model alone; leave out --model"
    elif found is None:
        names = _listed([one_line(each.id) for each in listed.data])
        reason = f"has no model {name}; name one of its models: {names}"
    elif not status or found.is_running:
        return None
    elif status in _COMING:
        trouble, reason = Trouble.LOADING, f"is {status} {name}"
    else:
        loaded = "load it, which the first request for it does as well"
        reason = f"has not loaded {name}, which is {status}; {loaded}"
    return Failure(trouble=trouble, reason=f"{url} {reason}")
