"""How a llama.cpp library lays out its structures, read from the library itself.

llama.cpp promises no stable ABI, and libraries of many builds are about. What counts is not the
build but the structures that are passed by value: ``llama_model_params``,
``llama_context_params``, ``llama_batch``. Their default functions write them into a marked buffer,
which shows size, padding and defaults.

A broken library may end the process that opens it. So this file runs as a program of its own, with
nothing but the standard library: ``python -I layout.py FILE FOLDER...`` prints a ``Reading`` as
JSON. The folders may have the library's backends, where these are files of their own.
"""

import ctypes
import json
import os
import platform
import struct
import sys
from collections.abc import Collection
from dataclasses import asdict, dataclass
from pathlib import Path

ENTRY = "llama_context_default_params"
"""A function of every libllama, and of nothing else."""
_ROOM = 4096
_MARKS = (0xA5, 0x5A)
_PARTS = ("ggml-base", "ggml-cpu", "ggml")
"""Libraries that libllama needs from its own folder, each behind those that it needs."""
IS_READABLE = platform.machine() in {"x86_64", "AMD64"}
"""Whether structures can be read: here they are returned through a hidden first argument."""
_CPU_DEVICE = 0
"""``GGML_BACKEND_DEVICE_TYPE_CPU``."""


def image(data: bytes, padding: Collection[int]) -> str:
    """Bytes of a structure that a function writes, in hexadecimal; ``--`` where no field is."""
    return "".join("--" if at in padding else f"{byte:02x}" for at, byte in enumerate(data))


def _known(form: str, padding: Collection[int], *defaults: float) -> str:
    return image(struct.pack(form, *defaults), padding)


MODEL = _known(
    "2P5i4P6?0P", (36, 37, 38, 39, 78, 79), 0, 0, -1, 1, -1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0
)
"""``llama_model_params``, the same in all known layouts."""
BATCH = _known("i6P", (4, 5, 6, 7), 1, 0, 0, 0, 0, 0, 0)
"""``llama_batch`` of one token at no address, the same in all known layouts."""
# From n_ctx to n_threads_batch, to flash_attn_type, to defrag_thold, and to type_v.
_TO_TYPES = (
    *(512, 2048, 512, 1, 0, 0, 1, 4, 4),
    *(0, -1, -1, -1, -1),
    *(0, 0, -1, -1, -1, -1, 0, -1),
    *(0, 0, 1, 1),
)
# From abort_callback to kv_unified, and to ctx_other.
_FROM_ABORT = (*(0, 0, 0, 1, 1, 1, 1, 0), *(0, 0, 0))
CONTEXT = _known("9I5i6fIf2P2i2P6?PNP", (134, 135), *_TO_TYPES, *_FROM_ABORT)
"""``llama_context_params`` from b10715 or before to b11413 or later, with the pinned
llama-cpp-python. Builds in between were examined, not all of them."""
WITH_MOE_CACHE = _known("9I5i6fIf2P2iN2P6?PNP", (142, 143), *_TO_TYPES, 0, *_FROM_ABORT)
"""With ``moe_cache_size`` behind ``type_v``: from a build after b11413, b11548 at the latest."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Version, build and structures of a library."""

    version: str | None
    """``llama_version``, such as ``0.5.0``."""
    commit: str | None
    """Commit that it was built from; None where it was built outside of a clone."""
    model: str | None = None
    """Image of ``llama_model_params``; None where this processor's calls cannot be looked into."""
    context: str | None = None
    batch: str | None = None
    backends: tuple[str, ...] | None = ()
    """Files of the backends that are not built in; None where none of them is for this CPU."""

    @property
    def has_moe_cache(self) -> bool:
        """Whether a context can be asked for a cache of experts."""
        return self.context == WITH_MOE_CACHE

    def check(self) -> None:
        """Refuse structures of another layout than those that are known.

        Raises:
            LookupError: the layout is unknown or unreadable; the message follows the file's name.
        """
        if self.model is None or self.context is None or self.batch is None:
            raise LookupError(
                f"its structures cannot be read on {platform.machine()}, where only a library "
                "that was built with llama-cpp-python is used"
            )
        for name, found, known in (
            ("context", self.context, (CONTEXT, WITH_MOE_CACHE)),
            ("model", self.model, (MODEL,)),
            ("batch", self.batch, (BATCH,)),
        ):
            if found not in known:
                size = len(found) // 2
                raise LookupError(f"its {name} structure has {size} bytes, of no known layout")


def opened(file: Path) -> ctypes.CDLL:
    """Open a library with its parts, which lie beside it.

    Raises:
        OSError: it cannot be opened.
        AttributeError: it has nothing of llama.cpp.
    """
    # They are found by their names once they are open. Another llama.cpp's have the same names, and
    # LD_LIBRARY_PATH comes before what the library says.
    for part in _PARTS:
        for found in file.parent.glob(f"lib{part}.*so*"):
            ctypes.CDLL(str(found))
    library = ctypes.CDLL(str(file))
    getattr(library, ENTRY)
    return library


def read(library: ctypes.CDLL, folders: list[str]) -> Reading:
    """Read what an open library is."""
    return Reading(
        version=_text(library, "llama_version"),
        commit=_commit(library),
        **_images(library),
        backends=_backends(library, folders),
    )


def _images(library: ctypes.CDLL) -> dict[str, str]:
    if not IS_READABLE:
        return {}
    return {
        "model": _image(library, "llama_model_default_params"),
        "context": _image(library, ENTRY),
        "batch": _image(library, "llama_batch_get_one", None, 1),
    }


def _image(library: ctypes.CDLL, function: str, *arguments: object) -> str:
    call = getattr(library, function)
    call.restype = None
    seen = []
    for mark in _MARKS:
        room = ctypes.create_string_buffer(bytes([mark]) * _ROOM, _ROOM)
        call(ctypes.c_void_p(ctypes.addressof(room)), *arguments)
        seen.append(room.raw)
    written = {at for at in range(_ROOM) if seen[0][at] == seen[1][at]}
    size = (max(written) // 8 + 1) * 8
    return image(seen[0][:size], set(range(size)) - written)


def _text(library: ctypes.CDLL, name: str) -> str | None:
    function = getattr(library, name, None)
    if function is None:
        return None
    function.restype = ctypes.c_char_p
    text: bytes | None = function()
    return text.decode(errors="replace") if text else None


def _commit(library: ctypes.CDLL) -> str | None:
    # A package leaves files of the clone out, which git calls dirty.
    commit = (_text(library, "ggml_commit") or "").removesuffix("-dirty")
    return None if commit in {"", "unknown"} else commit


def _backends(library: ctypes.CDLL, folders: list[str]) -> tuple[str, ...] | None:
    """Load backends from the first folder that has one for the CPU, and name their files."""
    # Drivers are not woken where the backends are built in.
    if hasattr(library, "ggml_backend_cpu_reg"):
        return ()
    if not hasattr(library, "ggml_backend_load_all"):
        return None
    library.ggml_backend_dev_by_type.restype = ctypes.c_void_p
    library.ggml_backend_reg_count.restype = ctypes.c_size_t
    library.ggml_backend_reg_get.restype = ctypes.c_void_p
    n_built_in = library.ggml_backend_reg_count()
    for folder in folders:
        if library.ggml_backend_dev_by_type(_CPU_DEVICE) is None:
            library.ggml_backend_load_all_from_path(os.fsencode(folder))
    if library.ggml_backend_dev_by_type(_CPU_DEVICE) is None:
        # The folder that was compiled in. The current one is searched too, and may be anybody's.
        os.chdir(folders[0])
        library.ggml_backend_load_all()
    if library.ggml_backend_dev_by_type(_CPU_DEVICE) is None:
        return None
    registered = range(n_built_in, library.ggml_backend_reg_count())
    return tuple(_file_of(library.ggml_backend_reg_get(ctypes.c_size_t(at))) for at in registered)


def _file_of(backend: int) -> str:
    """The file of a ``ggml_backend_reg``, by its function ``get_name``."""
    get_name = ctypes.c_void_p.from_address(backend + ctypes.sizeof(ctypes.c_void_p))
    # ``Dl_info``, which begins with the file.
    found = (ctypes.c_char_p * 4)()
    ctypes.CDLL(None).dladdr(get_name, found)
    return os.fsdecode(found[0] or b"")


if __name__ == "__main__":
    # What the library prints is no part of the reading.
    answer = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    try:
        reading = read(opened(Path(sys.argv[1])), sys.argv[2:])
    except (OSError, AttributeError) as error:
        sys.exit(str(error))
    os.write(answer, json.dumps(asdict(reading)).encode())
