"""The answers of llama-server's endpoints, of this year's versions and of older ones."""

from collections.abc import Mapping, Sequence
from math import isfinite

import msgspec

from spectui.server.attached.prometheus import Metric, parse_metrics
from spectui.server.attached.sample import Answer, Counters, DraftCounts, ServerFacts, SlotSample
from spectui.server.attached.words import one_line

_PREFIX = "llamacpp:"
_PER_POSITION = f"{_PREFIX}spec_decode_num_accepted_tokens_per_pos_total"
_MOST_POSITIONS = 1024
_LONGEST_NAME = 4096
RUNNING = frozenset({"loaded", "sleeping"})
"""States of a router's model that has a server of its own."""


class HealthReply(msgspec.Struct):
    """``/health``."""

    status: str


class _Defaults(msgspec.Struct):
    n_ctx: int | None = None


class PropsReply(msgspec.Struct):
    """``/props``, as far as it is shown."""

    default_generation_settings: _Defaults = msgspec.field(default_factory=_Defaults)
    total_slots: int | None = None
    model_alias: str | None = None
    model_path: str | None = None
    model_ftype: str | None = None
    build_info: str | None = None
    endpoint_slots: bool | None = None
    endpoint_metrics: bool | None = None
    is_sleeping: bool = False
    role: str | None = None


class _ModelMeta(msgspec.Struct):
    n_params: int | None = None
    size: int | None = None
    n_ctx_train: int | None = None


class ModelStatus(msgspec.Struct):
    """What a router tells of one of its models."""

    value: str = ""
    args: list[str] = []

    @property
    def port(self) -> int | None:
        """Of the server that runs it."""
        given = dict(zip(self.args, self.args[1:], strict=False)).get("--port", "")
        return int(given) if given.isdecimal() else None


class ModelReply(msgspec.Struct):
    """One model of ``/v1/models``."""

    id: str
    aliases: list[str] = []
    meta: _ModelMeta | None = None
    status: ModelStatus | None = None
    """Routers alone tell it."""

    @property
    def is_running(self) -> bool:
        """Whether a router has loaded it."""
        return self.status is not None and self.status.value in RUNNING


class ModelsReply(msgspec.Struct):
    """``/v1/models``."""

    data: list[ModelReply] = []

    @property
    def is_routers(self) -> bool:
        """Whether a router tells it."""
        return any(model.status is not None for model in self.data)

    def named(self, name: str) -> ModelReply | None:
        """The model of that name."""
        return next((one for one in self.data if name in (one.id, *one.aliases)), None)


class _NextToken(msgspec.Struct):
    n_decoded: int | None = None
    n_remain: int | None = None


class _Parameters(msgspec.Struct):
    types: str | None = msgspec.field(default=None, name="speculative.types")


class SlotReply(msgspec.Struct):
    """One slot of ``/slots``."""

    id: int
    n_ctx: int | None = None
    speculative: bool | None = None
    is_processing: bool | None = None
    state: int | None = None
    """Of servers until 2024, in place of ``is_processing``."""
    id_task: int | None = None
    n_prompt_tokens: int | None = None
    n_prompt_tokens_processed: int | None = None
    n_prompt_tokens_cache: int | None = None
    params: _Parameters | None = None
    # One object until 2025, a list of one since.
    next_token: list[_NextToken] | _NextToken | None = None


def facts_of(props: PropsReply, models: Answer[ModelsReply], model: str | None) -> ServerFacts:
    """Put together what ``/props`` and ``/v1/models`` say.

    Args:
        props: of the server.
        models: that it lists; a router lists every one that it could run.
        model: that was asked for.
    """
    listed = [] if models.value is None else models.value.data
    wanted = None if models.value is None or model is None else models.value.named(model)
    one = listed[0] if len(listed) == 1 else wanted
    meta = (None if one is None else one.meta) or _ModelMeta()
    is_router = props.role == "router"
    return ServerFacts(
        build=_named(props.build_info),
        alias=None if is_router else _named(props.model_alias),
        model_path=None if is_router else _named(props.model_path),
        n_ctx=props.default_generation_settings.n_ctx or None,
        n_slots=props.total_slots,
        quantization=_named(props.model_ftype),
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


def _named(name: str | None) -> str | None:
    return None if not name else one_line(name, _LONGEST_NAME)


def slots_of(replies: Sequence[SlotReply]) -> tuple[SlotSample, ...]:
    """Return the slots in the words of spectui."""
    return tuple(_slot(reply) for reply in replies)


def _slot(reply: SlotReply) -> SlotSample:
    token = reply.next_token[:1] if isinstance(reply.next_token, list) else [reply.next_token]
    following = (token[0] if token else None) or _NextToken()
    types = "" if reply.params is None else reply.params.types or ""
    remaining = following.n_remain
    return SlotSample(
        id=reply.id,
        is_processing=bool(reply.is_processing or reply.state),
        n_ctx=reply.n_ctx,
        n_used=reply.n_prompt_tokens,
        n_prompt_processed=reply.n_prompt_tokens_processed,
        n_prompt_cached=reply.n_prompt_tokens_cache,
        n_decoded=following.n_decoded,
        n_remaining=None if remaining is None or remaining < 0 else remaining,
        task=reply.id_task,
        speculates=reply.speculative,
        drafters=tuple(one_line(name) for name in types.split(",") if name not in {"", "none"}),
    )


def counters_of(text: str, started: str | None) -> Counters:
    """Read ``/metrics``.

    Args:
        text: the answer.
        started: what tells one start of the server from another.

    Raises:
        ValueError: the text is not in Prometheus's format, or lacks what every llama-server counts.
    """
    metrics = parse_metrics(text)

    def one(name: str) -> float | None:
        values = [each.value for each in metrics.get(f"{_PREFIX}{name}", ())]
        return next((value for value in values if isfinite(value)), None)

    def needed(name: str) -> float:
        value = one(name)
        if value is None:
            raise ValueError(f"{_PREFIX}{name} is missing")
        return value

    cached = one("prompt_tokens_cached_total")
    return Counters(
        n_prompt=round(needed("prompt_tokens_total")),
        prompt_s=needed("prompt_seconds_total"),
        n_prompt_cached=None if cached is None else round(cached),
        n_predicted=round(needed("tokens_predicted_total")),
        predicted_s=needed("tokens_predicted_seconds_total"),
        n_processing=round(one("requests_processing") or 0),
        n_deferred=round(one("requests_deferred") or 0),
        drafts=_drafts(
            one("spec_decode_num_drafts_total"),
            one("spec_decode_num_draft_tokens_total"),
            one("spec_decode_num_accepted_tokens_total"),
            metrics,
        ),
        started=started,
    )


def _drafts(
    n_drafts: float | None,
    n_drafted: float | None,
    n_accepted: float | None,
    metrics: Mapping[str, Sequence[Metric]],
) -> DraftCounts | None:
    if n_drafts is None or n_drafted is None or n_accepted is None:
        return None
    by_position: dict[int, int] = {}
    for each in metrics.get(_PER_POSITION, ()):
        position = each.labels.get("position", "")
        if position.isdecimal() and int(position) < _MOST_POSITIONS and isfinite(each.value):
            by_position[int(position)] = round(each.value)
    length = max(by_position, default=-1) + 1
    return DraftCounts(
        n_drafts=round(n_drafts),
        n_drafted=round(n_drafted),
        n_accepted=round(n_accepted),
        accepted_per_position=tuple(by_position.get(index, 0) for index in range(length)),
    )
