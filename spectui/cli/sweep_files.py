"""Files in the ``--out`` folder of ``spectui sweep``."""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Literal

from spectui.cli.sweep_report import SweepResult, all_remarks, state_text
from spectui.errors import BadInputError
from spectui.format import counted
from spectui.paths import cache_dir
from spectui.sweep.csv_files import results_csv, summary_csv
from spectui.sweep.markdown import report
from spectui.sweep.plots.charts import Chart, charts
from spectui.sweep.tables import sheets
from spectui.writing import write_file

_Kind = Literal["svg", "png"]


def check_folder(folder: Path | None) -> None:
    """Check that the results can be written, before hours of measuring.

    Raises:
        BadInputError: there is no such folder, none can be made, or it takes no file.
    """
    if folder is None:
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            return
    except OSError as error:
        raise BadInputError(
            f"--out {folder} cannot be written ({error.strerror}); give another folder"
        ) from error


def write_folder(
    folder: Path, result: SweepResult, document: Mapping[str, Any], *, png: bool
) -> None:
    """Write ``--out``: first the data of the plots, then the plots.

    Raises:
        BadInputError: files cannot be written; all others have been.
    """
    found = charts(result.summaries)
    failed: dict[str, OSError] = {}
    for name, content in (*_texts(result, document, found), *_plots(found, png=png)):
        try:
            write_file(folder / name, content)
        except OSError as error:
            failed[name] = error
    if failed:
        reasons = sorted({str(error.strerror) for error in failed.values()})
        raise BadInputError(
            f"in --out {folder} {', '.join(failed)} cannot be written ({', '.join(reasons)}); the "
            f"sweep {result.name} keeps all that was measured: run the command again with another "
            "--out"
        ) from next(iter(failed.values()))


def _texts(
    result: SweepResult, document: Mapping[str, Any], found: Sequence[Chart]
) -> Iterator[tuple[str, bytes]]:
    """Yield names and contents, the most useful first."""
    yield "results.csv", results_csv(result.cells, result.records).encode()
    yield "summary.csv", summary_csv(result.summaries).encode()
    yield "report.md", _markdown(result, {one.title: f"{one.slug}.svg" for one in found}).encode()
    yield "results.json", f"{json.dumps(document, indent=2, allow_nan=False)}\n".encode()


def _plots(found: Sequence[Chart], *, png: bool) -> Iterator[tuple[str, bytes]]:
    draw = _drawing()
    kinds: tuple[_Kind, ...] = ("svg", "png") if png else ("svg",)
    for kind in kinds:
        yield from ((f"{chart.slug}.{kind}", draw(chart, kind)) for chart in found)


def _drawing() -> Callable[[Chart, _Kind], bytes]:
    """Import the drawing module, which takes half a second; its font cache goes to our folder."""
    os.environ.setdefault("MPLCONFIGDIR", str(cache_dir() / "matplotlib"))
    # A backend that the user has chosen for a screen must not be looked for.
    os.environ.pop("MPLBACKEND", None)
    from spectui.sweep.plots.drawing import draw

    return draw


def _markdown(result: SweepResult, images: Mapping[str, str]) -> str:
    machine = result.machine
    facts = [
        result.grid.description,
        *([f"After {result.grid.source}"] if result.grid.source else []),
        *(f"Mind: {note}" for note in result.grid.notes),
        f"Target: {result.spec['target']['file']}",
        *(f"Draft {name}: {draft['file']}" for name, draft in result.spec["drafts"].items()),
        f"Machine: {machine.cpu}, {counted(machine.n_cores, 'core')}"
        + "".join(f", {gpu}" for gpu in machine.gpus),
        state_text(result),
    ]
    found, told = sheets(result.summaries), all_remarks(result)
    return report(f"Sweep {result.name}", facts, found, told, images)
