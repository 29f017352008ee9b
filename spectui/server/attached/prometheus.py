"""The text that ``/metrics`` answers with: Prometheus's exposition format, version 0.0.4."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

_SAMPLE = re.compile(
    r"(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)"
    r"(?:\{(?P<labels>[^{}]*)\})?"
    r"[ \t]+(?P<value>[^ \t]+)"
    r"(?:[ \t]+-?\d+)?[ \t]*"
)
_LABEL = re.compile(r'[ \t]*([a-zA-Z_][a-zA-Z0-9_]*)[ \t]*=[ \t]*"((?:[^"\\]|\\.)*)"[ \t]*(?:,|$)')
_ESCAPED = re.compile(r"\\(.)")
_NAMED = {"n": "\n"}


@dataclass(frozen=True, slots=True)
class Metric:
    """One value of a metric."""

    labels: Mapping[str, str]
    value: float
    """NaN and infinities are values, too."""


def parse_metrics(text: str) -> dict[str, list[Metric]]:
    """Return the values by name, in the order in which they stand.

    Raises:
        ValueError: a line is neither a comment nor a sample; it says which.
    """
    found: dict[str, list[Metric]] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        sample = _SAMPLE.fullmatch(stripped)
        if sample is None:
            raise ValueError(f"line {number} is no sample: {stripped[:60]!r}")
        try:
            metric = Metric(_labels(sample["labels"] or ""), float(sample["value"]))
        except ValueError as error:
            raise ValueError(f"line {number} is no sample: {stripped[:60]!r}") from error
        found.setdefault(sample["name"], []).append(metric)
    return found


def _labels(text: str) -> dict[str, str]:
    labels: dict[str, str] = {}
    at = 0
    while at < len(text):
        label = _LABEL.match(text, at)
        if label is None:
            raise ValueError(f"no label at {text[at:]!r}")
        labels[label[1]] = _ESCAPED.sub(lambda match: _NAMED.get(match[1], match[1]), label[2])
        at = label.end()
    return labels
