"""Reads ``GET /metrics`` of this year's llama-servers and of older ones."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

_PREFIX = "llamacpp:"
_MOST_POSITIONS = 1024
_TOO_MANY = 1e18
"""Limit that no counter reaches; a value that is no number does not pass it either."""
Metric = tuple[Mapping[str, str], float]
"""Labels and value of one metric. NaN and infinities are values, too."""

_SAMPLE = re.compile(
    r"(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)"
    r"(?:\{(?P<labels>[^{}]*)\})?"
    r"[ \t]+(?P<value>[^ \t]+)"
    r"(?:[ \t]+-?\d+)?[ \t]*"
)
_LABEL = re.compile(r'[ \t]*([a-zA-Z_][a-zA-Z0-9_]*)[ \t]*=[ \t]*"((?:[^"\\]|\\.)*)"[ \t]*(?:,|$)')
_ESCAPED = re.compile(r"\\(.)")
_NAMED = {"n": "\n"}


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftCounts:
    """Acceptance of drafts over some requests."""

    n_drafts: int
    """Drafts that the target verified."""
    n_drafted: int
    n_accepted: int
    accepted_per_position: tuple[int, ...]
    """Drafts of which the token at that position was accepted."""

    def __add__(self, other: "DraftCounts") -> "DraftCounts":
        """Return the sum, over as many positions as the longer one has."""
        return self._with(other, 1)

    def __sub__(self, other: "DraftCounts") -> "DraftCounts":
        """Return the drafts since ``other``."""
        return self._with(other, -1)

    def _with(self, other: "DraftCounts", sign: int) -> "DraftCounts":
        positions = zip_longest(
            self.accepted_per_position, other.accepted_per_position, fillvalue=0
        )
        return DraftCounts(
            n_drafts=self.n_drafts + sign * other.n_drafts,
            n_drafted=self.n_drafted + sign * other.n_drafted,
            n_accepted=self.n_accepted + sign * other.n_accepted,
            accepted_per_position=tuple(one + sign * more for one, more in positions),
        )

    @property
    def acceptance_rate(self) -> float | None:
        """Accepted / drafted; None when nothing was drafted."""
        return self.n_accepted / self.n_drafted if self.n_drafted else None

    @property
    def mean_accepted_length(self) -> float | None:
        """Tokens per verified draft, the bonus token included; None when there was none."""
        return 1 + self.n_accepted / self.n_drafts if self.n_drafts else None

    @property
    def share_per_position(self) -> tuple[float, ...]:
        """Accepted at a position / all drafts, those too short to reach it included.

        The server does not count how many drafts reached a position.
        """
        if not self.n_drafts:
            return ()
        return tuple(accepted / self.n_drafts for accepted in self.accepted_per_position)


NO_DRAFTS = DraftCounts(n_drafts=0, n_drafted=0, n_accepted=0, accepted_per_position=())


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """``GET /metrics``: counts since the server was started.

    Requests count when they end, prompts before.
    """

    n_prompt: int
    """Evaluated; what came from the cache is not counted."""
    prompt_s: float
    n_prompt_cached: int | None
    """None of a server that does not count them."""
    n_predicted: int
    predicted_s: float
    n_processing: int
    n_deferred: int
    """Requests that wait for a slot."""
    drafts: DraftCounts | None
    """None of a server that does not count them."""
    started: str | None
    """Changes when the server is started again."""


def read_counters(text: str, started: str | None) -> Counters:
    """Read ``/metrics``.

    Args:
        text: the reply.
        started: what tells one start of the server from another.

    Raises:
        ValueError: the text is not in Prometheus's format, or lacks what every llama-server counts.
    """
    metrics = parse_metrics(text)

    def one(name: str) -> float | None:
        values = [value for _labels, value in metrics.get(f"{_PREFIX}{name}", ())]
        return next((value for value in values if 0 <= value < _TOO_MANY), None)

    def needed(name: str) -> float:
        value = one(name)
        if value is None:
            raise ValueError(f"{_PREFIX}{name} is missing")
        return value

    cached = one("prompt_tokens_cached_total")
    drafts = tuple(
        one(f"spec_decode_num_{name}_total")
        for name in ("drafts", "draft_tokens", "accepted_tokens")
    )
    per_position = metrics.get(f"{_PREFIX}spec_decode_num_accepted_tokens_per_pos_total", ())
    return Counters(
        n_prompt=round(needed("prompt_tokens_total")),
        prompt_s=needed("prompt_seconds_total"),
        n_prompt_cached=None if cached is None else round(cached),
        n_predicted=round(needed("tokens_predicted_total")),
        predicted_s=needed("tokens_predicted_seconds_total"),
        n_processing=round(one("requests_processing") or 0),
        n_deferred=round(one("requests_deferred") or 0),
        drafts=_drafts(drafts, per_position),
        started=started,
    )


def _drafts(totals: tuple[float | None, ...], per_position: Sequence[Metric]) -> DraftCounts | None:
    known = [round(total) for total in totals if total is not None]
    if len(known) < len(totals):
        return None
    n_drafts, n_drafted, n_accepted = known
    by_position: dict[int, int] = {}
    for labels, value in per_position:
        position = labels.get("position", "")
        if position.isdecimal() and int(position) < _MOST_POSITIONS and 0 <= value < _TOO_MANY:
            by_position[int(position)] = round(value)
    length = max(by_position, default=-1) + 1
    return DraftCounts(
        n_drafts=n_drafts,
        n_drafted=n_drafted,
        n_accepted=n_accepted,
        accepted_per_position=tuple(by_position.get(index, 0) for index in range(length)),
    )


def parse_metrics(text: str) -> dict[str, list[Metric]]:
    """Read Prometheus's exposition format, version 0.0.4.

    Returns:
        The values by name, in the order in which they stand.

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
            metric = _labels(sample["labels"] or ""), float(sample["value"])
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
