"""Presets and their models on this machine: where they lie, reading and finding them."""

from collections.abc import Callable
from pathlib import Path

import msgspec

from spectui.errors import BadInputError
from spectui.paths import cache_dir, config_dir
from spectui.presets.content import PresetFile

_PACKAGE = Path(__file__).parent.parent
_MOST_BYTES = 1_000_000
"""Of a file: a hundred times the longest that is shipped."""


class Preset(PresetFile, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file ``NAME.toml``: options, and models where it names some."""

    name: str
    path: Path

    @property
    def models_folder(self) -> Path:
        """Where its models are looked for."""
        return cache_dir() / "models" / self.name

    @property
    def is_ready(self) -> bool:
        """Whether it can be started as it is."""
        has_target = self.target is None or self.find_target() is not None
        return has_target and (not self.draft or bool(self.find_drafts()))

    def find_target(self) -> Path | None:
        """Return the target's file, None if it names none or it is missing."""
        return None if self.target is None else self.target.find(self.models_folder)

    def find_drafts(self) -> tuple[Path, ...]:
        """Return the files of the drafts that are there, in the preset's order."""
        found = (draft.find(self.models_folder) for draft in self.draft)
        return tuple(path for path in found if path is not None)


def preset_folders() -> tuple[Path, ...]:
    """Where presets are looked for, the user's own first."""
    # The wheel carries the shipped ones inside the package, a checkout beside it.
    shipped = (_PACKAGE / "_presets", _PACKAGE.parent / "presets")
    return (config_dir() / "presets", *(folder for folder in shipped if folder.is_dir()))


def list_presets(passed_over: Callable[[str], None]) -> tuple[Preset, ...]:
    """All presets by name; the user's own hide shipped ones of the same name.

    Args:
        passed_over: told of each file that is malformed.
    """
    found: dict[str, Path] = {}
    for folder in preset_folders():
        for path in sorted(folder.glob("*.toml")):
            found.setdefault(path.stem, path)
    presets = []
    for _name, path in sorted(found.items()):
        try:
            presets.append(read_preset(path))
        except BadInputError as error:
            passed_over(str(error))
    return tuple(presets)


def find_preset(name: str) -> Preset:
    """Read the preset called ``name``, or the file if it is a path ending in ``.toml``.

    Raises:
        BadInputError: there is none, or it is malformed.
    """
    if name.endswith(".toml"):
        return read_preset(Path(name))
    for folder in preset_folders():
        path = folder / f"{name}.toml"
        if path.parent == folder and path.is_file():
            return read_preset(path)
    known = ", ".join(sorted({p.stem for f in preset_folders() for p in f.glob("*.toml")}))
    raise BadInputError(f"there is no preset {name}; known are {known}, or give a .toml file")


def read_preset(path: Path) -> Preset:
    """Read one file.

    Raises:
        BadInputError: missing, no regular file, no TOML, or it says what presets do not say.
    """
    try:
        content = msgspec.toml.decode(_read(path), type=PresetFile)
    except OSError as error:
        raise BadInputError(f"{path}: {error.strerror}; give the name of a preset") from error
    except msgspec.ValidationError as error:
        raise BadInputError(
            f"{path}: {error}; correct it (spectui presets show qwen2.5-coder-32b prints all that "
            "a preset may say)"
        ) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadInputError(f"{path} is not valid TOML ({error}); correct it") from error
    except RecursionError as error:
        raise BadInputError(f"{path} is not valid TOML (nested too deep); correct it") from error
    return Preset(name=path.stem, path=path, **msgspec.structs.asdict(content))


def _read(path: Path) -> bytes:
    # Opening a pipe would wait for its writer.
    if path.exists() and not path.is_file():
        raise BadInputError(f"{path} is no regular file; give the name of a preset")
    with path.open("rb") as file:
        content = file.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise BadInputError(f"{path} is larger than 1 MB; give the name of a preset")
    return content
