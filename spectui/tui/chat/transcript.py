"""The transcript: every token shows whether the draft or the target produced it."""

import codecs
from collections.abc import Iterable, Sequence
from typing import ClassVar, Literal

from rich.segment import Segment
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.geometry import Spacing
from textual.reactive import reactive
from textual.selection import Selection
from textual.strip import Strip
from textual.visual import Padding, Visual
from textual.widget import Widget
from textual.widgets import Static

from spectui.display import displayed, shown

Role = Literal["user", "assistant", "notice"]
"""The speaker; a notice is a message of spectui itself."""
Kind = Literal["user", "target", "draft", "rejected", "notice", "note"]
"""Author of some text."""
Token = tuple[bytes, bool]
"""Bytes of an answer's token, not always whole characters, and whether the draft proposed it."""

_STYLES: dict[Kind, str] = {
    "user": "bold",
    "target": "",
    "draft": "$draft underline",
    "rejected": "$rejected strike",
    "notice": "$caution",
    "note": "dim",
}
_KINDS: dict[Role, Kind] = {"user": "user", "assistant": "target", "notice": "notice"}
_MARKS: dict[Role, str] = {"user": "> ", "assistant": "• ", "notice": "▲ "}
_MARGIN = 2
"""Cells of a mark."""
_OPEN, _CLOSE = "⟨⟩"
"""Around a rejected draft inside the text."""
_LONG = 1_000
"""Characters of a paragraph from which on the next line begins another: text that arrives wraps
the last one anew."""
_LONGEST = 4 * _LONG
"""Characters of a paragraph that ends even inside a line."""
_utf8_decoder = codecs.getincrementaldecoder("utf-8")


class Paragraph(Widget):
    """Some lines of one turn; the first one of a turn has the speaker's mark in the margin."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"paragraph--mark"}

    show_rejected: reactive[bool] = reactive(False, layout=True)

    def __init__(self, mark: str = "", *, show_rejected: bool, classes: str = "") -> None:
        """Begin without text."""
        super().__init__(classes=classes)
        self.set_reactive(Paragraph.show_rejected, show_rejected)
        self._mark = mark
        self._parts: list[tuple[str, Kind]] = []
        self._n_chars = 0

    @property
    def is_empty(self) -> bool:
        """Whether there is no text yet."""
        return not self._parts

    @property
    def is_full(self) -> bool:
        """Whether the next text begins another paragraph."""
        ends_line = bool(self._parts) and self._parts[-1][0].endswith("\n")
        return self._n_chars >= (_LONG if ends_line else _LONGEST)

    def add(self, text: str, kind: Kind) -> None:
        """Add text at the end."""
        self._n_chars += len(text)
        if self._parts and self._parts[-1][1] == kind:
            text = self._parts.pop()[0] + text
        self._parts.append((text, kind))

    def fit(self) -> None:
        """Show what was added; the screen is laid out anew only where that takes another line."""
        size = self.content_size
        is_known = size.width > 0
        height = self.render().get_height(self.styles.get_rules(), size.width) if is_known else 0
        self.refresh(layout=height != size.height or not is_known)

    @property
    def text(self) -> Content:
        """All parts; a line's end at the end begins no other line."""
        parts = [one for one in self._parts if self.show_rejected or one[1] != "rejected"]
        if parts:
            parts[-1] = parts[-1][0].removesuffix("\n"), parts[-1][1]
        return Content.assemble(*((text, _STYLES[kind]) for text, kind in parts))

    def render(self) -> Visual:
        """The text beside its margin."""
        return Padding(self.text, Spacing(left=_MARGIN))

    def render_line(self, y: int) -> Strip:
        """Put the mark into the margin of the first line."""
        strip = super().render_line(y)
        if y or not self._mark:
            return strip
        mark = Segment(self._mark, self.get_component_rich_style("paragraph--mark"))
        return Strip.join([Strip([mark]), strip.crop(_MARGIN)])

    def get_selection(self, selection: Selection) -> tuple[str, str]:
        """Return what is selected, without the margin."""
        return selection.extract(self.text.plain), "\n"


class Transcript(VerticalScroll):
    """The conversation, each token in the style of its author.

    Turns stand one after the other, the last one open until it is ended. The view follows the end
    while that is visible. The text is kept as it came, and shown with controls made visible and
    tabs as spaces.
    """

    show_rejected: reactive[bool] = reactive(False, init=False, repaint=False)
    """Whether draft tokens that the target refused are shown, where it refused them."""

    def __init__(self, *, placeholder: str = "") -> None:
        """Create an empty transcript, with a text that stands in it while it is empty."""
        super().__init__()
        self._placeholder = Static(placeholder, markup=False, id="placeholder")
        # As high as the view at least: Textual would put less than that at the view's end.
        self._turns = Vertical(self._placeholder, id="turns")
        self._begin()

    def _begin(self) -> None:
        self.paragraphs: list[Paragraph] = []
        self._said: list[tuple[Role, list[str]]] = []
        self._is_open = False
        self._placeholder.display = True

    def compose(self) -> ComposeResult:
        """Begin with the placeholder."""
        yield self._turns

    def on_mount(self) -> None:
        """Show earlier turns, and follow the end."""
        self._turns.mount_all(self.paragraphs)
        self.anchor()

    def clear(self) -> None:
        """Forget all turns."""
        if self.is_mounted:
            self._turns.remove_children(Paragraph)
            self.anchor()
        self._begin()

    def watch_show_rejected(self) -> None:
        """Show or hide rejected tokens."""
        for paragraph in self.paragraphs:
            paragraph.show_rejected = self.show_rejected

    def start_turn(self, role: Role) -> None:
        """End the open turn, if any, and start the next one."""
        self.end_turn("")
        self._begin_paragraph(_MARKS[role], "-next" if self._said else "")
        self._said.append((role, []))
        self._placeholder.display = False
        self._decoder = _utf8_decoder("replace")
        self._kind = _KINDS[role]
        self._is_open = True

    def _begin_paragraph(self, mark: str = "", classes: str = "") -> None:
        if self.paragraphs:
            self.paragraphs[-1].fit()
        paragraph = Paragraph(mark, show_rejected=self.show_rejected, classes=classes)
        self.paragraphs.append(paragraph)
        # An answer may go on while the screen is taken down.
        if self.is_mounted and self._turns.is_attached:
            self._turns.mount(paragraph)

    def append_text(self, text: str) -> None:
        """Add whole text to the open turn."""
        self._say(text, self._kind)
        self.paragraphs[-1].fit()

    def append_tokens(self, tokens: Iterable[Token]) -> None:
        """Add tokens to the open turn; with none open, to a new answer."""
        if not self._is_open:
            self.start_turn("assistant")
        for piece, from_draft in tokens:
            self._kind = "draft" if from_draft else "target"
            self._say(self._decoder.decode(piece), self._kind)
        self.paragraphs[-1].fit()

    def append_rejected(self, pieces: Sequence[bytes]) -> None:
        """Add the draft tokens that the target refused at this point of the open answer."""
        # They continue the text, so also a character that the last token left unfinished.
        unfinished, _ = self._decoder.getstate()
        refused = displayed((unfinished + b"".join(pieces)).decode("utf-8", "replace"))
        # They stay in the line, whatever they hold.
        one_line = refused.replace("\n", shown("\n"))
        self.paragraphs[-1].add(f"{_OPEN}{one_line}{_CLOSE}", "rejected")
        self.paragraphs[-1].fit()

    def end_turn(self, note: str) -> None:
        """End the open turn, with a note below it unless that is empty; else do nothing."""
        if not self._is_open:
            return
        self._say(self._decoder.decode(b"", final=True), self._kind)
        self._is_open = False
        last = self.paragraphs[-1]
        if note:
            if not last.is_empty:
                self._begin_paragraph()
            self._show(displayed(note), "note")
        elif last.is_empty:
            # An answer that failed before its first token.
            last.display = False
        self.paragraphs[-1].fit()

    def _say(self, text: str, kind: Kind) -> None:
        self._said[-1][1].append(text)
        self._show(displayed(text), kind)

    def _show(self, text: str, kind: Kind) -> None:
        for line in text.splitlines(keepends=True):
            if self.paragraphs[-1].is_full:
                self._begin_paragraph()
            self.paragraphs[-1].add(line, kind)

    @property
    def last_answer(self) -> str:
        """The assistant's last turn; empty if it has had none."""
        answers = ("".join(parts) for role, parts in reversed(self._said) if role == "assistant")
        return next(answers, "")
