"""Translation of placement options into llama.cpp's model parameters."""

import ctypes
from collections.abc import Sequence
from typing import Any

from spectui.errors import UsageError
from spectui.llama.c import C
from spectui.llama.library import buffer_types
from spectui.models.weights import overrides
from spectui.options.setup import ModelOptions


class _Override(ctypes.Structure):
    """``struct llama_model_tensor_buft_override``."""

    _fields_ = (("pattern", ctypes.c_char_p), ("buffer_type", ctypes.c_void_p))


_KV_TYPES: dict[type, tuple[int, str]] = {
    bool: (C.LLAMA_KV_OVERRIDE_TYPE_BOOL, "val_bool"),
    int: (C.LLAMA_KV_OVERRIDE_TYPE_INT, "val_i64"),
    float: (C.LLAMA_KV_OVERRIDE_TYPE_FLOAT, "val_f64"),
    str: (C.LLAMA_KV_OVERRIDE_TYPE_STR, "val_str"),
}
"""Tag and member of the union."""


def _kv_override_array(options: ModelOptions) -> Any:  # noqa: ANN401 - a ctypes array
    """Llama.cpp's ``llama_model_kv_override``, ended by an empty key."""
    entries = (C.llama_model_kv_override * (len(options.override_kv) + 1))()
    for entry, override in zip(entries, options.override_kv, strict=False):
        value = override.value
        entry.tag, member = _KV_TYPES[type(value)]
        entry.key = override.key.encode()
        setattr(entry.value, member, value.encode() if isinstance(value, str) else value)
    return entries


class ModelParams:
    """``struct llama_model_params`` with everything it points to kept alive."""

    def __init__(
        self, options: ModelOptions, *, no_alloc: bool = False, split: Sequence[int] = ()
    ) -> None:
        """Fill the structure.

        Args:
            options: file and placement.
            split: shares of the layers by GPU; empty for llama.cpp's choice, by what is free there.
            no_alloc: place tensors and count their bytes, without memory and without weights.

        Raises:
            UsageError: an ``-ot`` names a buffer type that this machine does not have.
        """
        self.c = C.llama_model_default_params()
        self.c.n_gpu_layers = options.n_gpu_layers
        # AUTO is llama-server's default: mmap unless a device says otherwise. Without memory there
        # is nothing to map to, and llama.cpp would assert.
        maps = options.mmap and not no_alloc
        self.c.load_mode = C.LLAMA_LOAD_MODE_AUTO if maps else C.LLAMA_LOAD_MODE_NONE
        self.c.no_alloc = no_alloc
        self._split = (ctypes.c_float * C.llama_max_devices())(*split)
        if split:
            self.c.tensor_split = self._split
        self._kv_overrides = _kv_override_array(options)
        if options.override_kv:
            self.c.kv_overrides = self._kv_overrides
        self._overrides = self._override_array(options)
        self.c.tensor_buft_overrides = ctypes.cast(self._overrides, ctypes.c_void_p)

    @staticmethod
    def _override_array(options: ModelOptions) -> "ctypes.Array[_Override]":
        known = buffer_types()
        pairs = overrides(options)
        for pattern, buffer in pairs:
            if buffer not in known:
                raise UsageError(
                    f"-ot {pattern}={buffer}: this machine has no buffer type {buffer}; "
                    f"use one of {', '.join(sorted(known))}"
                )
        entries = [_Override(pattern.encode(), known[buffer]) for pattern, buffer in pairs]
        entries.append(_Override(None, None))
        return (_Override * len(entries))(*entries)
