"""Hugging Face's hub, through ``huggingface_hub``: searches, headers of files, downloads.

Endpoint, token and cache are those of ``huggingface_hub``: ``HF_ENDPOINT``, ``HF_TOKEN`` or ``hf
auth login``, ``HF_HUB_CACHE``. Its errors are told in one sentence each, which holds neither a
token nor a signed address.
"""

import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from logging import ERROR, getLogger
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
from huggingface_hub import (
    HfApi,
    constants,
    get_session,
    hf_hub_download,
    hf_hub_url,
    hf_raise_for_status,
    set_client_factory,
)
from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
)
from huggingface_hub.utils.tqdm import disable_progress_bars, enable_progress_bars

from spectui.errors import BadInputError, HubError, SpectuiError
from spectui.format import bytes_text, printable
from spectui.gguf_names import is_part_of_model, series_of
from spectui.models.beside import Header
from spectui.models.candidates import HubModel, Repository
from spectui.models.facts import facts_of
from spectui.models.header import MAX_BYTES, parse_header

_PATIENCE_S = 20.0
"""Longest silence of the hub."""
_EXPANDED: Any = ["downloads", "gated", "gguf", "siblings"]


class Hub:
    """One endpoint of the hub."""

    def __init__(self, *, shows_progress: bool) -> None:
        """Take the endpoint and the token of ``huggingface_hub``, which may draw its bars."""
        (enable_progress_bars if shows_progress else disable_progress_bars)()
        # Its warnings repeat what an error says, and its requests wait for ever by default.
        getLogger("huggingface_hub").setLevel(ERROR)
        set_client_factory(_client)
        self._api = HfApi(library_name="spectui")

    def search(self, text: str, *tags: str, limit: int) -> tuple[Repository, ...]:
        """Search for repositories with GGUF files, those downloaded most first.

        Args:
            text: part of their names; empty for any.
            tags: tags that they have.
            limit: most repositories.

        Raises:
            HubError: the hub cannot be reached, or fails.
        """
        with _one_sentence("the hub's search"):
            found = self._api.list_models(
                search=text or None,
                filter=["gguf", *tags],
                sort="downloads",
                limit=limit,
                expand=_EXPANDED,
            )
            return tuple(map(_repository, found))

    def models(self, repository: str) -> tuple[HubModel, ...]:
        """List the models of a repository, by name; those that lack a file are left out.

        Raises:
            BadInputError: there is no such repository, or it is not open to this user.
            HubError: the hub cannot be reached, or fails.
        """
        with _one_sentence(f"repository {printable(repository)}"):
            info = self._api.model_info(repository, files_metadata=True, timeout=_PATIENCE_S)
        sizes = {one.rfilename: one.size or 0 for one in info.siblings or ()}
        models = {}
        for name in sorted(_gguf_names(sizes)):
            folder, slash, own = name.rpartition("/")
            series = series_of(own)
            files = tuple(f"{folder}{slash}{part}" for part in series.names)
            if sizes.keys() >= {*files}:
                models[files] = HubModel(
                    path=Path(repository, files[0]),
                    name=series.stem,
                    size_bytes=sum(sizes[file] for file in files),
                    n_shards=len(files),
                    repository=repository,
                    files=files,
                    first_bytes=sizes[files[0]],
                )
        return tuple(models.values())

    def header(self, model: HubModel) -> Header:
        """Read the header of a model's first file; of a split one its tensors are not all there.

        Raises:
            BadInputError: the file is gone, not open to this user, or its header is broken.
            HubError: the hub cannot be reached, or fails.
        """
        name, texts = str(model.path), list[bytes]()
        headers = self._api._build_hf_headers()  # noqa: SLF001 - as its own requests have them
        # Compressed, the range would be of something else.
        headers |= {"Accept-Encoding": "identity", "Range": f"bytes=0-{MAX_BYTES - 1}"}
        url = hf_hub_url(model.repository, model.files[0])
        with _one_sentence(name), get_session().stream("GET", url, headers=headers) as response:
            hf_raise_for_status(response)
            gguf = parse_header(_Body(response), model.first_bytes, name, texts.append)
        facts = facts_of(model.path, gguf, model.size_bytes)
        return Header(gguf=gguf, facts=facts, texts=texts)

    def fetch(self, model: HubModel, folder: Path | None, say: Callable[[str], None]) -> Path:
        """Download a model's files, but for those that are there; return the first.

        A connection that is cut is taken up again where it was.

        Args:
            model: the model.
            folder: the folder for its files; None for the hub's cache.
            say: told what is fetched.

        Raises:
            BadInputError: the disk has no room, or a file is gone or not open to this user.
            HubError: the hub cannot be reached, or fails.
        """
        download = partial(hf_hub_download, model.repository, local_dir=folder)
        with _one_sentence(str(model.path)):
            plans: list[Any] = [download(file, dry_run=True) for file in model.files]
        n_bytes = sum(plan.file_size or 0 for plan in plans if plan.will_download)
        if n_bytes:
            check_room(folder or Path(constants.HF_HUB_CACHE), n_bytes, str(model.path))
            say(f"fetching {bytes_text(n_bytes)} of {model.path}")
        with _one_sentence(str(model.path)):
            first, *_others = (Path(str(download(file))) for file in model.files)
        return first


def check_room(folder: Path, n_bytes: int, what: str) -> None:
    """Refuse a download for which the disk has no room.

    Raises:
        BadInputError: it has not.
    """
    there = next(one for one in (folder, *folder.absolute().parents) if one.exists())
    free_bytes = shutil.disk_usage(there).free
    if n_bytes > free_bytes:
        raise BadInputError(
            f"{what} takes {bytes_text(n_bytes)}, and on the disk of {folder} "
            f"{bytes_text(free_bytes)} are free; make room, or choose another folder with "
            "HF_HUB_CACHE"
        )


def _repository(info: Any) -> Repository:  # noqa: ANN401 - its class declares no field's type
    gguf = info.gguf if isinstance(info.gguf, dict) else {}
    n_params = gguf.get("total")
    return Repository(
        name=info.id,
        files=_gguf_names(one.rfilename for one in info.siblings or ()),
        n_counted=n_params if isinstance(n_params, int) and n_params > 0 else None,
        downloads=info.downloads or 0,
    )


def _gguf_names(names: Iterable[str]) -> tuple[str, ...]:
    """The names of models' files in a repository; what leads out of a folder is none."""
    parts = {name: name.split("/") for name in names}
    return tuple(
        name
        for name, (*folders, own) in parts.items()
        if is_part_of_model(own) and not {"", ".."} & {*folders}
    )


class _Body:
    """The body of an answer, of which no more arrives than is read."""

    def __init__(self, response: httpx2.Response) -> None:
        self._chunks = response.iter_raw()

    def read(self, _n_bytes: int, /) -> bytes:
        """Return what comes next."""
        return next(self._chunks, b"")


def _client() -> httpx2.Client:
    """A client as that of ``huggingface_hub``, whose requests end where nothing comes."""

    def bounded(request: httpx2.Request) -> None:
        if constants.is_offline_mode():
            raise OfflineModeIsEnabled
        limits = request.extensions.get("timeout", {})
        patience = {name: _PATIENCE_S for name, limit in limits.items() if limit is None}
        request.extensions["timeout"] = {**limits, **patience}

    return httpx2.Client(
        follow_redirects=True, timeout=_PATIENCE_S, event_hooks={"request": [bounded]}
    )


@contextmanager
def _one_sentence(what: str) -> Iterator[None]:
    """Raise what goes wrong inside the block as one sentence about ``what``.

    Raises:
        BadInputError: it is not there, or not open to this user.
        HubError: the hub cannot be reached, or fails.
    """
    try:
        yield
    except (httpx2.HTTPError, EntryNotFoundError, OSError, *_MALFORMED) as error:
        # A download that cannot ask the hub, and finds nothing in the cache, has the cause there.
        cause = error.__cause__ if isinstance(error, LocalEntryNotFoundError) else None
        raise _refusal(what, cause or error) from None


def _refusal(what: str, error: BaseException) -> SpectuiError:
    status = error.response.status_code if isinstance(error, HfHubHTTPError) else 0
    kind, reason = next((kind, why) for types, kind, why in _REASONS if isinstance(error, types))
    if reason == _ANSWERED:
        kind, reason = _STATUS.get(status, (kind, reason))
    if isinstance(error, OSError) and error.strerror:
        kind, reason = BadInputError, f"it cannot be written ({error.strerror}); look at its disk"
    # An address may hold a password.
    host = urlsplit(constants.ENDPOINT).hostname or "HF_ENDPOINT"
    return kind(f"{what}: {reason.format(host=host, status=status)}")


_MALFORMED = (ValueError, LookupError, TypeError, AttributeError)
"""Errors of ``huggingface_hub`` for an answer that no hub gives."""
_AGAIN = "try again"
_ANSWERED = "{host} answers {status}; try again"
_SIGN_IN = "sign in with hf auth login"
_STATUS: dict[int, tuple[type[SpectuiError], str]] = {
    401: (BadInputError, f"{{host}} does not take your token; {_SIGN_IN}, or unset HF_TOKEN"),
    403: (BadInputError, "{host} does not let your token read it; use another"),
    429: (HubError, f"{{host}} answers no more for a while; wait, or {_SIGN_IN}"),
}
"""Errors by the status of an answer."""
_REASONS: tuple[tuple[type[BaseException], type[SpectuiError], str], ...] = (
    (GatedRepoError, BadInputError, f"it is gated; accept its terms on {{host}}, and {_SIGN_IN}"),
    (
        RepositoryNotFoundError,
        BadInputError,
        f"{{host}} has no such repository, or not for you; correct it, or {_SIGN_IN}",
    ),
    (HFValidationError, BadInputError, "this is no name of a repository; give OWNER/NAME"),
    (EntryNotFoundError, BadInputError, "{host} has no such file; correct its name"),
    (HfHubHTTPError, HubError, _ANSWERED),
    (OfflineModeIsEnabled, HubError, "HF_HUB_OFFLINE keeps from asking {host}; unset it"),
    (httpx2.TimeoutException, HubError, f"{{host}} has not answered in time; {_AGAIN}"),
    (
        httpx2.ConnectError,
        HubError,
        "{host} cannot be reached; look at the network, at proxies and at HF_ENDPOINT",
    ),
    (httpx2.UnsupportedProtocol, HubError, "{host} is no address; give one with https://"),
    (httpx2.TransportError, HubError, f"the connection to {{host}} was cut; {_AGAIN}"),
    (OSError, HubError, f"it did not arrive whole from {{host}}; {_AGAIN}"),
    (Exception, HubError, "the answer of {host} is none of a hub; look at HF_ENDPOINT"),
)
"""Errors by their class, the first that fits."""
