"""Grids: the axes of cells under the names of llama-server's options, and the files of grids.

Shipped studies, the user's own files, and what the options of a command ask for.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from spectui.documents import Json, encoded
from spectui.errors import BadInputError, UsageError
from spectui.files import named_toml, read_toml
from spectui.options import context
from spectui.options.drafters import (
    DRAFTERS,
    HIDDEN_STATE_KINDS,
    MODEL_KIND,
    MTP_KIND,
    NGRAM_KINDS,
    numbers_of,
    owners,
)
from spectui.options.option import INT_MAX
from spectui.options.setup import CACHE_TYPES, MOST_SLOTS
from spectui.paths import config_dir

OFF_KIND = "none"
"""The target alone, by the name in ``--spec-type``."""
MODEL_KINDS = (MODEL_KIND, *HIDDEN_STATE_KINDS)
"""Kinds that draft with a file of their own."""
DRAFTING_KINDS = (*MODEL_KINDS, MTP_KIND, *NGRAM_KINDS)

_NonEmpty = msgspec.Meta(min_length=1)
"""An empty list in a file has no clear intention."""
_Count = Annotated[int, msgspec.Meta(ge=1, le=INT_MAX)]
_Counts = Annotated[tuple[_Count, ...], _NonEmpty]
_Thread = Annotated[int, msgspec.Meta(ge=0, le=context.MAX_THREADS)]
_Threads = Annotated[tuple[_Thread, ...], _NonEmpty]
_Slots = Annotated[tuple[Annotated[int, msgspec.Meta(ge=1, le=MOST_SLOTS)], ...], _NonEmpty]
_Temps = Annotated[tuple[Annotated[float, msgspec.Meta(ge=0, le=1000)], ...], _NonEmpty]
_Texts = Annotated[tuple[Annotated[str, msgspec.Meta(min_length=1)], ...], _NonEmpty]
_Times = Annotated[float, msgspec.Meta(gt=0, le=1000)]


class _Axes(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """The axes that do not depend on the drafters."""

    name: str = ""
    """Name of the cells; ``{draft-max}`` stands for a cell's value."""
    spec_type: _Texts = ()
    """Drafters of each alternative: ``ngram-mod,draft-simple`` are two that are asked in turn."""
    draft: _Counts = ()
    """Numbers of the given drafts, from 1; empty for all."""
    threads: _Threads = ()
    cache_type_k: _Texts = ()
    cache_type_v: _Texts = ()
    parallel: _Slots = ()
    """Slots of a llama-server, as many streams at once."""
    prompt_length: _Counts = ()
    temp: _Temps = ()
    n_predict_factor: _Times = 1.0
    """Factor of the tokens that the command generates per prompt."""
    rerun: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 0
    """Different numbers measure an otherwise equal cell repeatedly, to show how far results
    vary."""

    def __post_init__(self) -> None:
        """Refuse unknown drafters, and options of drafters that are not used."""
        for alternative in self.alternatives:
            _check_kinds(alternative)
        if not self.name.isprintable():
            raise ValueError(f"name {self.name!r} has characters that cannot be printed")
        for value in (*self.cache_type_k, *self.cache_type_v):
            if value not in CACHE_TYPES:
                raise ValueError(
                    f"{value!r} is no type of a cache; there are {', '.join(CACHE_TYPES)}"
                )
        for name, kinds in axis_owners().items():
            if getattr(self, name) and not kinds & self.kinds:
                raise ValueError(
                    f"{name.replace('_', '-')} is an option of {', '.join(sorted(kinds))}, and who "
                    f"drafts here is {', '.join(sorted(self.kinds))}"
                )

    @property
    def alternatives(self) -> tuple[tuple[str, ...], ...]:
        """Drafters of each alternative, in the order in which they are asked."""
        return tuple(
            tuple(dict.fromkeys(part.strip() for part in text.split(",")))
            for text in self.spec_type or (MODEL_KIND,)
        )

    @property
    def kinds(self) -> frozenset[str]:
        """Drafters of all alternatives."""
        return frozenset(kind for alternative in self.alternatives for kind in alternative)

    def document(self) -> Json:
        """The axes that are not empty, in documents."""
        return {name: value for name, value in encoded(self).items() if value not in ((), "")}

    def with_typed(self, typed: Mapping[str, tuple[object, ...]]) -> "Axes":
        """The axes with those of the command line in place of their own.

        Those of drafters that do not draft then are left out, its own as well.

        Raises:
            ValueError: the drafters are not valid.
        """
        replaced = {**msgspec.structs.asdict(self), **{k: v for k, v in typed.items() if v}}
        own = Axes(spec_type=replaced["spec_type"])
        idle = [name for name, kinds in axis_owners().items() if not kinds & own.kinds]
        return Axes(**{**replaced, **dict.fromkeys(idle, ())})


_NUMBERS = tuple(
    {number.parameter: number for one in DRAFTERS for number in numbers_of(one)}.values()
)

if TYPE_CHECKING:

    class Axes(_Axes, frozen=True, kw_only=True):
        """Every combination of these is a cell; ``_Axes``, and a list per drafter's number."""

        def __init__(self, **axes: object) -> None:
            """Take a list per ``Number.parameter``, beside the fields of ``_Axes``."""

        def __getattr__(self, name: str) -> Any: ...  # noqa: ANN401 - as many types as axes

else:
    Axes = msgspec.defstruct(
        "Axes",
        [(one.parameter, Annotated[tuple[one.annotation, ...], _NonEmpty], ()) for one in _NUMBERS],
        bases=(_Axes,),
        frozen=True,
        kw_only=True,
        forbid_unknown_fields=True,
        rename="kebab",
        namespace={"__doc__": "Every combination of these is a cell."},
    )


def axis_owners() -> dict[str, frozenset[str]]:
    """Axes that only some drafters have, by the field's name, with the kinds of these drafters."""
    return {**owners(), "draft": frozenset(MODEL_KINDS)}


def _check_kinds(alternative: tuple[str, ...]) -> None:
    for kind in alternative:
        if kind not in (OFF_KIND, *DRAFTING_KINDS):
            known = ", ".join((OFF_KIND, *DRAFTING_KINDS))
            raise ValueError(f"{kind!r} is no drafter; there are {known}")
    named = ",".join(alternative)
    if OFF_KIND in alternative and len(alternative) > 1:
        raise ValueError(f"{named}: {OFF_KIND} is nobody, and drafts with nobody else")
    if len({*MODEL_KINDS, MTP_KIND} & set(alternative)) > 1:
        raise ValueError(f"{named}: llama-server has one draft context; name one of them")


_Sentence = Annotated[str, msgspec.Meta(min_length=1)]


class Grid(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """A grid, as a file has it."""

    name: str = ""
    """Name of its file; empty for the options of the command line."""
    description: _Sentence
    """Description of the grid in a sentence."""
    source: str = ""
    """The study that the grid reproduces."""
    notes: tuple[_Sentence, ...] = ()
    """Differences from that study."""
    n_predict: Annotated[int, msgspec.Meta(ge=2)] | None = None
    """Tokens per prompt, if neither the command line nor a preset sets them."""
    n_prompts: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """Number of prompts from the built-in suite."""
    repeats: Annotated[int, msgspec.Meta(ge=1)] | None = None
    cells: Annotated[tuple[Axes, ...], msgspec.Meta(min_length=1)]

    def __post_init__(self) -> None:
        """Refuse text with terminal control characters."""
        for text in (self.description, self.source, *self.notes):
            if not " ".join(text.splitlines()).replace("\t", " ").isprintable():
                raise ValueError(f"{text!r} has characters that cannot be printed")

    @property
    def kinds(self) -> frozenset[str]:
        """Drafters of all cells."""
        return frozenset[str]().union(*(axes.kinds for axes in self.cells))

    @property
    def has_slots(self) -> bool:
        """Whether several streams are asked for."""
        return any(n > 1 for axes in self.cells for n in axes.parallel)

    @property
    def brief(self) -> Json:
        """Name and source in documents of sweeps."""
        return {"name": self.name or None, "source": self.source or None}

    def document(self) -> Json:
        """The grid in documents."""
        return {
            "name": self.name,
            "description": self.description,
            "source": self.source or None,
            "notes": list(self.notes),
            "cells": [axes.document() for axes in self.cells],
        }


def shipped_grids() -> tuple[Grid, ...]:
    """The grids that come with spectui, by name."""
    return tuple(map(_read, named_toml(_folders()[1:]).values()))


def grid_names() -> list[str]:
    """Names of the shipped grids and of the user's own."""
    return sorted(named_toml(_folders()))


def _folders() -> tuple[Path, Path]:
    return config_dir() / "grids", Path(__file__).parent / "grids"


def find_grid(name: str) -> Grid:
    """Read the grid called ``name``, or the file if it is a path ending in ``.toml``.

    Raises:
        BadInputError: there is none, or it is malformed.
    """
    found = named_toml(_folders())
    if name in found or name.endswith(".toml"):
        return _read(found.get(name, Path(name)))
    raise BadInputError(
        f"no grid is called {name!r}; there are {', '.join(grid_names())}, or give a path that "
        "ends in .toml"
    )


def _read(path: Path) -> Grid:
    found = read_toml(path, Grid, other="the name of a grid", advice=_advice)
    return msgspec.structs.replace(found, name=path.stem)


def _advice(problem: str) -> str:
    """Advice on a problem; for an unknown key, the list of known keys."""
    is_axis = "$.cells[" in problem
    if "length >= 1" in problem and is_axis:
        return "leave it out for what the command says, or give values"
    if "unknown field" not in problem:
        return "correct it"
    fields = msgspec.structs.fields(Axes if is_axis else Grid)
    return f"there are {', '.join(field.encode_name for field in fields)}"


def given_grid(name: str | None, typed: Mapping[str, tuple[object, ...]]) -> Grid:
    """The grid that is asked for.

    Args:
        name: value of ``--grid``, None for options alone.
        typed: axes of the command line, by field names.

    Raises:
        BadInputError: there is no such grid, or it is malformed.
        UsageError: options are of drafters that do not draft, or say nothing to compare.
    """
    if name is not None:
        grid = find_grid(name)
    elif _is_grid(typed):
        grid = Grid(description="The options of the command line.", cells=(Axes(),))
    else:
        raise UsageError(
            "say what to measure: axes such as --draft-max 2,4,8 and --draft-p-min 0,0.5, or a "
            "named study with --grid (spectui sweep --list shows them)"
        )
    grid = msgspec.structs.replace(grid, cells=tuple(_typed(axes, typed) for axes in grid.cells))
    for axis, kinds in axis_owners().items():
        if axis in typed and not kinds & grid.kinds:
            who = f"no drafter of the grid {grid.name}" if grid.name else "no drafter here"
            raise UsageError(
                f"--{axis.replace('_', '-')} is an option of {', '.join(sorted(kinds))}, and "
                f"{who} takes it; leave it out, or name in --spec-type who does"
            )
    return grid


def _is_grid(typed: Mapping[str, tuple[object, ...]]) -> bool:
    """Whether the options define a comparison; one temperature or number of threads does not."""
    around = {"threads", "parallel", "temp", "prompt_length"}
    return any(name not in around or len(values) > 1 for name, values in typed.items())


def _typed(axes: Axes, typed: Mapping[str, tuple[object, ...]]) -> Axes:
    # The target alone stays what it is, whoever else is asked to draft.
    fitting = dict(typed)
    if axes.alternatives == ((OFF_KIND,),):
        fitting.pop("spec_type", None)
    try:
        return axes.with_typed(fitting)
    except ValueError as error:
        raise UsageError(f"--spec-type {error}") from error
