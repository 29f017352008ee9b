"""Finds models on disk: usual folders, the files of each model, and facts in a file's name."""

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from spectui.files import open_file
from spectui.gguf_names import first_name, is_part_of_model, model_name, shard_names
from spectui.models.header import MAGIC
from spectui.paths import cache_dir

SIZE = re.compile(
    r"(?<![^-._ ])((?:\d+x)?\d+(?:\.\d+)?[KMBT](?:-A\d+(?:\.\d+)?[KMBT])?)(?![^-._ ])",
    re.IGNORECASE,
)
"""Parameters in a model's name, such as ``30B-A3B`` or ``8x7B``."""
_QUANT = re.compile(
    r"(?<![^-._ ])((?:I?Q\d|TQ\d|MXFP4|NVFP4|BF16|F16|F32)(?:_[A-Z0-9]+)*)(?![^-._ ])",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundModel:
    """A model on disk, known by its name alone."""

    path: Path
    """Path of the file that llama.cpp is given: the first shard."""
    name: str
    """Name of the file, without its ending and the shard's number."""
    size_bytes: int
    """Bytes of all shards that are present."""
    n_shards: int = 1
    missing: tuple[str, ...] = ()
    """Names of the shards that are not there: the model cannot be loaded without them."""

    @property
    def damage(self) -> str | None:
        """Reason why the model cannot be loaded, None if no file is missing."""
        if not self.missing:
            return None
        n_missing = len(self.missing)
        return f"is incomplete: of its {self.n_shards} files {n_missing} cannot be found"


def quantisation(name: str) -> str | None:
    """Quantisation that a model's name tells, such as ``Q4_K_M``."""
    found = _QUANT.search(name)
    return found and found[1].upper()


def _by_model(entry: os.DirEntry[str]) -> tuple[str, int, str]:
    """The model that a file belongs to, by its name and its first file, a single one ahead."""
    first = first_name(entry.name)
    return model_name(entry.name), len(first), first


MAX_DEPTH = 6
"""Levels of sub-folders that are looked into; the hub's cache needs four."""

_WITHOUT_MODELS = frozenset({"node_modules", "site-packages", "proc", "sys"})
"""Names of folders that hold many files and no models."""


def usual_folders() -> tuple[Path, ...]:
    """Folders in which models usually lie, those that exist, each once.

    The working folder comes last: it may be a home folder with all the others below it.
    """
    variables = os.environ
    cache = variables.get("XDG_CACHE_HOME") or "~/.cache"
    candidates = (
        variables.get("LLAMA_CACHE"),
        f"{cache}/llama.cpp",
        variables.get("HF_HUB_CACHE"),
        f"{variables['HF_HOME']}/hub" if variables.get("HF_HOME") else None,
        f"{cache}/huggingface/hub",
        "~/.lmstudio/models",
        "~/models",
        "/models",
        str(cache_dir()),
        "models",
        ".",
    )
    folders: dict[str, Path] = {}
    for candidate in candidates:
        folder = os.path.abspath(expand_home(candidate)) if candidate else ""  # noqa: PTH100 - a str
        if os.path.isdir(folder):  # noqa: PTH112 - Path.is_dir raises on a forbidden parent
            folders.setdefault(os.path.realpath(folder), Path(folder))
    return tuple(folders.values())


def expand_home(folder: str) -> Path:
    """Put the home folder in place of ``~``, which stays where there is no such home."""
    return Path(os.path.expanduser(folder))  # noqa: PTH111 - Path.expanduser raises without a home


class Scan:
    """One search of folders: iterating it yields the models, one by one.

    Links are followed, so that a hub's snapshots and a link to another disk are seen; a file or
    folder that is reached twice counts once. Hidden sub-folders are passed over. The shards of a
    model are one entry. Files that cannot generate are left out: projectors, importance matrices,
    bare vocabularies, adapters, and files that are no GGUF despite their name.
    """

    def __init__(
        self, folders: Iterable[Path], cancelled: Callable[[], bool] = lambda: False
    ) -> None:
        """Prepare to look below ``folders``; ``cancelled`` is asked before every one."""
        self._folders = tuple(folders)
        self._cancelled = cancelled
        self._seen: set[tuple[int, int]] = set()
        """Device and inode of every folder and file: links may lead anywhere, also back."""
        self.reasons: list[str] = []
        """A sentence for everything that could not be looked at."""

    def __iter__(self) -> Iterator[FoundModel]:
        for folder in self._folders:
            # Depth first, in the order of names: what lies together is found together.
            waiting = [(folder, 0)]
            while waiting and not self._cancelled():
                path, depth = waiting.pop()
                entries = self._entries(path)
                yield from self._models(entries)
                if depth < MAX_DEPTH:
                    below = [Path(entry.path) for entry in entries if _leads_on(entry)]
                    waiting += [(child, depth + 1) for child in reversed(below)]

    def _models(self, entries: list[os.DirEntry[str]]) -> Iterator[FoundModel]:
        for (name, _n, first), files in groupby(sorted(entries, key=_by_model), key=_by_model):
            own = (Path(entry.path) for entry in files if is_part_of_model(entry.name))
            parts = {path: part for path in own if (part := self._part(path)) is not None}
            identities = {(part.st_dev, part.st_ino) for part in parts.values()}
            # Two revisions in a hub's cache share the shards that did not change.
            if identities <= self._seen:
                continue
            self._seen |= identities
            there = {path.name for path in parts}
            names = shard_names(first)
            yield FoundModel(
                path=next(iter(parts)).with_name(first),
                name=name,
                size_bytes=sum(part.st_size for part in parts.values()),
                n_shards=len(names),
                missing=tuple(one for one in names if one not in there),
            )

    def _entries(self, folder: Path) -> list[os.DirEntry[str]]:
        try:
            status = folder.stat()
            identity = status.st_dev, status.st_ino
            if identity in self._seen:
                return []
            self._seen.add(identity)
            with os.scandir(folder) as entries:
                return sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            self._skip(folder, error)
            return []

    def _part(self, path: Path) -> os.stat_result | None:
        """Look at a file that is a model or a shard of one; None if it is neither."""
        try:
            status = path.stat()
            # Models in a folder count by themselves.
            if not stat.S_ISREG(status.st_mode):
                return None
            with open_file(path) as file:
                magic = file.read(len(MAGIC))
        except OSError as error:
            self._skip(path, error)
            return None
        if magic != MAGIC:
            self.reasons.append(f"{path} is no GGUF file; download it again")
            return None
        return status

    def _skip(self, path: Path, error: OSError) -> None:
        self.reasons.append(f"{path} cannot be read ({error.strerror})")


def _leads_on(entry: os.DirEntry[str]) -> bool:
    """Whether a folder, or a link to one, is looked into."""
    if entry.name.startswith(".") or entry.name in _WITHOUT_MODELS:
        return False
    return os.path.isdir(entry.path)  # noqa: PTH112 - Path.is_dir raises on a forbidden parent
