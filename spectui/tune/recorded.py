"""Recorded answers with the prices of rounds; every setting replayed on them, a page of that."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from spectui.documents import Json, Known, fields_of, head
from spectui.format import counted, percent_text, times_text
from spectui.measure.arm import OFF, Arm
from spectui.page import Page, Paragraph, Table, Words
from spectui.trace.costs import Costs
from spectui.trace.ngrams import NGRAM_COSTS, hashes_tokens, ngram_costs, replay_settings
from spectui.trace.policies import replay_policies
from spectui.trace.probabilistic import NOT_SAMPLED, Sampled, best_sampled
from spectui.trace.record import Recording, Trace
from spectui.trace.replay import Total, off_part_seconds, replay_trace
from spectui.tune.forecast import UNKNOWN, Adaptive, Answers, Forecast, Outlook, best_of_each_length
from spectui.tune.space import SearchSpace

_CHAINED = 8
"""Settings of a draft model, the best of so many lengths, that are replayed behind n-gram drafters:
each of these walks along the text in Python, where the grid walks all settings together."""
_CHAIN_GAIN = 1.02
"""Forecast gain that a drafter ahead must add. Most texts give it nothing to propose."""
_NOTHING = 1e-6
"""Gain that is a rounding error of settings that draft nothing."""
_NO_COSTS = "the trace holds no costs: they were left out, or nothing was drafted to measure"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """Exact counts and measured prices of a search space."""

    recordings: Sequence[Recording] = ()
    costs: Mapping[str, Costs]
    """Costs of rounds by draft; without one, under ``NGRAM_COSTS``."""
    space: SearchSpace
    """Settings to replay."""
    has_text: bool = True
    """Whether tokens are those of the vocabulary; otherwise n-gram drafters that hash them cannot
    be replayed."""

    @classmethod
    def of(cls, trace: Trace, space: SearchSpace) -> Self:
        """A trace, of which the settings of a space are replayed."""
        recordings, has_text = trace.recordings, trace.has_text
        return cls(recordings=recordings, costs=trace.costs, space=space, has_text=has_text)

    def outlook(self) -> Outlook:
        """Forecasts of the whole space."""
        found = self.forecasts(self.totals())
        return Outlook(
            forecasts=found,
            costs=self.costs,
            adaptive=self.adaptive(found),
            sampled=self._sampled(),
        )

    def forecasts(self, totals: Iterable[Total]) -> tuple[Forecast, ...]:
        """Forecasts of the replayed settings that have a price, best first."""
        found = filter(None, map(self.forecast, totals))
        return tuple(sorted(found, key=lambda one: -one.speedup))

    def totals(self) -> Iterator[Total]:
        """Replay every setting of the space.

        Settings that draft the same on all recordings each have a total.
        """
        if not self.recordings:
            return
        for draft in self.space.drafts:
            if all(draft in one.chains for one in self.recordings):
                yield from self._of_draft(draft)
        settings = [one for one in self.space.ngrams() if self.has_text or not hashes_tokens(one)]
        yield from replay_settings(self.recordings, settings, ngram_costs(self.costs))

    def _of_draft(self, draft: str) -> Iterator[Total]:
        """Settings of a draft model; the best also with each n-gram drafter ahead that gains."""
        costs = self.costs.get(draft)
        totals = replay_trace(self.recordings, draft, self.space.grid(draft), costs)
        alone = [total for total in totals if total.model.check() is None]
        yield from alone
        ahead = [one for one in self.space.ahead() if self.has_text or not one.hashes_tokens]
        for one in best_of_each_length(self.forecasts(alone))[:_CHAINED]:
            own = one.arm.speculation
            settings = [] if own is None else [own.after((drafter,)) for drafter in ahead]
            for total in replay_settings(self.recordings, settings, costs, draft=draft):
                found = self.forecast(total)
                if found is not None and found.speedup > _CHAIN_GAIN * one.speedup:
                    yield total

    def replay(self, arm: Arm) -> Forecast | None:
        """The forecast of one arm; None where recordings and costs do not cover it."""
        speculation, draft = arm.speculation, arm.draft
        if speculation is None or not self.recordings:
            return None
        model = speculation.model
        # Longer than the recorded chains, and than drafts with known costs.
        is_beyond = speculation.longest > self.space.depth
        is_below = model is not None and 0 < model.draft_p_min < self.space.floor
        if is_beyond or is_below or (hashes_tokens(speculation) and not self.has_text):
            return None
        own = ngram_costs(self.costs) if draft is None else self.costs.get(draft)
        if own is None:
            return None
        (total,) = replay_settings(self.recordings, (speculation,), own, draft=draft)
        return self.forecast(total)

    def forecast(self, total: Total) -> Forecast | None:
        """The forecast that a replay gives, over the target alone as the costs of off price it.

        None where the round, or the target alone, has no price.
        """
        costs = self._off_costs(total.draft)
        if costs is None or total.seconds is None:
            return None
        off_s = off_part_seconds(self.recordings, total.parts.tokens, costs)
        return Forecast(
            arm=self.space.placed(Arm(draft=total.draft, speculation=total.speculation)),
            speedup=float(off_s.sum() / total.seconds) if total.seconds else 0.0,
            n_drafted=total.n_drafted,
            n_accepted=total.n_accepted,
            answers=Answers(*total.parts, off_s),
        )

    def hopeless(self, draft: str) -> str | None:
        """Why a draft cannot win: even if it took no time, another one or off would be faster.

        Verifying costs the target the same whoever has drafted, so a few recordings give this bound
        before any round with the draft was timed. The draft of the user's own command always has a
        chance.

        Args:
            draft: without costs of its own; ``costs`` are those of other drafts.
        """
        present = self.space.present
        if present is not None and present.draft == draft:
            return None
        gains = {one: self._best(one, costs) for one, costs in self.costs.items()}
        rival = max(gains, key=gains.__getitem__)
        bound = self._best(draft, self.costs[rival].without_draft())
        on = f"on {counted(len(self.recordings), 'prompt')}"
        if bound <= 1 + _NOTHING:
            return f"{on} it would gain nothing even if it took no time"
        if bound >= gains[rival]:
            return None
        return (
            f"{on} it would give {times_text(bound)} if it took no time, and {rival} gives "
            f"{times_text(gains[rival])}"
        )

    def _best(self, draft: str, costs: Costs) -> float:
        """The most that a setting of a draft model gains over off at these costs."""
        totals = replay_trace(self.recordings, draft, self.space.grid(draft), costs)
        return max(one.speedup or 0.0 for one in totals)

    def _off_costs(self, draft: str | None) -> Costs | None:
        """Costs of off, from the placement of the target without a draft.

        None where nothing was measured there.
        """
        if draft is None:
            return ngram_costs(self.costs)
        layouts = self.space.layouts
        is_moved = layouts is not None and layouts.of(draft) != layouts.alone
        return self.costs.get(NGRAM_COSTS if is_moved else draft)

    def adaptive(self, ordered: Sequence[Forecast]) -> Known[Adaptive]:
        """Rules of draft length beside the best forecast of a draft model that drafts alone."""
        for one in ordered:
            arm, speculation = one.arm, one.arm.speculation
            own = None if speculation is None or speculation.ahead else speculation.model
            if arm.draft is None or own is None:
                continue
            on_s, off_s = float(one.answers.on_s.sum()), float(one.answers.off_s.sum())
            costs = self.costs[arm.draft]
            return Known(
                Adaptive(
                    draft=arm.draft,
                    fixed=arm if on_s <= off_s else OFF,
                    fixed_s=min(on_s, off_s),
                    policies=replay_policies(self.recordings, arm.draft, costs, own),
                )
            )
        return UNKNOWN

    def _sampled(self) -> Known[Sampled]:
        """The best forecast of drafts whose tokens are sampled, of all draft models."""
        found = [
            best_sampled(self.recordings, draft, costs, off)
            for draft, costs in self.costs.items()
            if draft in self.space.drafts and (off := self._off_costs(draft)) is not None
        ]
        known = [one for one in found if one is not None]
        return Known(max(known, key=lambda one: one.speedup)) if known else NOT_SAMPLED


def replayed_document(totals: Sequence[Total], path: Path) -> Json:
    """``spectui.replay/1``: every setting; ``path`` is the trace's."""
    return {**head("replay"), "trace": str(path), "configs": [_config(total) for total in totals]}


def replayed_page(recorded: Recorded, totals: Sequence[Total]) -> Page:
    """The best setting of each drafter and length, and what an adaptive length could add."""
    n_prompts = counted(len(recorded.recordings), "prompt")
    counts = f"{counted(len(totals), 'setting')} replayed on {n_prompts}; counts are exact"
    forecasts = recorded.forecasts(totals)
    best = best_of_each_length(forecasts)
    if not best:
        why = "nothing was drafted on these prompts" if forecasts else _NO_COSTS
        return [Paragraph(f"{counts}: --json has them. No speedup is predicted: {why}.")]
    lines = [f"{counts}, and --json has all.", _prediction(best[0])]
    adaptive = recorded.adaptive(forecasts).value
    if adaptive is not None and adaptive.draft == best[0].arm.draft:
        lines.append(adaptive.sentence)
    return [forecasts_table(best), "", *map(Paragraph, lines)]


def _config(total: Total) -> Json:
    return {
        "draft": total.draft,
        **total.speculation.document(),
        **fields_of(total, "", "n_rounds", "n_drafted", "n_accepted", "n_rejections"),
        **fields_of(total, "nothing was drafted", "acceptance_rate"),
        **fields_of(total, "no round was run", "mean_accepted_length"),
        **fields_of(total, _NO_COSTS, "tokens_per_s", "speedup"),
    }


def forecasts_table(best: Sequence[Forecast]) -> Table:
    """Forecasts with their counts."""
    rows = (
        (
            one.arm.drafter,
            one.arm.label.removeprefix(f"{one.arm.drafter}: "),
            str(one.n_drafted),
            str(one.n_accepted),
            percent_text(one.acceptance_rate),
            times_text(one.speedup),
        )
        for one in best
    )
    columns = (Words("drafter"), Words("best setting"), "drafted", "accepted", "rate", "forecast")
    return Table(columns, list(rows))


def _prediction(best: Forecast) -> str:
    gain = f"{times_text(best.speedup)} the target alone"
    if best.speedup > 1:
        return f"Predicted best: {best.arm.label}, {gain}; spectui tune measures it."
    return f"Predicted best: off. The nearest is {best.arm.label}, {gain}."
