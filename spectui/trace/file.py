"""Trace files: gzipped JSON, versioned, with a digest. ``docs/trace-format.md`` describes them."""

import gzip
import hashlib
import os
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import count, pairwise
from pathlib import Path
from typing import Literal

import msgspec

from spectui.errors import BadInputError
from spectui.files import read_file, write_file, write_new_file, write_own_file
from spectui.options.stored import check_schema, is_of_fast_schedule
from spectui.paths import ensure_dir
from spectui.speculative.decoder import Stop
from spectui.trace.costs import Costs
from spectui.trace.ngrams import NGRAM_COSTS
from spectui.trace.record import Chains, ModelIdentity, Recording, Trace, spread_out

SUFFIX = ".trace.json.gz"
_SCHEMA: Literal["spectui.trace/4"] = "spectui.trace/4"
_HINT = "record it again with spectui trace"
_MAX_BYTES = 1 << 28
"""A few kilobytes unpack to any size; half a million tokens recorded for 32 take all of this."""
_MAGIC = b"\x1f\x8b"
_GZIP = zlib.MAX_WBITS | 16


class _Envelope(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    schema: str
    sha256: str
    """SHA-256 of the bytes of ``trace`` as they stand in the file."""
    trace: msgspec.Raw


class _OlderTrace(msgspec.Struct):
    schedule: str = "server"


_encoder = msgspec.json.Encoder()
_envelope_decoder = msgspec.json.Decoder(_Envelope)
_trace_decoder = msgspec.json.Decoder(Trace)
_older_decoder = msgspec.json.Decoder(_OlderTrace)


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
        raise _cannot_write(path, error) from error


def write_beside(trace: Trace, path: Path, *, word: str | None = None) -> Path:
    """Write ``trace`` where no file is: to ``path``, or beside it under a name that is free.

    Args:
        trace: what to write.
        path: the name that it has where that is free.
        word: what other names have in addition, besides a number; None for a file of spectui's
            own.

    Returns:
        Where it is now.

    Raises:
        BadInputError: the folder or the file cannot be written.
    """
    # In place of a file of spectui's own, a link is something that is there.
    real = path.parent.resolve() / path.name if word is None else path.resolve()
    ensure_dir(real.parent)
    content = packed_trace(trace)
    place = next(place for place in _places(real, word) if _is_written(place, content))
    return path if place == real else place


def _places(path: Path, word: str | None) -> Iterator[Path]:
    """Yield ``path``, and then names beside it without end."""
    ending = SUFFIX if path.name.endswith(SUFFIX) else path.suffix
    stem = path.name.removesuffix(ending)
    yield path
    if word is not None:
        stem = f"{stem}.{word}"
        yield path.with_name(f"{stem}{ending}")
    yield from (path.with_name(f"{stem}-{n}{ending}") for n in count(2))


def _is_written(place: Path, content: bytes) -> bool:
    """Write a file of its own; False where there is something."""
    try:
        write_new_file(place, content, is_private=True)
    except FileExistsError:
        return False
    except OSError as error:
        raise _cannot_write(place, error) from error
    return True


def _cannot_write(path: Path, error: OSError) -> BadInputError:
    return BadInputError(
        f"{path} cannot be written ({error.strerror}); make room there, or make it writable"
    )


def packed_trace(trace: Trace) -> bytes:
    """The content of a file of ``trace``."""
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
    try:
        packed = read_file(path, _MAX_BYTES)
    except OSError as error:
        raise BadInputError(
            f"{path} cannot be read as a trace ({error.strerror}); give a file that spectui trace "
            "wrote"
        ) from error
    if not packed:
        raise BadInputError(f"{path} is empty; {_HINT}")
    if not packed.startswith(_MAGIC):
        raise BadInputError(f"{path} is no trace of spectui's (it is not gzipped); {_HINT}")
    return unpacked_trace(packed, path)


def unpacked_trace(packed: bytes, path: Path) -> Trace:
    """Decode what ``packed_trace`` made; ``path`` says where it lies.

    Raises:
        BadInputError: as of ``read_trace``.
    """
    try:
        envelope = _envelope_decoder.decode(_unpacked(packed, path))
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise BadInputError(f"{path} is no trace of spectui's ({error}); {_HINT}") from error
    check_schema(envelope.schema, _SCHEMA, str(path), what="trace", advice=_HINT)
    payload = bytes(envelope.trace)
    if hashlib.sha256(payload).hexdigest() != envelope.sha256:
        raise BadInputError(
            f"{path} was changed after it was recorded (its digest does not fit); {_HINT}"
        )
    try:
        trace = _trace_decoder.decode(payload)
        if is_of_fast_schedule(msgspec.structs.asdict(_older_decoder.decode(payload))):
            trace = replace(trace, costs={})
        check_trace(trace)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise BadInputError(f"{path} contradicts itself ({error}); {_HINT}") from error
    return trace


def _unpacked(packed: bytes, path: Path) -> bytes:
    """The content of a gzipped file, which may be damaged, or unpack to no end.

    It is one member, as spectui writes it: thousands of empty ones would take hours.
    """
    member = zlib.decompressobj(_GZIP)
    try:
        content = member.decompress(packed, _MAX_BYTES + 1)
    except zlib.error as error:
        raise _damaged(path) from error
    if len(content) > _MAX_BYTES:
        raise BadInputError(
            f"{path} unpacks to more than {_MAX_BYTES >> 20} MiB, the most that a trace "
            "may have; give another one, or record fewer prompts"
        )
    if not member.eof:
        raise BadInputError(f"{path} is cut off; {_HINT}")
    if member.unused_data:
        raise _damaged(path)
    return content


def _damaged(path: Path) -> BadInputError:
    return BadInputError(f"{path} is damaged: bytes of it were changed or appended; {_HINT}")


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


def check_trace(trace: Trace) -> None:
    """Raise ``ValueError`` with what no recording can have left, and where."""
    counted = Counter(recording.id for recording in trace.recordings)
    twice = next((one for one, n in counted.items() if n > 1), None)
    named = all(name.isprintable() and name.strip() for name in trace.drafts)
    temp = trace.sampling.temp
    _refuse(
        "it",
        {
            "has a draft without a name that can be shown": not named,
            f"was sampled with a temperature of {temp:g}": temp < 0,
            f"has two recordings {twice}": twice is not None,
        },
    )
    for recording in trace.recordings:
        _check_recording(recording, trace)
        for name, chains in recording.chains.items():
            _check_chains(recording, chains, f"{name} on {recording.id}")
    for name, costs in trace.costs.items():
        if name not in trace.drafts and name != NGRAM_COSTS:
            raise ValueError(f"it has costs of {name}, which is not among its drafts")
        _check_costs(costs, f"the costs of {name}")


def _refuse(where: str, problems: Mapping[str, bool]) -> None:
    """Raise ``ValueError`` with the first problem that there is."""
    found = next((problem for problem, is_there in problems.items() if is_there), None)
    if found is not None:
        raise ValueError(f"{where} {found}")


def _check_recording(recording: Recording, trace: Trace) -> None:
    where, n_output, asked = f"recording {recording.id}", len(recording.output), recording.n_predict
    _refuse(
        where,
        {
            "lacks a draft": set(recording.chains) != set(trace.drafts),
            "has more output than was asked for": asked >= 0 and n_output > max(1, asked),
            "has tokens without a probability": (len(recording.probabilities) not in {0, n_output}),
            "is longer than its context": (
                len(recording.prompt) + recording.n_decoded > recording.n_ctx
            ),
            f"ends in another place than it says ({recording.stop})": not _is_ended(recording),
            "has tokens of a vocabulary, and the trace says that it holds no text": (
                not trace.has_text and not _is_bare(recording)
            ),
        },
    )


def _is_bare(recording: Recording) -> bool:
    """Whether tokens are numbered as they appear, as ``without_text`` leaves them."""
    n_seen = 0
    for token in (*recording.prompt, *recording.output):
        if token > n_seen:
            return False
        n_seen = max(n_seen, token + 1)
    drafted = {
        token
        for chains in recording.chains.values()
        for tokens in (chains.tokens, *(tail.tokens for tail in chains.tails))
        for token in tokens
    }
    # Those of drafts alone come behind the rest, in any order.
    new = {token for token in drafted if token >= n_seen}
    return len(new) == max(new, default=n_seen - 1) + 1 - n_seen


def _is_ended(recording: Recording) -> bool:
    """Whether a replay would end where the recording did, and for the same reason."""
    output = recording.output
    match recording.stop:
        case Stop.END_OF_GENERATION:
            return output[-1] not in output[:-1]
        case Stop.LENGTH:
            return len(output) == max(1, recording.n_predict)
        case Stop.CONTEXT:
            return len(recording.prompt) + len(output) >= recording.n_ctx
        case Stop.CANCELLED:
            return True


def _check_chains(recording: Recording, chains: Chains, where: str) -> None:
    lengths = {len(chains.probabilities), len(chains.of_output) or len(chains.tokens)}
    tails = [(len(tail.tokens), len(tail.probabilities)) for tail in chains.tails]
    _refuse(
        where,
        {
            "has tokens without a probability": lengths != {len(chains.tokens)},
            "has a tail of another length than the chains": (
                any(not n == n_known < chains.depth for n, n_known in tails)
            ),
        },
    )
    spread_out(recording.output, chains)


def _check_costs(costs: Costs, where: str) -> None:
    curves = (costs.verify_s, costs.verify_growth_s, costs.again_s, costs.again_growth_s)
    empty = costs.at(0)
    least_s = min(*empty.verify_s, *empty.again_s, empty.step_s, empty.off_s)
    _refuse(
        where,
        {
            "are not of ascending lengths": any(n >= more for n, more in pairwise(costs.lengths)),
            "lack a length": any(len(curve) != len(costs.lengths) for curve in curves),
            "are below nothing where the context is empty": least_s < 0,
            "fall with the length of a draft": [*costs.verify_s] != sorted(costs.verify_s),
        },
    )
