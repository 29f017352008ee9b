"""The numbers of one setting, large."""

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import Digits, Static

from spectui.trace.replay import Total
from spectui.tui import units
from spectui.tui.glyphs import ASCII, Glyphs, glyphs_of

_NAMES = ("tokens/s", "of off", "acceptance", "tokens/round")
"""What stands under each."""


class BigNumber(Vertical):
    """A number with its name under it; bold where there are no large digits.

    There are none in ASCII. In Unicode the style of a screen chooses between both.
    """

    DEFAULT_CSS = """
    BigNumber {
        width: 1fr; height: auto;
        & Digits { width: auto; color: $text-primary; }
        & .plain { text-style: bold; }
        &.-digits .plain { display: none; }
        & .name { color: $text-muted; }
    }
    """

    def __init__(self, name: str) -> None:
        """Nothing is known yet."""
        super().__init__()
        self._label = name

    def compose(self) -> ComposeResult:
        """The number, then its name."""
        if glyphs_of(self) is not ASCII:
            self.add_class("-digits")
            yield Digits()
        yield Static(classes="plain", markup=False)
        yield Static(self._label, classes="name", markup=False)

    def show(self, number: str) -> None:
        """Show ``number``, which has characters that large digits have."""
        self.query_one(".plain", Static).update(number)
        for digits in self.query(Digits):
            digits.update(number)


class Numbers(Horizontal):
    """Throughput, speedup, acceptance rate and mean accepted length; below, the counts."""

    DEFAULT_CSS = "Numbers { height: auto; }"

    def compose(self) -> ComposeResult:
        """One after the other."""
        for name in _NAMES:
            yield BigNumber(name)

    def show(self, total: Total | None) -> None:
        """Show what a setting would do; None while that is being worked out."""
        glyphs = glyphs_of(self)
        texts = ("-",) * len(_NAMES) if total is None else _texts(total, glyphs)
        for number, text in zip(self.query(BigNumber), texts, strict=True):
            number.show(text)


def _texts(total: Total, glyphs: Glyphs) -> tuple[str, ...]:
    speed = "-" if total.tokens_per_s is None else units.tokens_per_s(total.tokens_per_s, glyphs)
    factor = "-" if total.speedup is None else f"{total.speedup:.2f}x"
    rate = "-" if total.acceptance_rate is None else f"{100 * total.acceptance_rate:.0f}%"
    length = "-" if total.tokens_per_round is None else f"{total.tokens_per_round:.2f}"
    return speed.removesuffix(" tokens/s"), factor, rate, length
