"""The page of all measurements, ``docs/benchmarks.md``, from ``results/`` as ``page.yaml`` says.

Numbers, machine, date and command of each row come from a file of results, and from nowhere else.
"""

import json
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml
from jinja2 import Environment, StrictUndefined

from spectui.format import bytes_text, counted, duration_text, gain_percent

HERE = Path(__file__).parent
RESULTS = HERE / "results"
_HEADER = ("what", "result", "script", "machine", "date")
_NO_GPU = "–"
_SIMULATED = "simulated"
ESTIMATOR_SINCE, _OLD_ESTIMATOR = "2026-11-23", " ¹"
"""The day of the present estimator, and the mark of what was measured with another one."""
ANSWERS = {
    "use": "use it",
    "off": "turn it off",
    "no-difference": "no difference",
    "undecided": "not decided",
}
"""Words for the answers of verdicts."""


def _percent(share: float | None, digits: int = 0) -> str:
    return "–" if share is None else f"{100 * share:.{digits}f} %"


def page() -> str:
    """The whole page as Markdown."""
    described = _description()
    results = {name: _read_results(name) for name in sorted(used_results())}
    machines = _letters(results)
    parts = [described["introduction"], _machines(machines, results)]
    parts += [_group(group, results, machines) for group in described["groups"]]
    return "\n".join([*parts, described["closing"]])


def used_results() -> set[str]:
    """Names of the results that have a row."""
    return {row["from"] for group in _description()["groups"] for row in group["rows"]}


def _description() -> dict[str, Any]:
    """What page.yaml says, without rows of what was not measured yet where that is allowed."""
    described: dict[str, Any] = yaml.safe_load((HERE / "page.yaml").read_text("utf-8"))
    for group in described["groups"]:
        if group.get("where_measured", False):
            group["rows"] = [r for r in group["rows"] if (RESULTS / f"{r['from']}.json").exists()]
    described["groups"] = [group for group in described["groups"] if group["rows"]]
    return described


def _read_results(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text("utf-8"))
    return found


def _group(
    group: Mapping[str, Any], results: Mapping[str, dict[str, Any]], machines: Mapping[str, str]
) -> str:
    templates = _templates()
    lines = []
    for row in group["rows"]:
        found = results[row["from"]]
        what, result = (templates.from_string(row[key]).render(found) for key in _HEADER[:2])
        letter = machines.get(_machine(found), _SIMULATED)
        is_old = row.get("by_estimator", False) and found["date"] < ESTIMATOR_SINCE
        date = found["date"] + _OLD_ESTIMATOR * is_old
        cells = (what, result, f"`{_command(row['from'], found)}`", letter, date)
        lines.append(_line(" ".join(cell.split()) for cell in cells))
    return "\n".join([f"## {group['title']}\n", f"{group['text']}\n", *_table(_HEADER, lines)])


def _templates() -> Environment:
    # A key that a script no longer writes must fail, not leave a hole.
    templates = Environment(undefined=StrictUndefined, autoescape=False)  # noqa: S701 - no HTML
    templates.filters |= {
        "n": lambda number: f"{number:,}",
        "at": lambda mapping, key: mapping[key],
        "dec": _decimals,
        "span": lambda numbers, digits=0: _span([*numbers], digits),
        "percent": _percent,
        "gain": lambda speedup, digits=0: gain_percent(100 * (speedup - 1), digits),
        "change": _change,
        "verdict": _verdict,
        "bytes": bytes_text,
        "duration": duration_text,
        "counted": counted,
    }
    return templates


def _decimals(number: float, digits: int = 0) -> str:
    return f"{number:.{digits}f}"


def _span(numbers: list[float], digits: int) -> str:
    ends = dict.fromkeys(_decimals(end, digits) for end in (min(numbers), max(numbers)))
    return " to ".join(ends)


def _verdict(run: Mapping[str, Any]) -> str:
    """A verdict of ``tune`` with the gain and its interval."""
    answer = ANSWERS[run["verdict"]["answer"]]
    speedups = (run["best"]["speedup"], *run["best"]["speedup_ci95"])
    gain, low, high = (gain_percent(100 * (speedup - 1), 0) for speedup in speedups)
    return f"{answer}: {gain} ({low.removesuffix(' %')} to {high.removesuffix(' %')})"


def _change(cost: Mapping[str, float], digits: int) -> str:
    """A median change with its interval, both in per cent."""
    change, low, high = (
        gain_percent(100 * cost[key], digits) for key in ("median", "median_low", "median_high")
    )
    return f"{change} ({low.removesuffix(' %')} to {high.removesuffix(' %')})"


def _command(name: str, found: Mapping[str, Any]) -> str:
    """How the script was run, without what all of them share."""
    words = shlex.split(found.get("command", f"python -m benchmarks.{name}"))
    return shlex.join([words[2].removeprefix("benchmarks."), *words[3:]])


def _machine(found: Mapping[str, Any]) -> str:
    """The cells of a machine; empty for a simulation, which depends on none."""
    machine = found.get("machine")
    if machine is None:
        return ""
    gpus = ", ".join(machine["gpus"]) or _NO_GPU
    return _line((machine["cpu"], machine["n_cores"], bytes_text(machine["memory_bytes"]), gpus))


def _letters(results: Mapping[str, dict[str, Any]]) -> dict[str, str]:
    """A letter for each machine."""
    machines = dict.fromkeys(filter(None, map(_machine, results.values())))
    return {machine: chr(ord("A") + index) for index, machine in enumerate(machines)}


def _machines(letters: Mapping[str, str], results: Mapping[str, dict[str, Any]]) -> str:
    bindings = sorted({f["llama_cpp_python"] for f in results.values() if "machine" in f})
    lines = [f"| {letter} {machine}" for machine, letter in letters.items()]
    table = _table(("machine", "processor", "cores", "memory", "GPU"), lines)
    return "\n".join([*table, f"With llama-cpp-python {', '.join(bindings)}.\n"])


def _table(header: Iterable[object], lines: Iterable[str]) -> list[str]:
    titles = [*header]
    return [_line(titles), _line(["---"] * len(titles)), *lines, ""]


def _line(cells: Iterable[object]) -> str:
    return f"| {' | '.join(str(cell).replace('|', chr(92) + '|') for cell in cells)} |"
