"""Which of several outputs that part is told of."""

from dataclasses import replace

from spectui.engine.commands import ProbeMargin
from spectui.engine.events import GenerationResult, PairGenerated, Segment
from spectui.measure.lossless import LosslessCheck, check_lossless, lossless_document
from spectui.measure.measurer import Pair
from spectui.speculative.counters import Counters, Detail
from tests.support.search import ScriptedMeasurer, items, result


class Silent(ScriptedMeasurer):
    """Does not tell how close a choice was, as a server."""

    waited_s = 0.0

    def generate(self, _command: object) -> GenerationResult:
        raise NotImplementedError

    def generate_pair(self, _command: object) -> PairGenerated:
        raise NotImplementedError

    def probe_margin(self, _command: ProbeMargin) -> None:
        return None


def test_the_first_prompt_that_parts_is_named_and_all_are_counted() -> None:
    same, other = result(10.0), replace(result(10.0), tokens=(7,))
    pairs = [
        Pair(item=item, baseline=same, speculative=other if item.id >= "p3" else same)
        for item in (*items(8), *items(8))
    ]
    found = check_lossless(Silent(gain=1.0), pairs)
    assert found.divergence is not None
    assert (found.divergence.prompt_id, found.n_different) == ("p3", 5)


def test_what_speculation_wrote_for_the_target_is_not_compared() -> None:
    """In a race the target decodes a share of each answer; the others are told as its own."""
    whole = result(10.0, n_tokens=33)
    share = replace(whole, counters=replace(whole.counters, n_rounds=8))
    segment = Segment(baseline_s=(0.1,) * 8, rounds=())
    (item,) = items(1)
    in_race = Pair(item=item, baseline=share, speculative=whole, segments=(segment,))
    apart = Pair(item=item, baseline=whole, speculative=whole)
    for pairs, n_compared in (([in_race] * 3, 24), ([apart], 32), ([in_race, apart], 40)):
        document = lossless_document(check_lossless(Silent(gain=1.0), pairs))
        assert document == {"lossless": True, "n_compared": n_compared, "divergence": None}


def test_what_is_compared_without_rounds_without_a_check_and_in_an_old_one() -> None:
    # A server that tells no rounds is counted by its tokens.
    totals = replace(result(10.0, n_tokens=33), counters=Counters(detail=Detail.TOTALS))
    (item,) = items(1)
    pairs = [Pair(item=item, baseline=totals, speculative=replace(totals, tokens=(1,)))]
    document = lossless_document(check_lossless(Silent(gain=1.0), pairs))
    assert (document["lossless"], document["n_compared"]) == (None, 32)
    assert lossless_document(None)["n_compared"] == 0
    old = lossless_document(LosslessCheck(divergence=None))
    assert old["n_compared"] is None
    assert "older" in old["n_compared_reason"]
