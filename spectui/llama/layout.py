"""How a llama.cpp library lays out its structures, read from the library itself.

llama.cpp promises no stable ABI, and libraries of many builds are about. What counts is not the
build but the structures that are passed by value: ``llama_model_params``,
``llama_context_params``, ``llama_batch``. Their default functions write them into a marked buffer,
which shows size, padding and defaults.

A broken library may end the process that opens it. So this file runs as a program of its own, with
nothing but the standard library: ``python -I layout.py FILE`` prints a ``Reading`` as JSON.
"""

import ctypes
import json
import platform
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

ENTRY = "llama_context_default_params"
"""A function of every libllama, and of nothing else."""
_ROOM = 4096
_MARKS = (0xA5, 0x5A)
_PARTS = ("ggml-base", "ggml-cpu", "ggml")
"""What libllama needs of its own folder, in this order, where it does not say so itself."""


@dataclass(frozen=True, slots=True)
class Image:
    """What a function writes of a structure: its bytes, and the offsets that it leaves alone."""

    size: int
    unwritten: tuple[int, ...]
    """Padding: bytes that no field covers."""

    def __str__(self) -> str:
        """Such as ``168 bytes (padding at 142, 143)``."""
        padding = (
            f"padding at {', '.join(map(str, self.unwritten))}" if self.unwritten else "no padding"
        )
        return f"{self.size} bytes ({padding})"


@dataclass(frozen=True, slots=True)
class Layout:
    """The structures of a range of builds."""

    since: str
    """First build with it, as a user reads it."""
    context: Image
    has_moe_cache: bool = False
    """Whether ``moe_cache_size`` stands behind ``type_v`` in ``llama_context_params``."""


MODEL = Image(80, (36, 37, 38, 39, 78, 79))
"""``llama_model_params``, the same in all known layouts."""
BATCH = Image(56, (4, 5, 6, 7))
"""``llama_batch``, the same in all known layouts."""
LAYOUTS = (
    Layout("the pinned llama-cpp-python", Image(160, (134, 135))),
    Layout("b11548", Image(168, (142, 143)), has_moe_cache=True),
)


@dataclass(frozen=True, slots=True)
class Reading:
    """What a library says of itself."""

    version: str | None
    """``llama_version``, such as ``0.5.0``."""
    commit: str | None
    """Commit that it was built from; None where it was built outside of a clone."""
    model: Image | None = None
    """``llama_model_params``; None where this processor's calls cannot be looked into."""
    context: Image | None = None
    batch: Image | None = None

    def layout(self) -> Layout:
        """The known layout that these structures have.

        Raises:
            LookupError: there is none; the message says what was read.
        """
        if self.model is None or self.context is None or self.batch is None:
            raise LookupError(
                f"its structures cannot be read on {platform.machine()}, where only a library "
                "that was built with llama-cpp-python is used"
            )
        found = next((one for one in LAYOUTS if one.context == self.context), None)
        if found is None:
            known_sizes = " or ".join(str(layout.context) for layout in LAYOUTS)
            raise LookupError(
                f"its context structure has {self.context}, where {known_sizes} is known"
            )
        for name, image, known in (("model", self.model, MODEL), ("batch", self.batch, BATCH)):
            if image != known:
                raise LookupError(f"its {name} structure has {image}, where {known} is known")
        return found


def opened(file: Path) -> ctypes.CDLL:
    """Open a library with its parts, which lie beside it.

    Raises:
        OSError: it cannot be opened.
        AttributeError: it has nothing of llama.cpp.
    """
    try:
        library = ctypes.CDLL(str(file))
    except OSError:
        # Its parts are found by their names once they are open.
        for part in _PARTS:
            for found in sorted(file.parent.glob(f"lib{part}.*so*"))[:1]:
                ctypes.CDLL(str(found))
        library = ctypes.CDLL(str(file))
    getattr(library, ENTRY)
    return library


def read(library: ctypes.CDLL) -> Reading:
    """Read what an open library is."""
    return Reading(
        version=_text(library, "llama_version"),
        commit=_commit(library),
        **_images(library),
    )


def _images(library: ctypes.CDLL) -> dict[str, Image]:
    # On x86-64 a structure is returned through a hidden first argument; elsewhere it is not seen.
    if platform.machine() not in {"x86_64", "AMD64"}:
        return {}
    return {
        "model": _image(library, "llama_model_default_params"),
        "context": _image(library, ENTRY),
        "batch": _image(library, "llama_batch_get_one", None, 1),
    }


def _image(library: ctypes.CDLL, function: str, *arguments: object) -> Image:
    call = getattr(library, function)
    call.restype = None
    seen = []
    for mark in _MARKS:
        room = ctypes.create_string_buffer(bytes([mark]) * _ROOM, _ROOM)
        call(ctypes.c_void_p(ctypes.addressof(room)), *arguments)
        seen.append(room.raw)
    written = [at for at in range(_ROOM) if seen[0][at] == seen[1][at]]
    size = (max(written) // 8 + 1) * 8
    return Image(size, tuple(sorted(set(range(size)) - set(written))))


def _text(library: ctypes.CDLL, name: str) -> str | None:
    try:
        function = getattr(library, name)
    except AttributeError:
        return None
    function.restype = ctypes.c_char_p
    text: bytes | None = function()
    return text.decode(errors="replace") if text else None


def _commit(library: ctypes.CDLL) -> str | None:
    # A package leaves files of the clone out, which git calls dirty.
    commit = (_text(library, "ggml_commit") or "").removesuffix("-dirty")
    return None if commit in {"", "unknown"} else commit


def parsed(text: str) -> Reading:
    """Read what this program printed.

    Raises:
        ValueError: it is no reading.
    """
    fields = json.loads(text)
    images = {
        name: Image(fields[name]["size"], tuple(fields[name]["unwritten"]))
        for name in ("model", "context", "batch")
        if fields[name] is not None
    }
    return Reading(**{**fields, **images})


if __name__ == "__main__":
    try:
        reading = read(opened(Path(sys.argv[1])))
    except (OSError, AttributeError) as error:
        sys.exit(str(error))
    sys.stdout.write(json.dumps(asdict(reading)))
