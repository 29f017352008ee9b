"""Trace files: gzipped JSON, versioned, with a digest. ``docs/trace-format.md`` describes them."""

import gzip
import hashlib
import os
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from errno import ELOOP
from itertools import chain, count, pairwise
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
        ensure_dir(path.parent if is_own else path.resolve().parent)
        write = write_own_file if is_own else write_file
        write(path, packed_trace(trace), is_private=True)
    except OSError as error:
        raise _cannot_write(path, error) from error
    except RuntimeError as error:
        # A loop of links.
        raise _cannot_write(path, OSError(ELOOP, os.strerror(ELOOP))) from error


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
    return unpacked_trace(_read(path), path)


def unpacked_trace(packed: bytes, path: Path) -> Trace:
    """Decode what ``packed_trace`` made; ``path`` says where it lies.

    Raises:
        BadInputError: as of ``read_trace``.
    """
    return _decode(_unpacked(packed, path), path)


def _decode(content: bytes, path: Path) -> Trace:
    try:
        envelope = _envelope_decoder.decode(content)
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
_GZIP = zlib.MAX_WBITS | 16


def _unpacked(packed: bytes, path: Path) -> bytes:
    """The content of a gzipped file, which may be damaged, or unpack to no end."""
    size_bytes = 0
    try:
        for part in _parts(packed, path):
            size_bytes += len(part)
            if size_bytes > _MAX_BYTES:
                raise BadInputError(
                    f"{path} unpacks to more than {_MAX_BYTES >> 20} MiB, the most that a trace "
                    "may have; give another one, or record fewer prompts"
                )
        return b"".join(_parts(packed, path))
    except zlib.error as error:
        raise _damaged(path) from error


def _parts(packed: bytes, path: Path) -> Iterator[bytes]:
    """Yield the content piece by piece.

    It is one member, as spectui writes it: thousands of empty ones would take hours.
    """
    member = zlib.decompressobj(_GZIP)
    for start in range(0, len(packed), _CHUNK_BYTES):
        given = packed[start : start + _CHUNK_BYTES]
        is_full = True
        while not member.eof and (given or is_full):
            part = member.decompress(given, _CHUNK_BYTES)
            given, is_full = member.unconsumed_tail, len(part) == _CHUNK_BYTES
            yield part
        if member.eof:
            if member.unused_data or start + _CHUNK_BYTES < len(packed):
                raise _damaged(path)
            return
    raise BadInputError(f"{path} is cut off; {_HINT}")


def _damaged(path: Path) -> BadInputError:
    return BadInputError(f"{path} is damaged: bytes of it were changed or appended; {_HINT}")


def _read(path: Path) -> bytes:
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
    return packed


def check_trace(trace: Trace) -> None:
    """Raise ``ValueError`` with what no recording can have left, and where."""
    if not trace.recordings:
        raise ValueError("it has no recordings")
    if not all(name.isprintable() and name.strip() for name in trace.drafts):
        raise ValueError("it has a draft without a name that can be shown")
    if trace.sampling.temp < 0:
        raise ValueError(f"it was sampled with a temperature of {trace.sampling.temp:g}")
    _check_ids([recording.id for recording in trace.recordings])
    for recording in trace.recordings:
        if set(recording.chains) != set(trace.drafts):
            raise ValueError(f"recording {recording.id} lacks a draft")
    check_tokens(trace)
    for recording in trace.recordings:
        _check_recording(recording)
        for name, chains in recording.chains.items():
            _check_chains(recording, chains, f"{name} on {recording.id}")
    _check_all_costs(trace.costs, trace.drafts)


def _check_ids(ids: Sequence[str]) -> None:
    twice = next((one for one, n in Counter(ids).items() if n > 1), None)
    if twice is not None:
        raise ValueError(f"it has two recordings {twice}")


def _check_recording(recording: Recording) -> None:
    where = f"recording {recording.id}"
    asked = recording.n_predict
    if asked >= 0 and len(recording.output) > max(1, asked):
        raise ValueError(f"{where} has more output than was asked for")
    if len(recording.probabilities) not in {0, len(recording.output)}:
        raise ValueError(f"{where} has tokens without a probability")
    if len(recording.prompt) + recording.n_decoded > recording.n_ctx:
        raise ValueError(f"{where} is longer than its context")
    _check_end(recording, where)


def _check_end(recording: Recording, where: str) -> None:
    """A replay ends where the recording did, and for the same reason."""
    output = recording.output
    match recording.stop:
        case Stop.END_OF_GENERATION:
            is_right = output[-1] not in output[:-1]
        case Stop.LENGTH:
            is_right = len(output) == max(1, recording.n_predict)
        case Stop.CONTEXT:
            is_right = len(recording.prompt) + len(output) >= recording.n_ctx
        case Stop.CANCELLED:
            is_right = True
    if not is_right:
        raise ValueError(f"{where} ends in another place than it says ({recording.stop})")


def _check_chains(recording: Recording, chains: Chains, where: str) -> None:
    lengths = {len(chains.probabilities), len(chains.of_output) or len(chains.tokens)}
    if lengths != {len(chains.tokens)}:
        raise ValueError(f"{where} has tokens without a probability")
    for tail in chains.tails:
        if not len(tail.tokens) == len(tail.probabilities) < chains.depth:
            raise ValueError(f"{where} has a tail of another length than the chains")
    spread_out(recording.output, chains)


def _check_all_costs(costs: Mapping[str, Costs], drafts: Mapping[str, object]) -> None:
    for name, measured in costs.items():
        if name not in drafts and name != NGRAM_COSTS:
            raise ValueError(f"it has costs of {name}, which is not among its drafts")
        _check_costs(measured, f"the costs of {name}")


def _check_costs(costs: Costs, where: str) -> None:
    lengths = costs.lengths
    if any(one >= other for one, other in pairwise(lengths)):
        raise ValueError(f"{where} are not of ascending lengths")
    curves = (costs.verify_s, costs.verify_growth_s, costs.again_s, costs.again_growth_s)
    if any(len(curve) != len(lengths) for curve in curves):
        raise ValueError(f"{where} lack a length")
    _check_growth(costs, where)
    if list(costs.verify_s) != sorted(costs.verify_s):
        raise ValueError(f"{where} fall with the length of a draft")


def _check_growth(costs: Costs, where: str) -> None:
    grown = (
        *zip(costs.verify_s, costs.verify_growth_s, strict=True),
        *zip(costs.again_s, costs.again_growth_s, strict=True),
        (costs.step_s, costs.step_growth_s),
        (costs.off_s, costs.off_growth_s),
    )
    if any(growth_s * costs.n_past > seconds for seconds, growth_s in grown):
        raise ValueError(f"{where} are below nothing where the context is empty")


def check_tokens(trace: Trace) -> None:
    """Raise ``ValueError`` with the recording whose tokens its models do not have.

    Numbers in their place are at most as many as there are tokens.
    """
    sizes = {name: draft.n_vocab for name, draft in trace.drafts.items()}
    if not trace.has_text:
        sizes = dict.fromkeys(sizes, max(trace.target.n_vocab, *sizes.values(), 0))
    for recording in trace.recordings:
        where = f"recording {recording.id}"
        _check_below(trace.target.n_vocab, (*recording.prompt, *recording.output), where)
        for name, chains in recording.chains.items():
            _check_below(sizes[name], drafted(chains), f"{name} on {recording.id}")
        if not trace.has_text and not _is_bare(recording):
            raise ValueError(
                f"{where} has tokens of a vocabulary, and the trace says that it holds no text"
            )


def drafted(chains: Chains) -> Iterable[int]:
    """All tokens of chains."""
    return chain(chains.tokens, *(tail.tokens for tail in chains.tails))


def _check_below(n_vocab: int, tokens: Iterable[int], where: str) -> None:
    for token in tokens:
        if not 0 <= token < n_vocab:
            raise ValueError(
                f"{where} has token {token}, which a vocabulary of {n_vocab} does not have"
            )


def _is_bare(recording: Recording) -> bool:
    """Whether tokens are numbered as they appear; those of drafts in any order, behind the rest."""
    n_seen = 0
    for token in (*recording.prompt, *recording.output):
        if token > n_seen:
            return False
        n_seen = max(n_seen, token + 1)
    behind = {token for chains in recording.chains.values() for token in drafted(chains)}
    new = {token for token in behind if token >= n_seen}
    return len(new) == max(new, default=n_seen - 1) + 1 - n_seen
