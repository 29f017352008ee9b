"""Hugging Face's hub: which files a repository has."""

from collections.abc import Sequence
from typing import Annotated

import msgspec
from huggingface_hub import HfApi, constants
from huggingface_hub.errors import HFValidationError

from spectui import __version__
from spectui.errors import BadInputError
from spectui.presets.content import stays_inside, takes
from spectui.presets.hub_client import make_headers, open_client
from spectui.presets.hub_errors import explained
from spectui.presets.plan import HubFile

_LISTING_TIMEOUT_S = 60.0
_SHOWN_NAMES = 12


class _Stored(msgspec.Struct, frozen=True):
    sha256: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")]


class _Listed(msgspec.Struct, frozen=True):
    rfilename: str
    size: Annotated[int, msgspec.Meta(ge=0)] | None
    lfs: _Stored | None


class _Listing(msgspec.Struct, frozen=True):
    """What of huggingface_hub's ``ModelInfo`` is used, in types that it does not check."""

    sha: str
    siblings: tuple[_Listed, ...]


def find_files(repo: str, globs: Sequence[str]) -> tuple[HubFile, ...]:
    """Return the files of ``repo`` that match, at its newest commit.

    Args:
        repo: ``owner/name``.
        globs: as in a preset, each for at least one file.

    Raises:
        BadInputError: the hub cannot be asked or refuses, nothing matches, or what matches has a
            name or a description that no model has.
    """
    listing = _ask(repo)
    models = [file for file in listing.siblings if file.rfilename.endswith(".gguf")]
    found: dict[str, HubFile] = {}
    for glob in globs:
        matching = [file for file in models if takes(glob, file.rfilename)]
        if not matching:
            raise BadInputError(_no_match(repo, glob, models))
        found.update((file.rfilename, _described(repo, listing.sha, file)) for file in matching)
    return tuple(file for _name, file in sorted(found.items()))


def _ask(repo: str) -> _Listing:
    with explained(repo):
        # What is wrong here is told apart from what is wrong with the answer.
        open_client()
        make_headers()
        try:
            api = HfApi(library_name="spectui", library_version=__version__)
            info = api.model_info(repo, files_metadata=True, timeout=_LISTING_TIMEOUT_S)
            return msgspec.convert(info, _Listing, from_attributes=True)
        except HFValidationError as error:
            raise BadInputError(
                f"{repo} is no name that a repository can have; correct the preset"
            ) from error
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise BadInputError(
                f"{constants.ENDPOINT} does not answer as Hugging Face's hub does; check "
                "HF_ENDPOINT and the network"
            ) from error


def _described(repo: str, commit: str, file: _Listed) -> HubFile:
    name = file.rfilename
    if not (stays_inside(name) and name.isprintable()):
        raise BadInputError(
            f"{repo} has a file called {name!r}, which would not stay in the preset's folder; "
            "nothing was fetched, give the preset another repository"
        )
    if file.size is None or file.lfs is None:
        raise BadInputError(
            f"{repo} does not say the size and the SHA-256 of {name}, so it could not be checked; "
            "give the preset another repository"
        )
    return HubFile(
        repo=repo,
        commit=commit,
        name=name,
        size_bytes=file.size,
        sha256=file.lfs.sha256,
    )


def _no_match(repo: str, glob: str, models: Sequence[_Listed]) -> str:
    names = sorted(file.rfilename for file in models if file.rfilename.isprintable())
    shown = ", ".join(names[:_SHOWN_NAMES]) or "no .gguf file at all"
    more = f" and {len(names) - _SHOWN_NAMES} more" if len(names) > _SHOWN_NAMES else ""
    return f"no file of {repo} matches {glob}: it has {shown}{more}; correct the preset"
