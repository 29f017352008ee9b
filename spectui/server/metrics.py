"""Reads ``GET /metrics`` of llama-server."""

import re
from collections.abc import Mapping

import msgspec

_SAMPLE = re.compile(
    r"^llamacpp:(?P<name>\w+)(?:\{position=\"(?P<position>\d{1,4})\"\})?[ \t]+"
    r"(?P<value>\d{1,18}(?:\.\d{1,18})?(?:e[+-]\d{1,2})?)\s*$",
    re.ASCII | re.MULTILINE,
)
"""A line of Prometheus's exposition format, as llama-server writes it."""


class DraftCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Acceptance of drafts over some requests."""

    n_drafts: int
    """Drafts that the target verified."""
    n_drafted: int
    n_accepted: int
    accepted_per_position: tuple[int, ...] = ()
    """Drafts of which the token at that position was accepted."""

    @property
    def acceptance_rate(self) -> float | None:
        """Accepted / drafted; None when nothing was drafted."""
        return self.n_accepted / self.n_drafted if self.n_drafted else None

    @property
    def mean_accepted_length(self) -> float | None:
        """Tokens per verified draft, the bonus token included; None when there was none."""
        return 1 + self.n_accepted / self.n_drafts if self.n_drafts else None

    def since(self, before: "DraftCounts") -> "DraftCounts":
        """Counts of the requests that ended after ``before``, without positions."""
        return DraftCounts(
            n_drafts=self.n_drafts - before.n_drafts,
            n_drafted=self.n_drafted - before.n_drafted,
            n_accepted=self.n_accepted - before.n_accepted,
        )

    @property
    def share_per_position(self) -> tuple[float, ...]:
        """Accepted at a position / all drafts, those too short to reach it included.

        The server does not count how many drafts reached a position.
        """
        if not self.n_drafts:
            return ()
        return tuple(accepted / self.n_drafts for accepted in self.accepted_per_position)


_AT_ONCE_S = 2e-6
"""More than a request's first token takes: llama-server counts a millionth of a second for it."""


class Counters(msgspec.Struct, frozen=True, kw_only=True):
    """``GET /metrics``: counts since the server was started.

    Requests count when they end, prompts before.
    """

    n_prompt: int
    """Evaluated; what came from the cache is not counted."""
    prompt_s: float
    n_predicted: int
    predicted_s: float
    n_deferred: int
    """Requests that wait for a slot."""
    drafts: DraftCounts | None
    """None of a server that does not count them."""

    @property
    def tokens_per_s(self) -> float | None:
        """Mean rate of generation; None where no request of several tokens has ended."""
        is_known = self.predicted_s > _AT_ONCE_S * self.n_predicted
        return self.n_predicted / self.predicted_s if self.n_predicted and is_known else None

    @property
    def prompt_tokens_per_s(self) -> float | None:
        """Mean rate of evaluated prompts; None where there was none."""
        return self.n_prompt / self.prompt_s if self.n_prompt and self.prompt_s else None


def read_counters(text: str) -> Counters:
    """Read ``/metrics``.

    Raises:
        ValueError: the text lacks what every llama-server counts.
    """
    found = {
        (sample["name"], sample["position"]): float(sample["value"])
        for sample in _SAMPLE.finditer(text)
    }

    def needed(name: str) -> float:
        if (name, None) not in found:
            raise ValueError(f"llamacpp:{name} is missing")
        return found[name, None]

    return Counters(
        n_prompt=round(needed("prompt_tokens_total")),
        prompt_s=needed("prompt_seconds_total"),
        n_predicted=round(needed("tokens_predicted_total")),
        predicted_s=needed("tokens_predicted_seconds_total"),
        n_deferred=round(found.get(("requests_deferred", None), 0)),
        drafts=_drafts(found),
    )


def _drafts(found: Mapping[tuple[str, str | None], float]) -> DraftCounts | None:
    names = ("drafts", "draft_tokens", "accepted_tokens")
    totals = [found.get((f"spec_decode_num_{name}_total", None)) for name in names]
    known = [round(total) for total in totals if total is not None]
    if len(known) < len(totals):
        return None
    n_drafts, n_drafted, n_accepted = known
    accepted = {
        int(position): round(count)
        for (name, position), count in found.items()
        if name == "spec_decode_num_accepted_tokens_per_pos_total" and position is not None
    }
    return DraftCounts(
        n_drafts=n_drafts,
        n_drafted=n_drafted,
        n_accepted=n_accepted,
        accepted_per_position=tuple(
            accepted.get(position, 0) for position in range(max(accepted, default=-1) + 1)
        ),
    )
