"""Grid files: the shipped studies, the user's own, and their schema."""

from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated, Any

import msgspec

from spectui.errors import BadInputError
from spectui.paths import config_dir
from spectui.sweep.axes import Axes, names

_MOST_BYTES = 1_000_000
_Sentence = Annotated[str, msgspec.Meta(min_length=1)]


class GridFile(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"
):
    """Contents of a grid file."""

    description: _Sentence
    """Description of the grid in a sentence."""
    source: str = ""
    """The study that the grid reproduces."""
    notes: tuple[_Sentence, ...] = ()
    """Differences from that study."""
    n_predict: Annotated[int, msgspec.Meta(ge=2)] | None = None
    """Tokens per prompt, if neither the command line nor a preset sets them."""
    n_prompts: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """Number of prompts from the built-in suite."""
    repeats: Annotated[int, msgspec.Meta(ge=1)] | None = None
    cells: Annotated[tuple[Axes, ...], msgspec.Meta(min_length=1)]

    def __post_init__(self) -> None:
        """Refuse text with terminal control characters."""
        for text in (self.description, self.source, *self.notes):
            if not " ".join(text.splitlines()).replace("\t", " ").isprintable():
                raise ValueError(f"{text!r} has characters that cannot be printed")


class Grid(GridFile, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """A grid and its name."""

    name: str


def shipped_grids() -> tuple[Grid, ...]:
    """The grids that come with spectui, by name."""
    files = (file for file in _shipped().iterdir() if file.name.endswith(".toml"))
    return tuple(
        _decode(file.read_bytes(), name=Path(file.name).stem, where=file.name)
        for file in sorted(files, key=lambda file: file.name)
    )


def own_folder() -> Path:
    """Folder of the user's own grids."""
    return config_dir() / "grids"


def find_grid(name: str) -> Grid:
    """Read the grid called ``name``, or the file if it is a path ending in ``.toml``.

    Raises:
        BadInputError: there is none, or it is malformed.
    """
    if name.endswith(".toml"):
        return _read(Path(name))
    own = own_folder() / f"{name}.toml"
    if own.parent == own_folder() and own.is_file():
        return _read(own)
    known = {grid.name: grid for grid in shipped_grids()}
    if name not in known:
        mine = {path.stem for path in own_folder().glob("*.toml")}
        raise BadInputError(
            f"no grid is called {name!r}; there are {', '.join(sorted({*known, *mine}))}, or give "
            "a path that ends in .toml"
        )
    return known[name]


def _shipped() -> Traversable:
    return resources.files("spectui.sweep").joinpath("grids")


def _read(path: Path) -> Grid:
    try:
        # Opening a pipe would wait for its writer.
        if path.exists() and not path.is_file():
            raise BadInputError(f"{path} is no regular file; give a grid's")
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise BadInputError(f"{path}: {error.strerror}; give the name of a grid") from error
    if len(content) > _MOST_BYTES:
        raise BadInputError(f"{path} is larger than 1 MB; give a grid's file")
    return _decode(content, name=path.stem, where=str(path))


def _decode(content: bytes, *, name: str, where: str) -> Grid:
    try:
        found = msgspec.toml.decode(content, type=GridFile)
        _check_lists(msgspec.toml.decode(content), where)
    except msgspec.ValidationError as error:
        raise BadInputError(f"{where}: {error}; {_what_there_is(str(error))}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadInputError(f"{where} is not valid TOML ({error}); correct it") from error
    except RecursionError as error:
        raise BadInputError(f"{where} is not valid TOML (nested too deep); correct it") from error
    return Grid(name=name, **msgspec.structs.asdict(found))


def _check_lists(content: dict[str, Any], where: str) -> None:
    """Refuse empty lists, whose intention is unclear."""
    for number, entry in enumerate(content["cells"]):
        for key, value in entry.items():
            if value == []:
                raise BadInputError(
                    f"{where}: {key} is an empty list - at `$.cells[{number}]`; leave it out for "
                    "what the command says, or give values"
                )


def _what_there_is(problem: str) -> str:
    """Advice on a problem; for an unknown key, the list of known keys."""
    if "unknown field" not in problem:
        return "correct it"
    fields = msgspec.structs.fields(GridFile)
    known = names() if "cells" in problem else tuple(field.encode_name for field in fields)
    return f"there are {', '.join(known)}"
