"""What ``--out`` of ``spectui sweep`` holds."""

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Literal

from spectui.cli.sweep_report import SweepResult, all_remarks, state_text
from spectui.errors import BadInputError
from spectui.models.sizes import counted
from spectui.paths import cache_dir
from spectui.sweep.csv_files import results_csv, summary_csv
from spectui.sweep.markdown import report
from spectui.sweep.plots.charts import Chart, charts
from spectui.sweep.tables import sheets


def check_folder(folder: Path | None) -> None:
    """Find out before an hour of measuring whether its result can be written.

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
    """Write ``--out``.

    Raises:
        BadInputError: a file cannot be written.
    """
    draw = _drawing()
    found = charts(result.summaries)
    images = {chart.title: f"{chart.slug}.svg" for chart in found}
    files: dict[str, bytes] = {f"{chart.slug}.svg": draw(chart, "svg") for chart in found}
    if png:
        files |= {f"{chart.slug}.png": draw(chart, "png") for chart in found}
    texts = {
        "results.json": json.dumps(document, indent=2, allow_nan=False) + "\n",
        "results.csv": results_csv(result.cells, result.records),
        "summary.csv": summary_csv(result.summaries),
        "report.md": _markdown(result, images),
    }
    files |= {name: text.encode() for name, text in texts.items()}
    for name, content in files.items():
        try:
            (folder / name).write_bytes(content)
        except OSError as error:
            raise BadInputError(
                f"{folder / name} cannot be written ({error.strerror}); the sweep {result.name} "
                "keeps all that was measured: run the command again with another --out"
            ) from error


def _drawing() -> Callable[[Chart, Literal["svg", "png"]], bytes]:
    """Load what draws, which takes half a second, and keeps its list of fonts in our cache."""
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
