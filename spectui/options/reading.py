"""Reads the values of options from text, as a command or a preset gives them."""

import csv
import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from spectui.errors import UsageError
from spectui.options import catalogue, placement
from spectui.options.drafters import DRAFTERS, HIDDEN_STATE_KINDS, MODEL_KIND, kind_of
from spectui.options.option import INT_MAX, Decimal, Form, Option, Values, Whole
from spectui.options.request import RequestShape
from spectui.options.setup import (
    ContextOptions,
    Devices,
    Fit,
    FlashAttention,
    KvOverride,
    ModelOptions,
    Numa,
    Setup,
    SplitMode,
    TensorOverride,
)
from spectui.options.speculation import Speculation, speculation_of

ALL_LAYERS, AUTO_LAYERS = -2, -1
"""Numbers that llama-server reads as ``all`` and ``auto``. For the engine both mean all layers, and
``auto`` leaves the number to ``--fit``."""
_MOST_PORT = 65535
_SEPARATORS = re.compile(r"[,/]+")
"""Between the shares of ``-ts``."""


def read_value(values: Values, text: str) -> Any:  # noqa: ANN401 - as many types as options
    """The value that a text stands for.

    Raises:
        ValueError: it is invalid; the message begins with the text.
    """
    match values:
        case Whole(low=low, high=high):
            return _whole(text, low, high)
        case Decimal(low=low, high=high):
            return _decimal(text, low, high)
        case tuple() as words:
            if text not in words:
                raise ValueError(f"{text!r} is not one of {', '.join(words)}")
            return text
        case Form.LAYERS:
            return _layers(text)
        case Form.FILE:
            return Path(text)
        case Form.SECONDS:
            return _seconds(text)
        case Form.LENGTHS:
            return _lengths(text)
        case Form.TEXT | Form.SWITCH:
            return text


def _whole(text: str, low: int, high: int) -> int:
    try:
        number = int(text)
    except ValueError:
        raise ValueError(f"{text!r} is no whole number; write one {_between(low, high)}") from None
    if number > high:
        raise ValueError(f"{number} is out of range; write a number of at most {high}")
    if number < low:
        raise ValueError(f"{number} is out of range; write a number {_between(low, high)}")
    return number


def _decimal(text: str, low: float, high: float | None) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{text!r} is no finite number; write one {_between(low, high)}")
    if number < low or (high is not None and number > high):
        raise ValueError(f"{text} is out of range; write a number {_between(low, high)}")
    return number


def _layers(text: str) -> int:
    words = {"auto": AUTO_LAYERS, "all": ALL_LAYERS}
    try:
        layers = words[text] if text in words else int(text)
    except ValueError:
        layers = ALL_LAYERS - 1
    if not ALL_LAYERS <= layers <= INT_MAX:
        raise ValueError(f"{text!r} is no number of layers, nor auto or all")
    return layers


_DURATION = re.compile(r"\s*(\d{1,9}(?:\.\d+)?)\s*([smh])\s*", re.ASCII)
_UNITS_S = {"s": 1, "m": 60, "h": 3600}


def _seconds(text: str) -> float:
    found = _DURATION.fullmatch(text)
    seconds = float(found[1]) * _UNITS_S[found[2]] if found is not None else 0.0
    if not seconds:
        raise ValueError(f"{text!r} is no duration; write it with its unit: 90s, 30m or 2h")
    return seconds


_LENGTHS = re.compile(r"\s*(\d{1,9})\s*\+\s*(\d{1,9})\s*", re.ASCII)
_FEWEST_OF_ANSWER = 2
"""The first token comes with the prompt."""


def _lengths(text: str) -> RequestShape:
    found = _LENGTHS.fullmatch(text)
    prompt, answer = map(int, found.groups()) if found is not None else (0, 0)
    if prompt < 1 or answer < _FEWEST_OF_ANSWER:
        raise ValueError(
            f"{text!r} is no request; write the tokens of prompt and answer, such as 4096+512, "
            f"{_FEWEST_OF_ANSWER} or more for the answer"
        )
    return RequestShape(n_prompt=prompt, n_answer=answer)


def _between(low: float, high: float | None) -> str:
    if high is None or high >= INT_MAX:
        return f"of at least {low}"
    return f"from {low} to {high}"


def read_options(given: Mapping[str, tuple[str, ...]], options: Sequence[Option]) -> dict[str, Any]:
    """Values of ``options``, by ``Option.parameter``; defaults where nothing is given.

    Args:
        given: texts by the option's name; none for a switch, several for one that may be repeated.
        options: such as ``catalogue.RUN``.

    Raises:
        UsageError: an option has a value that it cannot have.
    """
    return {option.parameter: _option_value(option, given.get(option.name)) for option in options}


def _option_value(option: Option, texts: tuple[str, ...] | None) -> Any:  # noqa: ANN401 - as above
    if option.is_switch:
        return texts is not None
    if not texts:
        return () if option.repeats else option.default
    try:
        read = [read_value(option.values, text) for text in texts]
    except ValueError as error:
        raise UsageError(f"--{option.name}: {error}") from error
    return tuple(read) if option.repeats else read[-1]


def read_speculation(given: Mapping[str, tuple[str, ...]]) -> Speculation:
    """Read the drafters of a command from its options, with today's defaults.

    Raises:
        UsageError: a value is invalid, it would never draft, or only llama-server has the drafter.
    """
    kinds = tuple(",".join(given.get("spec-type", (MODEL_KIND,))).split(","))
    known = {kind_of(drafter) for drafter in DRAFTERS} - {*HIDDEN_STATE_KINDS}
    for kind in kinds:
        if kind not in known:
            raise UsageError(f"--spec-type: {kind!r} is not one of {', '.join(sorted(known))}")
    return speculation_of(kinds, read_options(given, catalogue.NUMBERS))


def read_setup(given: Mapping[str, tuple[str, ...]]) -> Setup:
    """Read the options of a command that names its model; llama-server's last draft counts.

    The drafters are read even if the draft model that they need is missing.

    Raises:
        UsageError: an option has a value that it cannot have, or options contradict each other.
    """
    values, speculation = read_options(given, catalogue.RUN), read_speculation(given)
    drafts = values[placement.MODEL_DRAFT.parameter]
    return Setup(
        target=target_of(values, values[placement.MODEL.parameter]),
        draft=draft_of(values, drafts[-1]) if drafts else None,
        context=context_of(values),
        speculation=speculation,
    )


def target_of(values: Mapping[str, Any], path: Path) -> ModelOptions:
    """Placement of the target.

    Args:
        values: values of ``catalogue.RUN``, by ``Option.parameter``.
        path: its file.

    Raises:
        UsageError: an override is none.
    """
    return replace(
        _model_of(values, path, ""),
        cache_type_k_mtp=values["cache_type_k_draft"],
        cache_type_v_mtp=values["cache_type_v_draft"],
    )


def draft_of(values: Mapping[str, Any], path: Path) -> ModelOptions:
    """Placement of a draft; arguments and errors as those of ``target_of``."""
    return _model_of(values, path, "_draft")


def _model_of(values: Mapping[str, Any], path: Path, suffix: str) -> ModelOptions:
    """Placement of a model whose options end in ``suffix``."""
    # Experts in RAM: those of all layers are more than those of some.
    all_experts = values[f"cpu_moe{suffix}"]
    return ModelOptions(
        path=path,
        n_gpu_layers=max(values[f"gpu_layers{suffix}"], -1),
        devices=devices_of(values, values[f"device{suffix}"] or values["device"]),
        override_tensor=tensor_overrides(values[f"override_tensor{suffix}"]),
        cpu_moe=all_experts,
        n_cpu_moe=0 if all_experts else values[f"n_cpu_moe{suffix}"],
        override_kv=kv_overrides(values["override_kv"]),
        **_loading(values),
        cache_type_k=values[f"cache_type_k{suffix}"],
        cache_type_v=values[f"cache_type_v{suffix}"],
    )


_GIVEN = ("override_tensor", "cpu_moe", "n_cpu_moe", "tensor_split")
"""Options that fix the placement, so that ``--fit`` has nothing to choose."""


def fit_of(values: Mapping[str, Any]) -> Fit | None:
    """Parts of the target's placement that are free to choose, from values of ``catalogue.RUN``.

    Returns:
        None where the placement is given, and with ``--fit off``.

    Raises:
        UsageError: a margin is no number.
    """
    found = margins_of(values)
    is_open = values["fit"] == "on" and values["gpu_layers"] == AUTO_LAYERS
    return None if not is_open or any(values[name] for name in _GIVEN) else found


def margins_of(values: Mapping[str, Any]) -> Fit:
    """Memory that stays free on devices, whether or not there is anything to choose.

    Raises:
        UsageError: a margin is no number.
    """
    targets = values["fit_target"] or ""
    try:
        mib = tuple(int(one) for one in _SEPARATORS.split(targets) if one)
    except ValueError:
        mib = (-1,)
    if min(mib, default=0) < 0:
        raise UsageError(f"--fit-target {targets}: write MiB for each device, such as 1024,512")
    return Fit(targets_mib=mib, min_ctx=values["fit_ctx"])


def _loading(values: Mapping[str, Any]) -> dict[str, Any]:
    """How target and draft come into RAM; ``--load-mode`` stands for three other options."""
    switches = (one for one in placement.LOADING if one.is_switch and values[one.parameter])
    chosen = placement.LOAD_MODES.get(values["load_mode"], [one.name for one in switches])
    return {
        "mmap": "no-mmap" not in chosen,
        "mlock": "mlock" in chosen,
        "direct_io": "direct-io" in chosen,
        "repack": not values["no_repack"],
    }


def context_of(values: Mapping[str, Any]) -> ContextOptions:
    """Context options that target and draft share, from values of ``catalogue.RUN``."""
    return ContextOptions(
        ctx_size=values["ctx_size"],
        batch_size=values["batch_size"],
        ubatch_size=values["ubatch_size"],
        flash_attn=FlashAttention(values["flash_attn"]),
        threads=values["threads"],
        threads_batch=values["threads_batch"],
        threads_draft=values["threads_draft"],
        threads_batch_draft=values["threads_batch_draft"],
        numa=None if values["numa"] is None else Numa(values["numa"]),
        swa_full=values["swa_full"],
        kv_offload=not values["no_kv_offload"],
        op_offload=not values["no_op_offload"],
        moe_cache_mib=values["moe_cache_mib"],
    )


_NO_DEVICE = "none"


def devices_of(values: Mapping[str, Any], names: str | None) -> Devices:
    """Devices of one model, from values of ``catalogue.RUN`` and its own ``-dev`` or ``-devd``.

    As ``common_base_params_to_speculative`` has it, target and draft share all but the names.

    Raises:
        UsageError: a server has no port, or a share is no number.
    """
    return Devices(
        rpc=endpoints(values["rpc"]),
        names=None if names is None else _device_names(names),
        split=_shares(values["tensor_split"]),
        split_mode=SplitMode(values["split_mode"]),
        main=values["main_gpu"],
    )


def endpoints(servers: str | None) -> tuple[str, ...]:
    """The servers of ``--rpc``, each ``HOST:PORT``.

    Raises:
        UsageError: one is not.
    """
    given = tuple(one.strip() for one in servers.split(",")) if servers else ()
    for one in given:
        host, _, port = one.partition(":")
        if not (host and port.isascii() and port.isdigit() and 0 < int(port) <= _MOST_PORT):
            raise UsageError(f"--rpc {one}: write HOST:PORT, such as 192.168.1.2:50052")
    return given


def _device_names(names: str) -> tuple[str, ...]:
    return () if names == _NO_DEVICE else tuple(names.split(","))


def _shares(shares: str | None) -> tuple[float, ...]:
    try:
        found = tuple(float(one) for one in _SEPARATORS.split(shares or "") if one)
    except ValueError:
        found = (-1.0,)
    if any(not 0 <= one < math.inf for one in found):
        raise UsageError(f"-ts {shares}: write a number for each device, such as 3,1")
    return found


def tensor_overrides(values: Sequence[str]) -> tuple[TensorOverride, ...]:
    """Parse ``-ot`` values; llama-server also takes several in one, separated by commas.

    Raises:
        UsageError: one has no ``=``.
    """
    found = []
    for value in values:
        for part in value.split(","):
            pattern, separator, buffer = part.partition("=")
            if not (pattern and separator and buffer):
                raise UsageError(f"-ot {part}: write PATTERN=BUFFER, such as exps=CPU")
            found.append(TensorOverride(pattern=pattern, buffer=buffer))
    return tuple(found)


_MOST_BYTES = 127
"""Maximum number of bytes of a key and of a text, as in ``llama_model_kv_override``."""
_BOOLEANS = {"true": True, "false": False}
_TYPES: dict[str, Callable[[str], bool | int | float | str]] = {
    "int": int,
    "float": float,
    "bool": _BOOLEANS.__getitem__,
    "str": str,
}


def kv_overrides(values: Sequence[str]) -> tuple[KvOverride, ...]:
    """Parse ``--override-kv`` values; llama-server takes several in one, as a row of CSV.

    Raises:
        UsageError: one is no ``KEY=TYPE:VALUE``.
    """
    return tuple(_kv_override(part) for row in csv.reader(values) for part in row or [""])


def _kv_override(text: str) -> KvOverride:
    key, _, typed = text.partition("=")
    kind, _, value = typed.partition(":")
    is_short = max(len(key.encode()), len(value.encode())) <= _MOST_BYTES
    try:
        if key and is_short:
            return KvOverride(key=key, value=_TYPES[kind](value))
    except (KeyError, ValueError):
        # Said below, with what would be right.
        pass
    raise UsageError(
        f"--override-kv {text}: write KEY=TYPE:VALUE with a type of {', '.join(_TYPES)}, such as "
        "qwen3moe.expert_used_count=int:4"
    )


_LONGEST_PATTERN = 4000
_MOST_REPETITIONS = 4
_NO_REPETITION = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
"""Escaped characters and classes, in which the signs of repetition are literal."""
_REPETITION = re.compile(r"[*+{]")
_OTHER_SET = re.compile(r"\[[^\]]*?(?:\[|--|&&|~~|\|\|)")
"""Sets such as ``[[:alpha:]]``, which Python reads in another way, or warns about."""
_REPEATED_GROUP = re.compile(r"\)[*+{]|\(\?P=")


def tensor_pattern(text: str) -> re.Pattern[str] | None:
    """The pattern of a placement; None where Python cannot read it, or may take too long with it.

    Names of tensors are short: with few repetitions, and no nested ones, a search takes no time.
    """
    plain = _NO_REPETITION.sub("", text)
    is_bounded = len(_REPETITION.findall(plain)) <= _MOST_REPETITIONS
    if len(text) > _LONGEST_PATTERN or not is_bounded:
        return None
    if _REPEATED_GROUP.search(plain) or _OTHER_SET.search(text):
        return None
    with suppress(re.error, RecursionError, OverflowError):
        return re.compile(text)
    return None
