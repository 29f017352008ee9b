"""One loaded GGUF: where its weights go, metadata, vocabulary."""

import ctypes
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from spectui.closing import Closing
from spectui.errors import BadInputError, CancelledError, DoesNotFitError, UsageError
from spectui.llama.buffers import parse_buffers
from spectui.llama.devices import buffer_types, find_devices, use_rpc
from spectui.llama.library import C
from spectui.llama.log import native_log
from spectui.llama.native import ensure_backend
from spectui.llama.vocabulary import Vocabulary
from spectui.models.facts import ModelFacts, facts_of
from spectui.models.gguf import read_gguf
from spectui.models.pairs import incompatibility
from spectui.models.weights import overrides
from spectui.options.setup import Devices, ModelOptions
from spectui.speculative.models import Rollback


class Override(ctypes.Structure):
    """``struct llama_model_tensor_buft_override``."""

    _fields_ = (("pattern", ctypes.c_char_p), ("buffer_type", ctypes.c_void_p))


_KV_TYPES: dict[type, tuple[str, str]] = {
    bool: ("LLAMA_KV_OVERRIDE_TYPE_BOOL", "val_bool"),
    int: ("LLAMA_KV_OVERRIDE_TYPE_INT", "val_i64"),
    float: ("LLAMA_KV_OVERRIDE_TYPE_FLOAT", "val_f64"),
    str: ("LLAMA_KV_OVERRIDE_TYPE_STR", "val_str"),
}
"""Tag and member of the union. Here and below C's constants by name: there may be no library."""
_LONGEST_TEXT = 256
"""Bytes of the text that llama.cpp describes a model with, at most."""
_LOAD_MODES = {
    "auto": "LLAMA_LOAD_MODE_AUTO",
    "none": "LLAMA_LOAD_MODE_NONE",
    "mlock": "LLAMA_LOAD_MODE_MLOCK",
    "mmap+mlock": "LLAMA_LOAD_MODE_MMAP_MLOCK",
    "dio": "LLAMA_LOAD_MODE_DIRECT_IO",
}


def _kv_override_array(options: ModelOptions) -> Any:  # noqa: ANN401 - a ctypes array
    """Llama.cpp's ``llama_model_kv_override``, ended by an empty key."""
    entries = (C.llama_model_kv_override * (len(options.override_kv) + 1))()
    for entry, override in zip(entries, options.override_kv, strict=False):
        value = override.value
        tag, member = _KV_TYPES[type(value)]
        entry.tag = getattr(C, tag)
        entry.key = override.key.encode()
        setattr(entry.value, member, value.encode() if isinstance(value, str) else value)
    return entries


class ModelParams:
    """``struct llama_model_params`` with everything it points to kept alive."""

    def __init__(self, options: ModelOptions, *, no_alloc: bool = False) -> None:
        """Fill the structure.

        Args:
            options: file and placement.
            no_alloc: place tensors and count their bytes, without memory and without weights.

        Raises:
            UsageError: there is no such device, buffer type or RPC server, or too many shares.
        """
        self.c = C.llama_model_default_params()
        self.c.n_gpu_layers = options.n_gpu_layers
        # Without memory there is nothing to map to, and llama.cpp would assert.
        self.c.load_mode = getattr(C, _LOAD_MODES["none" if no_alloc else options.load_mode])
        self.c.use_extra_bufts = options.repack
        self.c.no_alloc = no_alloc
        self._place(options.devices)
        self._kv_overrides = _kv_override_array(options)
        if options.override_kv:
            self.c.kv_overrides = self._kv_overrides
        self._overrides = self._override_array(options)
        self.c.tensor_buft_overrides = ctypes.cast(self._overrides, ctypes.c_void_p)

    def _place(self, devices: Devices) -> None:
        use_rpc(devices.rpc)
        most = C.llama_max_devices()
        n_shares = len(devices.split)
        if n_shares >= most:
            raise UsageError(f"-ts: {n_shares} shares are too many; write less than {most}")
        self._split = (ctypes.c_float * most)(*devices.split)
        if n_shares:
            self.c.tensor_split = self._split
        if devices.names is not None:
            chosen = find_devices(devices.names)
            self._devices = (ctypes.c_void_p * (len(chosen) + 1))(*chosen, None)
            self.c.devices = ctypes.addressof(self._devices)
        self.c.split_mode = getattr(C, f"LLAMA_SPLIT_MODE_{devices.split_mode.name}")
        self.c.main_gpu = devices.main

    @staticmethod
    def _override_array(options: ModelOptions) -> "ctypes.Array[Override]":
        known = buffer_types()
        pairs = overrides(options)
        for pattern, buffer in pairs:
            if buffer not in known:
                raise UsageError(
                    f"-ot {pattern}={buffer}: this machine has no buffer type {buffer}; "
                    f"use one of {', '.join(sorted(known))}"
                )
        entries = [Override(pattern.encode(), known[buffer]) for pattern, buffer in pairs]
        entries.append(Override(None, None))
        return (Override * len(entries))(*entries)


class AbortFlag:
    """Ends a running ``llama_decode`` from another thread, without Python in the compute loop.

    ggml asks an abort callback before every graph node. A Python callback would take the GIL
    thousands of times per token, so the callback is libc's ``strlen`` on a buffer of this object:
    the empty string is 0, that is false, and one character makes it true.
    """

    def __init__(self) -> None:
        """Start lowered."""
        self._text = ctypes.create_string_buffer(2)
        self.data = ctypes.cast(self._text, ctypes.c_void_p)

    @property
    def callback(self) -> Any:  # noqa: ANN401 - a C function
        """``ggml_abort_callback``, to be called with ``data``."""
        return ctypes.cast(ctypes.CDLL(None).strlen, C.ggml_abort_callback)

    def is_set(self) -> bool:
        """Whether loading and decoding must end."""
        return self._text[0] != b"\0"

    def check(self, sentence: str) -> None:
        """Raise with ``sentence`` as the message if the flag is set.

        Raises:
            CancelledError: it is set.
        """
        if self.is_set():
            raise CancelledError(sentence)

    def set(self) -> None:
        """Abort what is being decoded, and everything after it."""
        self._text[0] = b"x"

    def clear(self) -> None:
        """Allow decoding again."""
        self._text[0] = b"\0"


_OUT_OF_MEMORY = (
    "out of memory",
    "failed to allocate",
    "unable to allocate",
    "alloc_tensor_range",
    "bad_alloc",
)
"""Messages of llama.cpp's log when a buffer could not be allocated."""


class Model(Closing):
    """Owns a ``llama_model``. Close it, or use it as a context manager."""

    def __init__(
        self,
        options: ModelOptions,
        *,
        on_progress: Callable[[float], None] = lambda _fraction: None,
        abort: AbortFlag | None = None,
        vocab_only: bool = False,
        no_alloc: bool = False,
        load_mtp: bool = False,
    ) -> None:
        """Load weights.

        Args:
            options: file and placement.
            vocab_only: load no weights: for metadata and tokens.
            no_alloc: place tensors, but load none: for a plan. Contexts on it cannot decode.
            load_mtp: load the layers of multi-token prediction as well, where the file has them.
            on_progress: called with the loaded fraction, 0 to 1.
            abort: ends the load, and decodes of its contexts, when set; None for one of its own.

        Raises:
            BadInputError: the file is no usable model.
            CancelledError: ``abort`` is set.
            Exception: what ``on_progress`` raised.
            DoesNotFitError: memory did not suffice.
            UsageError: an ``-ot`` names an unknown buffer type, or is no regular expression.
        """
        read_gguf(options.path)
        ensure_backend()
        self.options = options
        self.abort = AbortFlag() if abort is None else abort
        self.no_alloc = no_alloc
        params = ModelParams(options, no_alloc=no_alloc)
        params.c.vocab_only = vocab_only
        params.c.load_mtp = load_mtp
        self.c: Any = self._loaded(params, on_progress)
        """The ``llama_model`` pointer, valid until ``close``."""
        log = native_log.tail()
        self.buffers = parse_buffers(log)
        """Weights, as the log of the load has them."""
        self._overridden = tuple(_overridden(options, log))

    def _loaded(self, params: ModelParams, on_progress: Callable[[float], None]) -> Any:  # noqa: ANN401 - a C pointer
        options = self.options
        stop: Exception | None = None

        def progress(fraction: float, _user_data: object) -> bool:
            nonlocal stop
            try:
                if stop is None:
                    on_progress(fraction)
                    self.abort.check(f"loading {options.path.name} was cancelled")
            except Exception as error:  # noqa: BLE001 - nothing passes through C; raised below
                stop = error
            return stop is None

        params.c.progress_callback = C.llama_progress_callback(progress)
        native_log.mark()
        model = C.llama_model_load_from_file(os.fsencode(options.path), params.c)
        if stop is not None:
            if model:
                C.llama_model_free(model)
            raise stop
        if not model:
            raise _load_error(options)
        return model

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The model's tokens."""
        return Vocabulary(self.c)

    @cached_property
    def info(self) -> ModelFacts:
        """The model's facts, as llama.cpp has them."""
        path = self.options.path
        about = ctypes.create_string_buffer(_LONGEST_TEXT)
        C.llama_model_desc(self.c, about, len(about))
        # Such as "qwen3moe 30B.A3B Q4_K - Medium", "llama 135M (guessed) all F32".
        words = about.value.decode(errors="replace").split()[2:]
        kind = " ".join(word for word in words if word not in {"(guessed)", "all"})
        return replace(
            facts_of(path, read_gguf(path)),
            quantization=re.sub(r" - ([SML])\w+$", r"_\1", kind),
            n_params=C.llama_model_n_params(self.c),
            size_bytes=C.llama_model_size(self.c),
            n_layers=C.llama_model_n_layer(self.c),
            n_ctx_train=C.llama_model_n_ctx_train(self.c),
            overridden=self._overridden,
        )

    @property
    def chat_template(self) -> str | None:
        """Jinja source of the model's chat template."""
        template: bytes | None = C.llama_model_chat_template(self.c, None)
        return template.decode(errors="replace") if template else None

    @property
    def rollback(self) -> Rollback:
        """The way in which its contexts forget rejected tokens, without snapshots.

        Of llama.cpp's memories only those with a recurrent state refuse to lose their end.
        """
        recurrent = C.llama_model_is_recurrent(self.c) or C.llama_model_is_hybrid(self.c)
        return Rollback.CHECKPOINT if recurrent else Rollback.TRUNCATE

    def check_overrides(self) -> None:
        """Refuse overrides that llama.cpp has ignored; to be called for targets alone.

        Raises:
            UsageError: the architecture does not know a key, or wants another type.
        """
        texts = (override.text for override in self.options.override_kv)
        unused = [text for text in texts if text not in self._overridden]
        if unused:
            raise UsageError(
                f"--override-kv {', '.join(unused)}: {self.info.arch} has no such key, or its "
                "value is of another type; correct it, or leave it out"
            )

    def close(self) -> None:
        """Free the weights. Contexts on it must be closed before."""
        if self.c:
            C.llama_model_free(self.c)
            self.c = None


def check_pair(target: Model, draft: Model) -> None:
    """Refuse a draft whose tokens are not the target's, by llama.cpp's own rule.

    Raises:
        BadInputError: says in what they differ.
    """
    reason = incompatibility(target.vocabulary.outline, draft.vocabulary.outline)
    if reason is not None:
        raise BadInputError(
            f"{draft.options.path} cannot draft for {target.options.path.name}: {reason}; "
            "choose a draft of the same model family"
        )


def _overridden(options: ModelOptions, loading: Sequence[str]) -> Iterator[str]:
    """Yield the overrides that llama.cpp's log says it has used.

    It passes over a key that the architecture does not know, or a value of another type.
    """
    used = " ".join(line for line in loading if "Using metadata override" in line)
    yield from (one.text for one in options.override_kv if f"'{one.key}'" in used)


def ran_out_of_memory() -> bool:
    """Whether llama.cpp's last lines say that a buffer could not be had."""
    return any(sign in line for line in native_log.tail(40) for sign in _OUT_OF_MEMORY)


def _load_error(options: ModelOptions) -> BadInputError | DoesNotFitError | UsageError:
    path = options.path
    lines = [line.strip() for line in native_log.tail(40) if line.strip()]
    if ran_out_of_memory():
        return DoesNotFitError(
            f"{path} does not fit in memory; choose a smaller quantisation, or keep more of it "
            "in RAM with -ngl, --cpu-moe or -ot"
        )
    reasons = [line for line in lines if "error" in line or "invalid" in line or "failed" in line]
    reason = reasons[0].split(": ", 1)[-1] if reasons else "llama.cpp gave no reason"
    flags = [f"--override-kv {one}" for one in _overridden(options, native_log.tail())]
    flags += [f"-ot {one.pattern}={one.buffer}" for one in options.override_tensor]
    if flags:
        return UsageError(
            f"{' '.join(flags)}: {path} cannot be loaded with it ({reason}); correct it, or leave "
            "it out"
        )
    return BadInputError(
        f"{path} cannot be loaded ({reason}); check that the download is complete and that "
        "this llama.cpp knows the architecture"
    )
