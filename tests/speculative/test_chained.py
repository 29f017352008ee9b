"""Several drafters in a row: the first that proposes anything is taken, and all follow the text."""

from collections.abc import Sequence

from spectui.speculative.drafters import ChainedDrafter, Draft


class Said:
    """A drafter that proposes what it is given, and notes what it is told."""

    def __init__(self, *drafts: tuple[int, ...]) -> None:
        self._drafts = list(drafts)
        self.heard: list[object] = []

    def begin(self, prompt: Sequence[int]) -> None:
        self.heard.append(("begin", tuple(prompt)))

    def draft(self, last: int, n_max: int) -> Draft:
        self.heard.append(("draft", last, n_max))
        return Draft(tokens=self._drafts.pop(0)[:n_max])

    def verified(self, batch: Sequence[int]) -> None:
        self.heard.append(("verified", tuple(batch)))

    def taken_back(self, n_accepted: int) -> None:
        self.heard.append(("taken_back", n_accepted))

    def judged(self, n_accepted: int) -> None:
        self.heard.append(("judged", n_accepted))

    def accept(self, n_accepted: int) -> None:
        self.heard.append(("accept", n_accepted))


def test_the_first_that_proposes_is_taken_and_judged_and_all_follow() -> None:
    one, two, three = Said((), (4,)), Said((7, 8)), Said()
    chained = ChainedDrafter((one, two, three))
    chained.begin((1, 2))
    assert chained.draft(3, 9).tokens == (7, 8)
    chained.verified((3, 7, 8))
    chained.judged(1)
    chained.accept(1)
    assert chained.draft(5, 2).tokens == (4,)
    begun, kept = ("begin", (1, 2)), [("verified", (3, 7, 8)), ("accept", 1)]
    assert one.heard == [begun, ("draft", 3, 9), *kept, ("draft", 5, 2)]
    assert two.heard == [begun, ("draft", 3, 9), kept[0], ("judged", 1), kept[1]]
    assert three.heard == [begun, *kept]
