"""What the picker tells whoever pushed it. Handlers are named as if the screen held these."""

from pathlib import Path

from textual.message import Message

from spectui.models.files import FoundModel
from spectui.tui.widgets.picker_choices import Choice


class TargetHighlighted(Message, namespace="picker_screen"):
    """Another model is looked at as a target."""

    def __init__(self, path: Path) -> None:
        """Tell its file."""
        super().__init__()
        self.path = path


class InspectionWanted(Message, namespace="picker_screen"):
    """Whether these drafts fit the target is not known yet; the likely ones come first.

    Answered by ``show_inspection`` for each. A new ``TargetHighlighted`` makes it void.
    """

    def __init__(self, target: FoundModel, drafts: tuple[FoundModel, ...]) -> None:
        """Tell which."""
        super().__init__()
        self.target = target
        self.drafts = drafts


class FolderOpened(Message, namespace="picker_screen"):
    """A folder is to be searched, too. Answered by ``add_model`` and ``scan_finished``."""

    def __init__(self, path: Path) -> None:
        """Tell which."""
        super().__init__()
        self.path = path


class Chosen(Message, namespace="picker_screen"):
    """The user has decided."""

    def __init__(self, choice: Choice) -> None:
        """Tell for what."""
        super().__init__()
        self.choice = choice
