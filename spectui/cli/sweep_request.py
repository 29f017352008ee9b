"""Request of ``spectui sweep``: the grid, its defaults and the backend."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import msgspec

from spectui.cli.options_backend import BackendKind
from spectui.cli.request import SharedOptions
from spectui.cli.served_session import served_extra
from spectui.cli.session import SUITE_PROMPTS
from spectui.cli.sweep_grid import given_grid
from spectui.errors import UsageError
from spectui.options.drafters import HIDDEN_STATE_KINDS, ONLY_BY_SERVER, DraftSimple, numbers_of
from spectui.sweep.axes import MODEL_KINDS, Axes
from spectui.sweep.cells import Place, Task
from spectui.sweep.expand import Defaults
from spectui.sweep.grid_file import Grid

_PLACEMENT_AXES = ("cache_type_k", "cache_type_v")
_COURSE = (
    "grid",
    "repeats",
    "n_prompts",
    "name",
    "restart",
    "retry_failed",
    "dry_run",
    "out",
    "png",
)
_BACKEND = ("server_bin", "keeps_both", "timeout")
_AXES = tuple(
    field.name
    for field in msgspec.structs.fields(Axes)
    if field.name not in {"name", "draft", "n_predict_factor", "rerun", *_PLACEMENT_AXES}
)
"""Axes that are options of the command line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRequest:
    """A sweep as requested."""

    grid: Grid
    """The grid, with axes of the command line in place of its own."""
    shared: SharedOptions
    defaults: Defaults
    repeats: int
    n_prompts: int | None
    """Number of prompts; None for all."""
    name: str | None
    restart: bool
    retry_failed: bool
    dry_run: bool
    out: Path | None
    png: bool
    left_out: tuple[str, ...]
    is_server: bool
    """Whether a llama-server decodes instead of the engine."""
    server_bin: str | None
    keeps_both: bool | None
    timeout: float
    extra: tuple[str, ...] = ()
    """Arguments of an existing command, passed to a server unchanged."""

    @property
    def kinds(self) -> frozenset[str]:
        """Drafter kinds of all cells."""
        return frozenset(
            kind for axes in self.grid.cells for kinds in axes.alternatives for kind in kinds
        )

    @property
    def takes_models(self) -> bool:
        """Whether a draft model drafts in any cell."""
        return not self.kinds.isdisjoint(MODEL_KINDS)

    def check(self) -> None:
        """Refuse options that contradict each other.

        Raises:
            UsageError: they do.
        """
        if not self.is_server and self.server_bin is not None:
            raise UsageError("--server-bin is for --backend server; add that, or leave it out")
        if not self.is_server and self.keeps_both is not None:
            raise UsageError(
                "--keep-both and --one-at-a-time are for servers that spectui starts; add "
                "--backend server --server-bin PATH, or leave them out"
            )
        only_server = sorted(self.kinds & set(HIDDEN_STATE_KINDS))
        if not self.is_server and only_server:
            raise UsageError(
                f"--spec-type {only_server[0]}: {ONLY_BY_SERVER}; add --backend server "
                "--server-bin PATH"
            )


def read_request(
    parsed: Mapping[str, Any], *, typed: Collection[str], set_by_preset: Collection[str]
) -> SweepRequest:
    """Convert parsed options into a request.

    Args:
        parsed: values by click's names.
        typed: names that stood on the command line: they replace a grid's axes.
        set_by_preset: names that a preset says: they are what axes have that a grid leaves open.

    Raises:
        BadInputError: there is no such grid, or it is malformed.
        UsageError: options that contradict each other, or no grid.
    """
    own = {name: parsed[name] for name in _COURSE}
    axes = {name: _axis(parsed[name]) for name in _AXES}
    typed_axes = {name: values for name, values in axes.items() if name in typed}
    if own["grid"] is not None:
        for name in _PLACEMENT_AXES:
            if name in typed:
                typed_axes[name] = (parsed[name],)
    grid, left_out = given_grid(own["grid"], typed_axes)
    n_predict = parsed["n_predict"]
    if grid.n_predict is not None and not {"n_predict"} & {*typed, *set_by_preset}:
        n_predict = grid.n_predict
    shared = _shared(parsed, axes, n_predict)
    of_suite = None if shared.prompts is not None else grid.n_prompts or SUITE_PROMPTS
    n_prompts = own.pop("n_prompts") or of_suite
    repeats = own.pop("repeats") or grid.repeats or 1
    del own["grid"]
    request = SweepRequest(
        grid=grid,
        shared=shared,
        defaults=_defaults(axes, shared),
        repeats=repeats,
        n_prompts=n_prompts,
        left_out=left_out,
        is_server=parsed["backend"] == BackendKind.SERVER,
        extra=served_extra(),
        **{name: parsed[name] for name in _BACKEND},
        **own,
    )
    request.check()
    return request


def plain_defaults() -> Defaults:
    """Defaults of a command without options."""
    return Defaults(
        place=Place(threads=0, cache_type_k="f16", cache_type_v="f16"),
        task=Task(prompt_length=None, temp=0.0, n_predict=64),
    )


def _axis(values: Sequence[object]) -> tuple[object, ...]:
    """Values of an option; of --spec-type each is a list itself."""
    return tuple(",".join(one) if isinstance(one, tuple) else one for one in values or ())


def _shared(
    parsed: Mapping[str, Any], axes: Mapping[str, tuple[Any, ...]], n_predict: int
) -> SharedOptions:
    names = {field.name for field in fields(SharedOptions)}
    of_axes = {name: (axes[name] or (0,))[0] for name in ("temp", "threads")}
    given = {name: value for name, value in parsed.items() if name in names}
    # Who drafts is an axis.
    return SharedOptions(**{**given, **of_axes, "spec_type": (), "n_predict": n_predict})


def _defaults(axes: Mapping[str, tuple[Any, ...]], shared: SharedOptions) -> Defaults:
    """Values for cells where a grid is silent: a preset's first values, else the shared options."""

    def first(name: str, default: Any) -> Any:
        return (axes[name] or (default,))[0]

    return Defaults(
        place=Place(
            threads=shared.threads,
            cache_type_k=shared.cache_type_k,
            cache_type_v=shared.cache_type_v,
        ),
        task=Task(
            prompt_length=first("prompt_length", None),
            temp=shared.temp,
            n_predict=shared.n_predict,
        ),
        model=DraftSimple(
            **{one.name: first(one.parameter, one.default) for one in numbers_of(DraftSimple)}
        ),
    )
