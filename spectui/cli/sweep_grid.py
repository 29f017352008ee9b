"""The grid given to ``spectui sweep``: by name, by options, or by both."""

import os
from collections.abc import Mapping, Sequence

import msgspec

from spectui.errors import UsageError
from spectui.format import counted
from spectui.sweep.axes import OFF_KIND, Axes, axis_owners
from spectui.sweep.grid_file import Grid, find_grid

_OWN = ""
"""Name of a grid that was given by options alone."""


def given_grid(
    name: str | None, typed: Mapping[str, tuple[object, ...]]
) -> tuple[Grid, tuple[str, ...]]:
    """The grid, and a sentence for the part that is left out here.

    Args:
        name: value of ``--grid``, None for options alone.
        typed: axes of the command line, by field names.

    Raises:
        BadInputError: there is no such grid, or it is malformed.
        UsageError: options are of drafters that do not draft, or say nothing to compare.
    """
    if name is None:
        if not _is_grid(typed):
            raise UsageError(
                "say what to measure: axes such as --draft-max 2,4,8 and --draft-p-min 0,0.5, or a "
                "named study with --grid (spectui sweep --list shows them)"
            )
        entry = _typed(Axes(), typed)
        _check_used((entry,), typed, "no drafter here")
        return Grid(name=_OWN, description="The options of the command line.", cells=(entry,)), ()
    grid = find_grid(name)
    replaced = tuple(_typed(axes, typed) for axes in grid.cells)
    _check_used(replaced, typed, f"no drafter of the grid {grid.name}")
    cells, left_out = replaced, list[str]()
    if "threads" not in typed:
        cells = tuple(_on_this_machine(axes, left_out) for axes in replaced)
    return msgspec.structs.replace(grid, cells=cells), tuple(dict.fromkeys(left_out))


def _is_grid(typed: Mapping[str, tuple[object, ...]]) -> bool:
    """Whether the options define a comparison; one temperature or number of threads does not."""
    around = {"threads", "temp", "prompt_length"}
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


def _check_used(entries: Sequence[Axes], typed: Mapping[str, tuple[object, ...]], who: str) -> None:
    asked = {kind for axes in entries for kinds in axes.alternatives for kind in kinds}
    for name, kinds in axis_owners().items():
        if name in typed and not kinds & asked:
            raise UsageError(
                f"--{name.replace('_', '-')} is an option of {', '.join(sorted(kinds))}, and "
                f"{who} takes it; leave it out, or name in --spec-type who does"
            )


def _on_this_machine(axes: Axes, left_out: list[str]) -> Axes:
    """Drop numbers of threads that exceed the processors of this machine."""
    most = os.cpu_count() or 1
    usable = tuple(n for n in axes.threads if n <= most)
    if usable == axes.threads:
        return axes
    left_out.append(
        f"more than {counted(most, 'thread')}, which this machine does not have (-t takes any)"
    )
    return msgspec.structs.replace(axes, threads=usable or (most,))
