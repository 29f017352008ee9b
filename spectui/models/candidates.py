"""Searches a hub for drafts of a target, by the target's header, and chooses files to inspect."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from spectui.gguf_names import model_name
from spectui.models.files import SIZE, FoundModel, quantisation
from spectui.models.header import GgufFile
from spectui.models.ranking import GOOD_SHARE, distance

_HEADS = ("eagle3", "dflash", "mtp")
"""Words in names of files and repositories with drafts for one model alone."""
_HEAD = re.compile(r"(?<![a-z])(?:mtp|eagle-?3?|dflash|dspark)(?![a-z])", re.IGNORECASE)
_SERIES = re.compile(r"(?:meta-)?([a-z]+(?:-[a-z]+)*-?\d+)", re.IGNORECASE)
"""A family without its minor version and what follows it: drafts are often of another one."""
_PRECISION = re.compile(r"[-._](?=(?:UD-)?(?:I?Q\d|B?F16|F32|MXFP4))", re.IGNORECASE)
_MOST_LISTED, _MOST_HEADS = 100, 10
"""Repositories of one search."""
_MOST_SHARE = 0.6
"""Parameters of a draft, as a share of its target's, above which it cannot pay."""
_MOST_ALIKE = 2
"""Repositories of models of one size that are looked at: most are one model, quantised again."""
_QUANTS = ("Q8_0", "Q6_K", "Q5_K_M", "Q4_K_M", "Q4_K_S", "Q4_0", "MXFP4")
"""Quantisations of a draft, the best first: beyond Q8_0 none is accepted more often."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """A repository with GGUF files, as a search lists it."""

    name: str
    """``OWNER/NAME``."""
    files: tuple[str, ...]
    """Names of its models' GGUF files, shards included."""
    n_params: int | None
    """Parameters of one of its models, as the hub counts them."""
    downloads: int = 0
    is_head: bool = False
    """Whether it may have MTP layers, or an EAGLE-3 or DFlash draft, of the target."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HubModel(FoundModel):
    """A model in a repository, at its place on the hub: ``OWNER/NAME/FILE``."""

    repository: str
    files: tuple[str, ...]
    """Names of its files, the one that llama.cpp is given first."""

    @property
    def fetch_words(self) -> tuple[str, ...]:
        """The command that fetches it."""
        return ("hf", "download", self.repository, *self.files)


Search = Callable[..., Iterable[Repository]]
"""A search of a hub, as ``Hub.search``."""


class Origin(NamedTuple):
    """A target's names on a hub."""

    names: tuple[str, ...]
    """Names of the model without quantisation and shard, such as ``Qwen3-32B``."""
    families: tuple[str, ...]
    """Parts that names of its smaller relatives have as well, such as ``Qwen3``."""

    @classmethod
    def of(cls, gguf: GgufFile, file_name: str) -> "Origin":
        """Take the names from the header, which may be wrong, and from the file's name."""
        own = (gguf.text("general.name"), _PRECISION.split(model_name(file_name))[0])
        names = tuple(dict.fromkeys("-".join(name.split()) for name in own if name))
        base_model = gguf.text("general.base_model.0.repo_url").rpartition("/")[2]
        relatives = (gguf.text("general.basename"), *names, base_model)
        families = dict.fromkeys(map(_family, filter(None, relatives)))
        return cls(names=names, families=tuple(families))


def _family(name: str) -> str:
    own = "-".join(SIZE.split(name)[0].split()).strip("-._") or name
    series = _SERIES.match(own)
    return series[1] if series else own


def candidates(origin: Origin, n_params: float, search: Search, most: int) -> Sequence[Repository]:
    """Search for drafts of a target; return the most promising repositories.

    Args:
        origin: the target's names.
        n_params: the target's parameters that a token reads.
        search: asks the hub.
        most: most repositories.
    """
    heads = {one.name: replace(one, is_head=True) for one in _head_repositories(origin, search)}
    found: dict[str, Repository] = {}
    for family in origin.families:
        found |= {one.name: one for one in search(family, limit=_MOST_LISTED)}
        found |= {one.name: one for one in search(f"{family} draft", limit=_MOST_HEADS)}
    models = [one for one in found.values() if one.name not in heads]
    small = [one for one in models if one.n_params and one.n_params <= _MOST_SHARE * n_params]
    small.sort(key=lambda one: (distance((one.n_params or 0) / n_params), -one.downloads))
    return (*[*heads.values()][: most // 2], *_distinct(small))[:most]


def _head_repositories(origin: Origin, search: Search) -> Iterator[Repository]:
    """Repositories of the target's own model that have a file of its heads."""
    for name in origin.names:
        for word in ("", *_HEADS):
            for one in search(f"{name} {word}".strip(), limit=_MOST_HEADS):
                if _HEAD.search(one.name) or any(map(_HEAD.search, one.files)):
                    yield one


def _distinct(models: Iterable[Repository]) -> Iterator[Repository]:
    n_alike: Counter[float | None] = Counter()
    for one in models:
        n_alike[one.n_params] += 1
        if n_alike[one.n_params] <= _MOST_ALIKE:
            yield one


def choose_file(
    repository: Repository, models: Iterable[HubModel], target_bytes: int
) -> HubModel | None:
    """Choose one of a repository's files: the best quantisation that is still small.

    Args:
        repository: the repository.
        models: its models.
        target_bytes: bytes that a token of the target reads.
    """
    there = list(models)
    if repository.is_head and not _HEAD.search(repository.name):
        there = [one for one in there if _HEAD.search(one.files[0])]
    most = GOOD_SHARE[1] * target_bytes
    quants = {quantisation(one.path.stem): one for one in there}
    known = [quants[name] for name in _QUANTS if name in quants]
    small = (one for one in known if one.size_bytes <= most)
    smallest = min(known or there, key=lambda one: one.size_bytes, default=None)
    return next(small, smallest)
