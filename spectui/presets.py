"""Presets: named sets of command-line options, shipped or the user's own, as TOML."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spectui.errors import BadInputError
from spectui.paths import config_dir

_HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """A file ``NAME.toml`` with a description and options by their long names."""

    name: str
    path: Path
    description: str
    options: dict[str, Any]


def preset_folders() -> tuple[Path, ...]:
    """Where presets are looked for, the user's own first."""
    # The wheel carries the shipped ones inside the package, a checkout beside it.
    shipped = (_HERE / "_presets", _HERE.parent / "presets")
    return (config_dir() / "presets", *(folder for folder in shipped if folder.is_dir()))


def list_presets() -> tuple[Preset, ...]:
    """All presets by name; the user's own hide shipped ones of the same name."""
    found: dict[str, Path] = {}
    for folder in preset_folders():
        for path in sorted(folder.glob("*.toml")):
            found.setdefault(path.stem, path)
    return tuple(read_preset(path) for _name, path in sorted(found.items()))


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
        BadInputError: missing, no TOML, or a key that presets do not have.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInputError(f"{path}: {error.strerror}; give the name of a preset") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInputError(f"{path} is not valid TOML ({error}); correct it") from error
    for key in content:
        if key not in {"description", "options"}:
            raise BadInputError(
                f"{path}: unknown key {key}; a preset has a description and a table [options]"
            )
    description, options = content.get("description", ""), content.get("options", {})
    if not isinstance(description, str):
        raise BadInputError(f"{path}: description must be a text; put it in quotes")
    if not isinstance(options, dict):
        raise BadInputError(f"{path}: options must be a table; write [options] above them")
    return Preset(name=path.stem, path=path, description=description, options=options)
