"""Asks for a path and writes a text there; never over a file that the user did not mean."""

from dataclasses import dataclass
from pathlib import Path

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.message import Message
from textual.widgets import Input, Label

from spectui.tui.glyphs import glyphs_of
from spectui.tui.tune.words import own
from spectui.writing import write_file, write_new_file


class SaveBar(Vertical):
    """Hidden until it asks."""

    DEFAULT_CSS = """
    SaveBar {
        height: auto; display: none; padding: 0 1;
        & Label { width: 100%; height: auto; }
        & #answer { color: $warning; }
    }
    """

    @dataclass
    class Saved(Message):
        """The text is in the file."""

        path: Path

    def __init__(self) -> None:
        """Start hidden."""
        super().__init__()
        self._text = ""
        self._confirmed: Path | None = None
        """A file that exists, and that Enter overwrites."""

    def compose(self) -> ComposeResult:
        """A question, the path, and what is wrong with it."""
        yield Label("Save to (Enter saves, Esc goes back):", markup=False)
        yield Input(compact=True)
        yield Label("", id="answer", markup=False)

    def ask(self, text: str, suggested: str) -> None:
        """Ask where ``text`` shall go."""
        self._text = text
        self.display = True
        field = self.query_one(Input)
        field.value = str(Path.cwd() / suggested)
        field.focus()

    def close(self) -> None:
        """Hide again."""
        self.display = False
        self._answer("")

    def on_input_changed(self) -> None:
        """Another path is another question."""
        self._confirmed = None
        self._answer("")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Write, or say why not."""
        event.stop()
        try:
            path = Path(event.value).expanduser()
            problem = self._write(path) if event.value.strip() else "Type the path of a file."
        except OSError as error:
            problem = f"{event.value} cannot be written ({error.strerror}); choose another path."
        except (RuntimeError, ValueError) as error:  # a home that is unknown, a NUL
            problem = f"{event.value} is no path ({error}); choose another."
        if problem is not None:
            self._answer(problem)
        else:
            self.close()
            self.post_message(self.Saved(path))

    def _write(self, path: Path) -> str | None:
        """Write the file, or return why nothing was written."""
        if path.exists() and not path.is_file():
            return f"{path} is no ordinary file; choose another path."
        if self._confirmed != path:
            try:
                write_new_file(path, self._text.encode())
            except FileExistsError:
                self._confirmed = path
                return f"{path} exists; press Enter again to overwrite it."
        else:
            write_file(path, self._text.encode())
        return None

    def _answer(self, text: str) -> None:
        glyphs = glyphs_of(self)
        self.query_one("#answer", Label).update(
            own(f"{glyphs.warning} {text}", glyphs) if text else ""
        )
