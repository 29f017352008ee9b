"""Samples of a running llama-server. A value that it does not tell is None, with a reason."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Generic

from spectui.known import Known, T
from spectui.server.metrics import Counters
from spectui.server.replies import ModelMeta, ModelsReply, PropsReply, SlotReply, one_line

_LONGEST_NAME = 4096


class Late(Known[T], Generic[T], frozen=True):
    """An answer that did not come in time."""


class Trouble(StrEnum):
    """The kinds of trouble in which a server tells nothing at all."""

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
    """Failure of a server to answer at all, for now."""

    trouble: Trouble
    reason: str
    """One sentence: what is wrong, where, and what to do if there is something to do."""


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
    read_bytes: Known[int]
    """Bytes read from disk since it was started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Whereabouts:
    """The server's machine and process."""

    is_here: bool
    """Whether it is this machine, so that its readings are those of the server's."""
    process: Known[ProcessSample]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSample:
    """The answers to one round of questions."""

    time_s: float
    """On the poller's clock."""
    facts: Known[ServerFacts]
    slots: Known[tuple[SlotReply, ...]]
    counters: Known[Counters]
    whereabouts: Whereabouts
    took_s: float
    """Duration of the round of questions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingSample:
    """A round of questions that takes long: the former answers may be outdated."""

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
        has_slots=props.endpoint_slots,
        has_metrics=props.endpoint_metrics,
        is_sleeping=props.is_sleeping,
        models=tuple(one_line(model.id, _LONGEST_NAME) for model in listed),
        models_reason=models.reason,
        is_router=is_router,
        running=tuple(one_line(one.id, _LONGEST_NAME) for one in listed if one.is_running),
    )


def _name(name: str | None) -> str | None:
    return None if not name else one_line(name, _LONGEST_NAME)
