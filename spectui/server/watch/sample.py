"""Samples of a running llama-server; a reason stands beside each missing value."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec

from spectui.documents import Known
from spectui.server.metrics import Counters
from spectui.server.replies import ModelMeta, ModelsReply, PropsReply, SlotReply, one_line

_LONGEST_NAME = 4096

API_KEY_VARIABLES = ("SPECTUI_API_KEY", "LLAMA_API_KEY")
"""The first one that is set counts."""


class Trouble(StrEnum):
    """Kinds of trouble in which a server gives no information, as panels name them."""

    UNREACHABLE = "no connection"
    LOADING = "loading its model"
    LOCKED = "locked"
    ROUTER = "a router"
    STRANGE = "no llama-server"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A round of questions without an answer."""

    trouble: Trouble
    reason: str
    """One sentence: what is wrong, where, and what to do."""


class ServerFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Properties that do not change while a server runs; None where it does not report them."""

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


class ProcessSample(msgspec.Struct, frozen=True, kw_only=True):
    """The server's process on this machine."""

    pid: int
    name: str
    rss_bytes: int


NOT_ASKED: Known[Any] = Known(None, "the server has not been asked yet")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSample:
    """The answers to one round of requests, or the last known ones without a connection."""

    time_s: float = 0.0
    """On the poller's clock."""
    facts: Known[ServerFacts] = NOT_ASKED
    slots: Known[tuple[SlotReply, ...]] = NOT_ASKED
    counters: Known[Counters] = NOT_ASKED
    is_here: bool = False
    """Whether the server runs on this machine, so that its readings are those of the server's."""
    process: Known[ProcessSample] = NOT_ASKED
    took_s: float | None = None
    """Duration of the round of questions; None where there is no connection."""
    is_late: bool = False
    """Whether a question was left unanswered for too long; the former answer stands for it."""

    @property
    def drafters(self) -> tuple[str, ...]:
        """Drafters of the requests at work."""
        return tuple(dict.fromkeys(name for one in self.slots.value or () for name in one.drafters))

    @property
    def undrafted(self) -> str | None:
        """Why there is no acceptance; None if there is one, in the counters."""
        counters = self.counters.value
        if counters is None:
            return self.counters.reason
        if counters.drafts is None:
            return "this llama-server does not count drafts in /metrics; newer ones do"
        if not counters.drafts.n_drafts:
            slots = self.slots.value
            if slots and all(one.speculates is False for one in slots):
                return "this server drafts nothing: its command has no draft and no --spec-type"
            return "no request with a draft has ended since the server was started"
        return None


Sample = ServerSample | Failure


def facts_of(props: PropsReply, models: ModelsReply | None) -> ServerFacts:
    """Combine ``/props`` and ``/v1/models``.

    Args:
        props: props of the server.
        models: models in the server's list; None where it did not answer.
    """
    listed = [] if models is None else models.data
    meta = (listed[0].meta if listed else None) or ModelMeta()
    return ServerFacts(
        build=_short_name(props.build_info),
        alias=_short_name(props.model_alias),
        model_path=_short_name(props.model_path),
        n_ctx=props.n_ctx,
        n_slots=props.total_slots,
        quantization=_short_name(props.model_ftype),
        n_params=meta.n_params,
        size_bytes=meta.size,
        is_sleeping=props.is_sleeping,
    )


def _short_name(name: str | None) -> str | None:
    return None if not name else one_line(name, _LONGEST_NAME)
