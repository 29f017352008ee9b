"""``--fit`` by llama.cpp itself: layers and experts by device, where llama-server would put them.

``common_fit_params`` is no part of llama.cpp's interface: it is called by its symbol. It opens
models without reading a weight, as plans do, some ten to thirty times.
"""

import ctypes
import os
from dataclasses import replace
from functools import cache
from itertools import takewhile
from typing import Any

from spectui.llama.buffers import devices_of
from spectui.llama.context import context_params, make_mtp
from spectui.llama.devices import gpu_memories
from spectui.llama.library import C, library
from spectui.llama.model import Model, ModelParams, Override
from spectui.llama.native import buffer_name, native_function
from spectui.llama.pair import add_moe_cache
from spectui.llama.planned import Fitted, PlanRequest
from spectui.options.setup import Fit, ModelOptions, TensorOverride

_SYMBOL = (
    "_Z17common_fit_paramsPKcP18llama_model_paramsP20llama_context_paramsPfP32llama_model_tensor_"
    "buft_overridePmjPK22common_fit_extra_model14ggml_log_level"
)
_ERROR = 4
"""``GGML_LOG_LEVEL_ERROR``."""


class _Extra(ctypes.Structure):
    """``struct common_fit_extra_model``: the model that drafts beside the target."""

    _fields_ = (
        ("path", ctypes.c_char_p),
        ("model_params", ctypes.c_void_p),
        ("context_params", ctypes.c_void_p),
        ("shares_model", ctypes.c_bool),
    )


@cache
def _function() -> Any:  # noqa: ANN401 - ctypes
    """llama.cpp's function, of a library beside libllama or in it; None where there is none."""
    folder = library().folder
    # llama-cpp-python has it beside its package.
    folders = folder, folder.parents[1] / "lib"
    found = (file for one in folders for file in sorted(one.glob("libllama-common.so*")))
    function = getattr(ctypes.CDLL(str(next(found, library().file))), _SYMBOL, None)
    if function is not None:
        pointer = ctypes.c_void_p
        function.argtypes = (
            ctypes.c_char_p,
            *[pointer] * 5,
            ctypes.c_uint32,
            pointer,
            ctypes.c_int,
        )
    return function


def fit(request: PlanRequest, target: Model, draft: Model | None) -> Fitted:
    """Choose where a target lies whose placement is open.

    Args:
        request: what is to be loaded.
        target: its target, without memory.
        draft: its draft, likewise; None without.
    """
    function, own = _function(), request.target
    n_layers = target.info.n_layers + 1 + (target.info.mtp_layers if request.mtp else 0)
    found = Fitted(target=own, n_layers=n_layers)
    if function is None:
        return replace(found, failure=f"{library()} lacks libllama-common; give -ngl")
    options, most = own.fit or Fit(), C.llama_max_devices()
    params, context = _params(request, target), _target_params(request, target)
    split = (ctypes.c_float * most)()
    n_overrides = native_function("llama_max_tensor_buft_overrides", ctypes.c_size_t)()
    overrides = (Override * n_overrides)()
    margins = (ctypes.c_size_t * most)(*map(options.margin_bytes, range(most)))
    extra, kept = _extra(request, target, draft)
    failed = function(
        os.fsencode(own.path),
        ctypes.byref(params.c),
        ctypes.byref(context),
        split,
        overrides,
        margins,
        options.min_ctx,
        None if extra is None else ctypes.byref(extra),
        _ERROR,
    )
    del kept
    if failed:
        return replace(
            found, failure="llama.cpp refuses these options, as llama-server does; give -ngl"
        )
    if params.c.n_gpu_layers == own.n_gpu_layers:
        return found
    devices = devices_of(own.devices, gpu_memories())
    rooms = tuple(
        (one.title, (one.free_bytes or 0) - options.margin_bytes(number))
        for number, one in enumerate(devices)
    )
    layers = tuple(split[: len(devices)]) if any(split) else ()
    return replace(found, target=_moved(own, params, layers, overrides), rooms=rooms)


def _moved(
    target: ModelOptions,
    params: ModelParams,
    split: tuple[float, ...],
    overrides: "ctypes.Array[Override]",
) -> ModelOptions:
    """The target where llama.cpp has placed it."""
    placed = takewhile(lambda one: one.pattern, overrides)
    return replace(
        target,
        n_gpu_layers=params.c.n_gpu_layers,
        devices=replace(target.devices, split=split),
        override_tensor=tuple(
            TensorOverride(pattern=one.pattern.decode(), buffer=buffer_name(one.buffer_type))
            for one in placed
        ),
    )


def _params(request: PlanRequest, model: Model) -> ModelParams:
    params = ModelParams(model.options)
    params.c.load_mtp = request.mtp
    return params


def _target_params(request: PlanRequest, target: Model) -> Any:  # noqa: ANN401 - a C structure
    params = context_params(
        target,
        request.context,
        max_outputs=request.max_draft + 1,
        n_snapshots=request.max_draft if request.mtp else 0,
        n_slots=request.n_slots,
    )
    add_moe_cache(params, request.context)
    return params


def _extra(
    request: PlanRequest, target: Model, draft: Model | None
) -> tuple[_Extra | None, tuple[object, ...]]:
    """The draft of the parameters, and the arrays that it points to."""
    if draft is None and not request.mtp:
        return None, ()
    model = draft or target
    params = _params(request, model)
    # One output a slot, as in llama-server.
    context = context_params(model, request.context, max_outputs=1, n_slots=request.n_slots)
    if request.mtp:
        make_mtp(context, model, request.n_slots, is_own=draft is None)
    path = os.fsencode(model.options.path)
    extra = _Extra(path, ctypes.addressof(params.c), ctypes.addressof(context), draft is None)
    return extra, (params, context)
