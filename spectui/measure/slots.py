"""A setting by the number of slots: whether speculation pays with more users than one."""

from collections.abc import Sequence
from dataclasses import dataclass

from spectui.documents import Json, or_reason
from spectui.engine.events import GenerationResult
from spectui.format import counted, speedup_percent
from spectui.measure.comparison import Comparison
from spectui.measure.measurer import Pair
from spectui.measure.verdict import Answer, Basis, judge

_NOTHING = "nothing was decoded"
_MIN_GAIN = 0.02
_WORDS = {
    Answer.USE: "use it",
    Answer.OFF: "turn it off",
    Answer.NO_DIFFERENCE: "no difference worth having",
    Answer.UNDECIDED: "not decided",
}
_REFUSALS = frozenset({Answer.OFF, Answer.NO_DIFFERENCE})


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotResult:
    """A comparison with as many requests in flight as there are slots."""

    n_slots: int
    found: Comparison
    min_gain: float = _MIN_GAIN
    """Least gain with which speculation is worth it."""
    basis: Basis | None = None
    """Text that the setting was judged on; None where it was not chosen."""

    @property
    def all_tokens_per_s(self) -> tuple[float | None, float | None]:
        """Tokens/s of all streams together without and with speculation, prompts included.

        By Little's law: the requests in flight over the mean time of one, times the mean tokens.
        """
        pairs = self.found.pairs
        off = [(one.baseline, request_s(one)[0]) for one in pairs]
        on = [(one.speculative, request_s(one)[1]) for one in pairs]
        return self._together(off), self._together(on)

    def _together(self, requests: Sequence[tuple[GenerationResult, float]]) -> float | None:
        n_tokens = sum(len(one.tokens) for one, _took_s in requests)
        total_s = sum(took_s for _one, took_s in requests)
        return self.n_slots * n_tokens / total_s if total_s else None

    @property
    def answer(self) -> Answer:
        """Whether speculation pays with so many slots."""
        if self.found.speedup is None:
            return Answer.UNDECIDED
        verdict = judge(self.found.speedup, min_gain=self.min_gain, basis=self.basis)
        return verdict.answer or Answer.UNDECIDED

    @property
    def clause(self) -> str:
        """The gain and the answer."""
        if self.found.speedup is None:
            return f"with {counted(self.n_slots, 'slot')} nothing was measured"
        gain = speedup_percent(self.found.speedup.capped.estimate)
        return f"with {counted(self.n_slots, 'slot')} {gain}, {_WORDS[self.answer]}"

    def document(self) -> Json:
        """An entry of ``slots``: the comparison, with the tokens/s of all streams together."""
        off, on = self.all_tokens_per_s
        return {
            "n_slots": self.n_slots,
            "answer": str(self.answer),
            **or_reason("off_each_tokens_per_s", self.found.baseline_tokens_per_s, _NOTHING),
            **or_reason("off_all_tokens_per_s", off, _NOTHING),
            **or_reason("on_each_tokens_per_s", self.found.speculative_tokens_per_s, _NOTHING),
            **or_reason("on_all_tokens_per_s", on, _NOTHING),
            **self.found.document(),
        }


def request_s(pair: Pair) -> tuple[float, float]:
    """Seconds of the whole requests without and with speculation.

    A prompt that was measured alone, with one slot or in the race of a search, did not wait.
    """
    if pair.whole_s is not None:
        return pair.whole_s
    off, on = pair.baseline, pair.speculative
    return off.prompt_s + off.decode_s, on.prompt_s + on.decode_s


def turns(results: Sequence[SlotResult]) -> bool:
    """Whether speculation pays with some numbers of slots, and is not worth it with others."""
    answers = {one.answer for one in results}
    return Answer.USE in answers and not answers.isdisjoint(_REFUSALS)


def by_slots(results: Sequence[SlotResult]) -> str:
    """The answers by the number of slots, in a sentence."""
    told = "; ".join(one.clause for one in results)
    if turns(results):
        return f"The verdict turns: {told}."
    answers = {one.answer for one in results}
    if len(results) > 1 and len(answers) == 1 and Answer.UNDECIDED not in answers:
        return f"The verdict is the same with any of these: {told}."
    return f"{told[:1].upper()}{told[1:]}."


def slots_document(results: Sequence[SlotResult]) -> Json:
    """``slots`` and what follows from them, in documents."""
    return {
        "slots": [one.document() for one in results],
        "slots_verdict": by_slots(results),
        "verdict_turns": turns(results),
    }
