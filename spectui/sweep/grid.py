"""Grids by name: the shipped studies, the user's own files, and those made of options."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import msgspec

from spectui.documents import Json
from spectui.errors import BadInputError, UsageError
from spectui.files import read_toml
from spectui.paths import config_dir
from spectui.sweep.axes import OFF_KIND, Axes, axis_owners

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
    return tuple(map(_read, sorted(_folders()[1].glob("*.toml"))))


def grid_names() -> list[str]:
    """Names of the shipped grids and of the user's own."""
    return sorted({path.stem for folder in _folders() for path in folder.glob("*.toml")})


def _folders() -> tuple[Path, Path]:
    return config_dir() / "grids", Path(__file__).parent / "grids"


def find_grid(name: str) -> Grid:
    """Read the grid called ``name``, or the file if it is a path ending in ``.toml``.

    Raises:
        BadInputError: there is none, or it is malformed.
    """
    if name.endswith(".toml"):
        return _read(Path(name))
    for folder in _folders():
        path = folder / f"{name}.toml"
        if path.parent == folder and path.is_file():
            return _read(path)
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
