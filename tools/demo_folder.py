"""A user's folder with the demo models, whose paths tell nothing of the machine that draws."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from spectui.demo import DemoModel, ensure_demo_models
from spectui.paths import HOME_VARIABLE

ROOT = Path(__file__).resolve().parent.parent
PAIR = ("-m", "models/demo-target.gguf", "-md", "models/demo-draft.gguf")
"""The options that name the models, from inside of the folder."""
HOME = "/home/you"
_OF_THE_USER = (HOME_VARIABLE, "XDG_CONFIG_HOME", "NO_COLOR", "COLUMNS", "LINES", "TEXTUAL_FPS")
"""Variables of whoever draws: where files are kept, and how a screen looks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoFolder:
    """An empty folder but for the models."""

    path: Path
    environment: dict[str, str]
    """For programs that run in it: studies of this machine's user are neither shown nor touched."""
    private: tuple[Path, ...]
    """Paths that no picture may show."""

    def check(self, name: str, text: str) -> None:
        """Require that a picture shows none of the private paths.

        Raises:
            RuntimeError: it does.
        """
        shown = [str(path) for path in self.private if str(path) in text]
        if shown:
            raise RuntimeError(f"{name} shows {shown[0]}:\n{text}")


@contextmanager
def demo_folder(target: DemoModel = DemoModel.DENSE) -> Iterator[DemoFolder]:
    """Make the folder, with ``target`` and its draft; it is removed afterwards."""
    models = ensure_demo_models((target, DemoModel.DRAFT))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "models").mkdir()
        for link, model in zip(PAIR[1::2], (target, DemoModel.DRAFT), strict=True):
            (folder / link).symlink_to(models[model])
        kept = {key: value for key, value in os.environ.items() if key not in _OF_THE_USER}
        yield DemoFolder(
            path=folder,
            environment=kept | {"HOME": HOME, "XDG_DATA_HOME": name, "XDG_CACHE_HOME": name},
            private=(Path.home(), ROOT, folder, *(path.parent for path in models.values())),
        )
