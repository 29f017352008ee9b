"""Presets: named sets of options and of models, shipped or the user's own, as TOML files."""

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import msgspec

from spectui.errors import BadInputError
from spectui.files import named_toml, read_toml
from spectui.gguf_names import is_part_of_model, shard_names
from spectui.options.drafters import MTP_KIND
from spectui.paths import cache_dir, config_dir

Options = dict[str, Any]
"""Options of the command line by their long names."""
Repository = Annotated[
    str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*/[A-Za-z0-9][A-Za-z0-9_.-]*\Z")
]
"""``owner/name``, as on Hugging Face."""
FileName = Annotated[str, msgspec.Meta(pattern=r"^(?!/)(?!.*(?:\.\.|\*\*|\\)).+\.gguf\Z")]
"""Name or glob of a GGUF file, relative, which leads neither out of its folder nor deeper."""


class ModelFiles(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Source of a model, and names by which its files are recognised."""

    repo: Repository
    files: Annotated[tuple[FileName, ...], msgspec.Meta(min_length=1)]
    """Names or globs of GGUF files, relative to the preset's folder or to any folder in it."""
    size_gb: Annotated[float, msgspec.Meta(gt=0)] | None = None
    """Size of all files together, in 10^9 bytes."""
    note: str = ""

    def __str__(self) -> str:
        """Names and repository, for a sentence that asks to fetch them."""
        return f"{', '.join(self.files)} of {self.repo}"

    def download(self, folder: Path) -> str:
        """The command of Hugging Face's own program that fetches the files into ``folder``."""
        # A glob may stand for a file in a folder of the repository.
        included = [word for glob in self.files for word in ("--include", f"*{glob}")]
        return shlex.join(["hf", "download", self.repo, *included, "--local-dir", str(folder)])

    def find(self, folder: Path) -> Path | None:
        """Return the file to load, the first part of a split one; None unless all are there.

        A download may have kept the folders of the repository, so those are looked into as well.
        """
        found = [_find_whole(folder, glob) for glob in self.files]
        return found[0] if all(found) else None


def _find_whole(folder: Path, glob: str) -> Path | None:
    """Return the file to load of the first model that is not missing a part."""
    for path in sorted(folder.rglob(glob)):
        parts = [path.with_name(name) for name in shard_names(path.name)]
        # A projector of the same name is loaded beside a model.
        if is_part_of_model(path.name) and all(part.is_file() for part in parts):
            return parts[0]
    return None


class PresetFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All tables of a preset's file; each may be left out.

    The last four are for readers, who see them with ``presets show``.
    """

    description: str = ""
    options: Options = {}
    target: ModelFiles | None = None
    draft: tuple[ModelFiles, ...] = ()
    """Candidates; commands that take one draft take the first that is there."""
    placement: dict[str, Any] = {}
    """Options to start from, per size of the GPU's memory."""
    search: Options = {}
    """Values that others have tried on this pair; ``tune`` has its own search space."""
    expect: tuple[dict[str, Any], ...] = ()
    """Numbers that were reported for the pair."""
    traps: tuple[str, ...] = ()


_PACKAGE = Path(__file__).parent.parent


class Preset(PresetFile, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file ``NAME.toml``: options, and models where it names some."""

    name: str
    path: Path

    @property
    def models_folder(self) -> Path:
        """Folder of its models."""
        return cache_dir() / "models" / self.name

    @property
    def downloads(self) -> tuple[str, ...]:
        """Commands that fetch its models, the target's first."""
        models = filter(None, (self.target, *self.draft))
        return tuple(model.download(self.models_folder) for model in models)

    @property
    def is_ready(self) -> bool:
        """Whether its models can be loaded without a download."""
        has_target = self.target is None or self.find_target() is not None
        return has_target and (not self.needs_draft or bool(self.find_drafts()))

    @property
    def needs_draft(self) -> bool:
        """Whether one of its drafts has to be there; MTP layers that come first need none."""
        return bool(self.draft) and self.options.get("spec-type") != MTP_KIND

    def find_target(self) -> Path | None:
        """Return the target's file, None if it names none or it is missing."""
        return None if self.target is None else self.target.find(self.models_folder)

    def find_drafts(self) -> tuple[Path, ...]:
        """Return the files of the drafts that are there, in the preset's order."""
        found = (draft.find(self.models_folder) for draft in self.draft)
        return tuple(path for path in found if path is not None)


def preset_folders() -> tuple[Path, ...]:
    """Return the folders with presets, the user's own first."""
    # The wheel carries the shipped ones inside the package, a checkout beside it.
    shipped = (_PACKAGE / "_presets", _PACKAGE.parent / "presets")
    return (config_dir() / "presets", *(folder for folder in shipped if folder.is_dir()))


def list_presets(on_malformed: Callable[[str], None]) -> tuple[Preset, ...]:
    """All presets by name; the user's own hide shipped ones of the same name.

    Args:
        on_malformed: called with a sentence on each malformed file.
    """
    presets = []
    for _name, path in sorted(named_toml(preset_folders()).items()):
        try:
            presets.append(read_preset(path))
        except BadInputError as error:
            on_malformed(str(error))
    return tuple(presets)


def find_preset(name: str) -> Preset:
    """Read the preset called ``name``, or the file if it is a path ending in ``.toml``.

    Raises:
        BadInputError: there is none, or it is malformed.
    """
    found = named_toml(preset_folders())
    if name in found or name.endswith(".toml"):
        return read_preset(found.get(name, Path(name)))
    known = ", ".join(sorted(found))
    raise BadInputError(f"there is no preset {name!r}; known are {known}, or give a .toml file")


def read_preset(path: Path) -> Preset:
    """Read one file.

    Raises:
        BadInputError: missing, no regular file, no TOML, or not as ``PresetFile`` has it.
    """
    content = read_toml(
        path,
        PresetFile,
        other="the name of a preset",
        advice=lambda _problem: (
            "correct it (spectui presets show qwen2.5-coder-32b prints all that a preset may say)"
        ),
    )
    return Preset(name=path.stem, path=path, **msgspec.structs.asdict(content))
