"""ggml's own reader of GGUF headers, to hold ours against."""

import ctypes
import os
from functools import cache
from pathlib import Path

from spectui.llama.library import native
from spectui.llama.native import ensure_backend
from spectui.models.header import Scalar

_STRING, _ARRAY = 8, 9
_NUMBERS = {
    0: ("u8", ctypes.c_uint8),
    1: ("i8", ctypes.c_int8),
    2: ("u16", ctypes.c_uint16),
    3: ("i16", ctypes.c_int16),
    4: ("u32", ctypes.c_uint32),
    5: ("i32", ctypes.c_int32),
    6: ("f32", ctypes.c_float),
    7: ("bool", ctypes.c_bool),
    10: ("u64", ctypes.c_uint64),
    11: ("i64", ctypes.c_int64),
    12: ("f64", ctypes.c_double),
}

Told = tuple[dict[str, Scalar], dict[str, int], dict[str, int]]
"""Single values, lengths of lists, bytes of tensors."""


class _InitParams(ctypes.Structure):
    _fields_ = (("no_alloc", ctypes.c_bool), ("ctx", ctypes.c_void_p))


def tensor_block(kind: int) -> tuple[int, int]:
    """Elements and bytes of a block of an ``enum ggml_type``; zeros for one that was removed."""
    return _library().ggml_blck_size(kind), _library().ggml_type_size(kind)


def read(path: Path) -> Told | None:
    """What ggml makes of a header; None where it refuses it."""
    c = _library()
    context = c.gguf_init_from_file(os.fsencode(path), _InitParams(True, None))
    if not context:
        return None
    values: dict[str, Scalar] = {}
    lengths: dict[str, int] = {}
    for index in range(c.gguf_get_n_kv(context)):
        key, kind = _text(c.gguf_get_key(context, index)), c.gguf_get_kv_type(context, index)
        if kind == _ARRAY:
            lengths[key] = c.gguf_get_arr_n(context, index)
        elif kind == _STRING:
            values[key] = _text(c.gguf_get_val_str(context, index))
        else:
            values[key] = getattr(c, f"gguf_get_val_{_NUMBERS[kind][0]}")(context, index)
    tensors = {
        _text(c.gguf_get_tensor_name(context, index)): c.gguf_get_tensor_size(context, index)
        for index in range(c.gguf_get_n_tensors(context))
    }
    c.gguf_free(context)
    return values, lengths, tensors


@cache
def _library() -> ctypes.CDLL:
    ensure_backend()  # it keeps ggml's messages off the terminal
    base, context, index = native(), ctypes.c_void_p, ctypes.c_int64
    base.gguf_init_from_file.argtypes = [ctypes.c_char_p, _InitParams]
    base.gguf_init_from_file.restype = context
    base.gguf_free.argtypes = [context]
    base.ggml_blck_size.restype = ctypes.c_int64
    base.ggml_type_size.restype = ctypes.c_size_t
    results = {
        "get_key": ctypes.c_char_p,
        "get_val_str": ctypes.c_char_p,
        "get_tensor_name": ctypes.c_char_p,
        "get_arr_n": ctypes.c_size_t,
        "get_tensor_size": ctypes.c_size_t,
        "get_kv_type": ctypes.c_int,
        **{f"get_val_{name}": result for name, result in _NUMBERS.values()},
    }
    for name, result in results.items():
        function = getattr(base, f"gguf_{name}")
        function.argtypes, function.restype = [context, index], result
    for name in ("get_n_kv", "get_n_tensors"):
        function = getattr(base, f"gguf_{name}")
        function.argtypes, function.restype = [context], ctypes.c_int64
    return base


def _text(raw: bytes) -> str:
    return raw.decode(errors="replace")
