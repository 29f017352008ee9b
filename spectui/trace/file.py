"""Trace files: gzipped JSON, versioned, with a digest. ``docs/trace-format.md`` describes them."""

import gzip
import hashlib
import zlib
from collections.abc import Iterator
from io import BytesIO
from itertools import count, islice
from pathlib import Path
from typing import Literal

import msgspec

from spectui.errors import BadInputError
from spectui.paths import ensure_dir
from spectui.trace.record import ModelIdentity, Trace
from spectui.trace.validity import check_trace
from spectui.writing import write_file, write_new_file

SUFFIX = ".trace.json.gz"
_SCHEMA: Literal["spectui.trace/4"] = "spectui.trace/4"
_KIND = "spectui.trace/"
_HINT = "record it again with spectui trace"


class _Envelope(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    schema: str
    sha256: str
    """SHA-256 of the bytes of ``trace`` as they stand in the file."""
    trace: msgspec.Raw


_encoder = msgspec.json.Encoder()
_envelope_decoder = msgspec.json.Decoder(_Envelope)
_trace_decoder = msgspec.json.Decoder(Trace)


def write_trace(trace: Trace, path: Path) -> None:
    """Write ``trace`` in one go: a kill leaves the old file or the new one.

    Raises:
        BadInputError: the folder or the file cannot be written, or is a device or a pipe.
    """
    if path.exists() and not path.is_file():
        raise BadInputError(f"{path} is no regular file; a trace needs one of its own")
    ensure_dir(path.resolve().parent)
    try:
        write_file(path, _packed(trace))
    except OSError as error:
        raise _cannot_write(path, error) from error


def write_beside(trace: Trace, path: Path) -> Path:
    """Write ``trace`` where no file is: to ``path``, or beside it under a name that is free.

    Returns:
        Where it is now.

    Raises:
        BadInputError: the folder or the file cannot be written.
    """
    real = path.resolve()
    ensure_dir(real.parent)
    content = _packed(trace)
    place = next(place for place in _places(real) if _is_written(place, content))
    return path if place == real else place


def _places(path: Path) -> Iterator[Path]:
    """Yield ``path``, and then names beside it without end."""
    ending = SUFFIX if path.name.endswith(SUFFIX) else path.suffix
    stem = path.name.removesuffix(ending)
    yield path
    yield path.with_name(f"{stem}.interrupted{ending}")
    yield from (path.with_name(f"{stem}.interrupted-{n}{ending}") for n in count(2))


def _is_written(place: Path, content: bytes) -> bool:
    """Write a file of its own; False where there is something."""
    try:
        write_new_file(place, content)
    except FileExistsError:
        return False
    except OSError as error:
        raise _cannot_write(place, error) from error
    return True


def _cannot_write(path: Path, error: OSError) -> BadInputError:
    return BadInputError(f"{path} cannot be written ({error.strerror})")


def _packed(trace: Trace) -> bytes:
    payload = _encoder.encode(trace)
    envelope = _Envelope(
        schema=_SCHEMA, sha256=hashlib.sha256(payload).hexdigest(), trace=msgspec.Raw(payload)
    )
    # No time stamp: the same trace gives the same bytes.
    return gzip.compress(_encoder.encode(envelope), mtime=0)


def read_trace(path: Path) -> Trace:
    """Read a trace.

    Raises:
        BadInputError: missing, cut off, edited, of another version, or no trace at all.
    """
    return _decode(unpacked(path), path)


def _decode(content: bytes, path: Path) -> Trace:
    try:
        envelope = _envelope_decoder.decode(content)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise BadInputError(f"{path} is no trace of spectui's ({error}); {_HINT}") from error
    if envelope.schema != _SCHEMA:
        what = "another version's trace" if envelope.schema.startswith(_KIND) else "no trace"
        raise BadInputError(
            f"{path} is {what} ({envelope.schema}, but this spectui reads {_SCHEMA}); {_HINT}"
        )
    payload = bytes(envelope.trace)
    if hashlib.sha256(payload).hexdigest() != envelope.sha256:
        raise BadInputError(
            f"{path} was changed after it was recorded (its digest does not fit); {_HINT}"
        )
    try:
        trace = _trace_decoder.decode(payload)
        check_trace(trace)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise BadInputError(f"{path} contradicts itself ({error}); {_HINT}") from error
    return trace


def check_pair(trace: Trace, target: ModelIdentity, drafts: dict[str, ModelIdentity]) -> None:
    """Refuse a trace that another pair of models made.

    Raises:
        BadInputError: says which model differs, and how.
    """
    _check_same("target", trace.target, target)
    for name, draft in drafts.items():
        if name not in trace.drafts:
            known = ", ".join(trace.drafts) or "none"
            raise BadInputError(
                f"the trace knows no draft {name} (it has {known}); record it again with this one"
            )
        _check_same(f"draft {name}", trace.drafts[name], draft)


def _check_same(role: str, recorded: ModelIdentity, given: ModelIdentity) -> None:
    if recorded != given:
        raise BadInputError(
            f"the trace was recorded with another {role} ({_describe(recorded)}, not "
            f"{_describe(given)}); record it again with these models"
        )


def _describe(model: ModelIdentity) -> str:
    return f"{model.file}, {model.n_params} parameters, {model.size_bytes} bytes"


_MAX_BYTES = 1 << 28
"""A few kilobytes unpack to any size; half a million tokens recorded for 32 take all of this."""
_CHUNK_BYTES = 1 << 20
_MAGIC = b"\x1f\x8b"


def unpacked(path: Path) -> bytes:
    """Read and unpack a gzipped file, which may be damaged, or unpack to no end.

    Raises:
        BadInputError: missing, empty, cut off, damaged, not gzipped, or too large.
    """
    packed = _read(path)
    try:
        if max(len(packed), _unpacked_size(packed)) <= _MAX_BYTES:
            return gzip.decompress(packed)
    except EOFError as error:
        raise BadInputError(f"{path} is cut off; {_HINT}") from error
    except (OSError, zlib.error) as error:
        raise BadInputError(
            f"{path} is damaged: bytes of it were changed or appended; {_HINT}"
        ) from error
    raise BadInputError(
        f"{path} unpacks to more than {_MAX_BYTES >> 20} MiB, the most that a trace may have; give "
        "another one, or record fewer prompts"
    )


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            magic = file.read(len(_MAGIC))
            chunks = iter(lambda: file.read(_CHUNK_BYTES), b"") if magic == _MAGIC else ()
            # A pipe may never end.
            rest = b"".join(islice(chunks, _MAX_BYTES // _CHUNK_BYTES))
    except OSError as error:
        raise BadInputError(
            f"{path} cannot be read as a trace ({error.strerror}); give a file that spectui trace "
            "wrote"
        ) from error
    if not magic:
        raise BadInputError(f"{path} is empty; {_HINT}")
    if magic != _MAGIC:
        raise BadInputError(f"{path} is no trace of spectui's (it is not gzipped); {_HINT}")
    return magic + rest


def _unpacked_size(packed: bytes) -> int:
    """Count without keeping anything, and no further than there is a need."""
    size = 0
    with gzip.open(BytesIO(packed)) as file:
        while size <= _MAX_BYTES and (chunk := file.read(_CHUNK_BYTES)):
            size += len(chunk)
    return size
