"""ggml's C functions that read or make a GGUF's header, from the wheel's libggml-base."""

import ctypes
from functools import cache

from spectui.llama.library import ggml

STRING = 8
"""``enum gguf_type``, as ``ARRAY`` and the keys of ``NUMBERS``."""
ARRAY = 9

NUMBERS = {
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
"""Name of the getter, and what it returns."""


class InitParams(ctypes.Structure):
    """``struct gguf_init_params``."""

    _fields_ = (("no_alloc", ctypes.c_bool), ("ctx", ctypes.c_void_p))


@cache
def gguf_library() -> ctypes.CDLL:
    """libggml-base with the types of what is used here."""
    base, context, index = ggml("ggml-base"), ctypes.c_void_p, ctypes.c_int64
    base.gguf_init_from_file.argtypes = [ctypes.c_char_p, InitParams]
    base.gguf_init_from_file.restype = context
    base.gguf_init_empty.argtypes = []
    base.gguf_init_empty.restype = context
    base.gguf_set_val_str.argtypes = [context, ctypes.c_char_p, ctypes.c_char_p]
    base.gguf_set_val_str.restype = None
    base.gguf_free.argtypes = [context]
    base.gguf_free.restype = None
    by_index = {
        "gguf_get_key": ctypes.c_char_p,
        "gguf_get_val_str": ctypes.c_char_p,
        "gguf_get_tensor_name": ctypes.c_char_p,
        "gguf_get_arr_n": ctypes.c_size_t,
        "gguf_get_tensor_size": ctypes.c_size_t,
        "gguf_get_kv_type": ctypes.c_int,
        "gguf_get_arr_type": ctypes.c_int,
        **{f"gguf_get_val_{name}": result for name, result in NUMBERS.values()},
    }
    for name, result in by_index.items():
        function = getattr(base, name)
        function.argtypes, function.restype = [context, index], result
    base.gguf_get_arr_str.argtypes = [context, index, ctypes.c_size_t]
    base.gguf_get_arr_str.restype = ctypes.c_char_p
    for name in ("gguf_get_n_kv", "gguf_get_n_tensors"):
        function = getattr(base, name)
        function.argtypes, function.restype = [context], ctypes.c_int64
    return base
