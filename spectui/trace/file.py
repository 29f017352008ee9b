"""Trace files: gzipped JSON, versioned, with a digest. ``docs/trace-format.md`` describes them."""

import gzip
import hashlib
import os
import zlib
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Literal

import msgspec

from spectui.errors import BadInputError
from spectui.files import read_file, unreadable, write_file, write_own_file
from spectui.options.stored import check_schema, is_of_fast_schedule
from spectui.paths import ensure_dir
from spectui.speculative.decoder import Stop
from spectui.speculative.drafters import Drafter
from spectui.trace.ngrams import decoder_along
from spectui.trace.record import Recording, Trace, spread_out

SUFFIX = ".trace.json.gz"
_SCHEMA: Literal["spectui.trace/4"] = "spectui.trace/4"
_HINT = "record it again with spectui trace"
_MAX_BYTES = 1 << 28
"""A few kilobytes unpack to any size; half a million tokens recorded for 32 take all of this."""
_GZIP = zlib.MAX_WBITS | 16


class _Envelope(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    schema: str
    sha256: str
    """SHA-256 of the bytes of ``trace`` as they stand in the file."""
    trace: msgspec.Raw


class _OlderTrace(msgspec.Struct):
    schedule: str = "server"


def write_trace(trace: Trace, path: Path, *, is_own: bool = False) -> None:
    """Write ``trace`` in one go: a kill leaves the old file or the new one.

    Args:
        trace: what to write.
        path: a file; what a link points to is written, unless it is a file of spectui's own.
        is_own: whether it is.

    Raises:
        BadInputError: the folder or the file cannot be written, or is a device or a pipe.
    """
    if path.exists() and not path.is_file():
        raise BadInputError(f"{path} is no regular file; a trace needs one of its own")
    try:
        ensure_dir(path.parent if is_own else Path(os.path.realpath(path)).parent)
        write = write_own_file if is_own else write_file
        write(path, packed_trace(trace), is_private=True)
    except OSError as error:
        raise BadInputError(
            f"{path} cannot be written ({error.strerror}); make room there, or make it writable"
        ) from error


def packed_trace(trace: Trace) -> bytes:
    """The bytes of a file with ``trace``."""
    payload = msgspec.json.encode(trace)
    envelope = _Envelope(
        schema=_SCHEMA, sha256=hashlib.sha256(payload).hexdigest(), trace=msgspec.Raw(payload)
    )
    # No time stamp: the same trace gives the same bytes.
    return gzip.compress(msgspec.json.encode(envelope), mtime=0)


def read_trace(path: Path) -> Trace:
    """Read a trace.

    Raises:
        BadInputError: missing, cut off, edited, of another version, or no trace at all.
    """
    try:
        packed = read_file(path, _MAX_BYTES)
    except OSError as error:
        raise unreadable(path, error, "give a file that spectui trace wrote") from error
    return unpacked_trace(packed, path)


def unpacked_trace(packed: bytes, path: Path) -> Trace:
    """Decode the bytes that ``packed_trace`` made; ``path`` is their file, for errors.

    Raises:
        BadInputError: as of ``read_trace``.
    """
    try:
        envelope = msgspec.json.decode(_unpacked(packed), type=_Envelope)
    except (zlib.error, msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise BadInputError(f"{path} is no whole trace of spectui's ({error}); {_HINT}") from error
    check_schema(envelope.schema, _SCHEMA, str(path), what="trace", advice=_HINT)
    try:
        return _checked(bytes(envelope.trace), envelope.sha256)
    except (msgspec.MsgspecError, RecursionError, IndexError, ValueError) as error:
        raise BadInputError(
            f"{path} was changed, or contradicts itself ({error}); {_HINT}"
        ) from error


def _checked(payload: bytes, digest: str) -> Trace:
    """The trace that an envelope holds."""
    if hashlib.sha256(payload).hexdigest() != digest:
        raise ValueError("its digest does not fit")
    trace = msgspec.json.decode(payload, type=Trace)
    older = msgspec.json.decode(payload, type=_OlderTrace)
    if is_of_fast_schedule(msgspec.structs.asdict(older)):
        trace = replace(trace, costs={})
    check_trace(trace)
    return trace


def _unpacked(packed: bytes) -> bytes:
    """The content of a gzipped file, which may be damaged, or unpack to no end.

    It is one member, as spectui writes it: thousands of empty ones would take hours.

    Raises:
        ValueError: it is not whole, or larger than any trace.
        zlib.error: it is damaged.
    """
    member = zlib.decompressobj(_GZIP)
    content = member.decompress(packed, _MAX_BYTES + 1)
    if len(content) > _MAX_BYTES:
        raise ValueError(f"it unpacks to more than {_MAX_BYTES >> 20} MiB; record fewer prompts")
    if not member.eof or member.unused_data:
        raise ValueError("it is cut off, or bytes were appended")
    return content


def check_trace(trace: Trace) -> None:
    """Refuse a trace that cannot be replayed.

    Raises:
        IndexError: an answer is shorter than it says.
        ValueError: it cannot; the message names the recording or the costs.
    """
    for recording in trace.recordings:
        where = f"recording {recording.id}"
        if set(recording.chains) != set(trace.drafts):
            raise ValueError(f"{where} lacks a draft")
        if not _is_whole(recording):
            raise ValueError(f"{where} ends in another place than it says ({recording.stop})")
        for one in recording.chains.values():
            spread_out(recording.output, one)
    for name, costs in trace.costs.items():
        if any(n >= more for n, more in pairwise(costs.lengths)):
            raise ValueError(f"the costs of {name} are not of ascending lengths")
        empty, prices = costs.at(0), costs.prices(costs.lengths[-1])
        if min(*prices.batch, *empty.verify_s, empty.step_s, empty.off_s) < 0:
            raise ValueError(f"the costs of {name} are below nothing where the context is empty")


def _is_whole(recording: Recording) -> bool:
    """Whether a replay without drafts gives the output, and ends for the same reason."""
    decoder = decoder_along(recording, Drafter(), n_snapshots=0)
    n_decoded = sum(1 for _round in decoder.rounds(decoder.start(recording.prompt)))
    is_cut = recording.stop is Stop.CANCELLED
    return n_decoded == recording.n_decoded and (is_cut or decoder.stop is recording.stop)
