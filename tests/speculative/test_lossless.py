"""Which of several outputs that part is told of."""

from dataclasses import replace

from spectui.engine.commands import ProbeMargin
from spectui.engine.events import GenerationResult, PairGenerated
from spectui.measure.lossless import check_lossless
from spectui.measure.measurer import Pair
from tests.support.search import ScriptedMeasurer, items, result


class Silent(ScriptedMeasurer):
    """Does not tell how close a choice was, as a server."""

    n_interruptions = 0
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
