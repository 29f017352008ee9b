"""Hugging Face's hub, through ``huggingface_hub``: searches, and headers of files.

Endpoint and token are those of ``huggingface_hub``: ``HF_ENDPOINT``, ``HF_TOKEN`` or ``hf auth
login``. Its errors become one sentence each, which holds neither a token nor a signed address.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from logging import ERROR, getLogger
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
from huggingface_hub import (
    HfApi,
    constants,
    get_session,
    hf_hub_url,
    hf_raise_for_status,
    set_client_factory,
)
from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, RepositoryNotFoundError

from spectui.errors import HubError
from spectui.format import printable
from spectui.gguf_names import is_part_of_model, model_name, shard_names
from spectui.models.candidates import HubModel, Repository
from spectui.models.facts import facts_of
from spectui.models.header import MAX_BYTES, parse_header
from spectui.models.pairs import Header

_PATIENCE_S = 20.0
"""Longest silence of the hub."""
_EXPANDED: Any = ["downloads", "gated", "gguf", "siblings"]


class Hub:
    """One endpoint of the hub."""

    def __init__(self) -> None:
        """Take the endpoint and the token of ``huggingface_hub``.

        Raises:
            HubError: it is kept offline.
        """
        if constants.is_offline_mode():
            raise HubError("HF_HUB_OFFLINE keeps from asking the hub; unset it")
        # Its warnings repeat what an error says, and its requests wait for ever by default.
        getLogger("huggingface_hub").setLevel(ERROR)
        set_client_factory(_client)
        self._api = HfApi(library_name="spectui")

    def search(self, text: str, *, limit: int) -> tuple[Repository, ...]:
        """Search for repositories with GGUF files, those downloaded most first.

        Args:
            text: part of their names.
            limit: most repositories.

        Raises:
            HubError: the hub cannot be reached, or fails.
        """
        with _one_sentence("the hub's search"):
            found = self._api.list_models(
                search=text, filter="gguf", sort="downloads", limit=limit, expand=_EXPANDED
            )
            return tuple(map(_repository, found))

    def models(self, repository: str) -> tuple[HubModel, ...]:
        """List the models of a repository, by name; those that lack a file are left out.

        Raises:
            HubError: it is not open to this user, or the hub cannot be reached, or fails.
        """
        with _one_sentence(f"repository {printable(repository)}"):
            info = self._api.model_info(repository, files_metadata=True, timeout=_PATIENCE_S)
        sizes = {one.rfilename: one.size or 0 for one in info.siblings or ()}
        models = {}
        for name in sorted(_gguf_names(sizes)):
            folder, slash, own = name.rpartition("/")
            files = tuple(f"{folder}{slash}{part}" for part in shard_names(own))
            if sizes.keys() >= {*files}:
                models[files] = HubModel(
                    path=Path(repository, files[0]),
                    name=model_name(own),
                    size_bytes=sum(sizes[file] for file in files),
                    n_shards=len(files),
                    repository=repository,
                    files=files,
                )
        return tuple(models.values())

    def header(self, model: HubModel) -> Header:
        """Read the header of a model's first file; of a split one its tensors are not all there.

        Raises:
            BadInputError: the header is broken.
            HubError: it is not open to this user, or the hub cannot be reached, or fails.
        """
        name, texts = str(model.path), list[bytes]()
        headers = self._api._build_hf_headers()  # noqa: SLF001 - as its own requests have them
        # Compressed, the range would be of something else.
        headers |= {"Accept-Encoding": "identity", "Range": f"bytes=0-{MAX_BYTES - 1}"}
        url = hf_hub_url(model.repository, model.files[0])
        with _one_sentence(name), get_session().stream("GET", url, headers=headers) as response:
            hf_raise_for_status(response)
            chunks = response.iter_raw()
            # Chunks are fetched only as they are read.
            gguf = parse_header(
                lambda _n_bytes: next(chunks, b""), model.size_bytes, name, texts.append
            )
        facts = facts_of(model.path, gguf, model.size_bytes)
        return Header(gguf=gguf, facts=facts, texts=texts)


def _repository(info: Any) -> Repository:  # noqa: ANN401 - its class declares no field's type
    return Repository(
        name=info.id,
        files=_gguf_names(one.rfilename for one in info.siblings or ()),
        n_params=(info.gguf or {}).get("total"),
        downloads=info.downloads or 0,
    )


def _gguf_names(names: Iterable[str]) -> tuple[str, ...]:
    """The names of models' files in a repository."""
    return tuple(name for name in names if is_part_of_model(name.rpartition("/")[2]))


def _client() -> httpx2.Client:
    """A client as that of ``huggingface_hub``, whose requests end where nothing comes."""

    def bound(request: httpx2.Request) -> None:
        request.extensions["timeout"] = httpx2.Timeout(_PATIENCE_S).as_dict()

    return httpx2.Client(follow_redirects=True, event_hooks={"request": [bound]})


_SIGN_IN = "sign in with hf auth login"
_MALFORMED = (ValueError, LookupError, TypeError, AttributeError)
"""Errors of ``huggingface_hub`` for an answer that no hub gives."""
_REASONS: tuple[tuple[type[BaseException] | tuple[type[BaseException], ...], str], ...] = (
    (GatedRepoError, f"it is gated; accept its terms on {{host}}, and {_SIGN_IN}"),
    (RepositoryNotFoundError, f"{{host}} has no such repository, or not for you; {_SIGN_IN}"),
    (HfHubHTTPError, f"{{host}} answers {{status}}; try again later, or {_SIGN_IN}"),
    (httpx2.TimeoutException, "{host} has not answered in time; try again"),
    (
        (httpx2.HTTPError, OSError),
        "{host} cannot be reached; look at the network, at proxies and at HF_ENDPOINT",
    ),
    (_MALFORMED, "the answer of {host} is none of a hub; look at HF_ENDPOINT"),
)
"""Sentences by the class of an error, the first that fits."""


@contextmanager
def _one_sentence(what: str) -> Iterator[None]:
    """Raise what goes wrong inside the block as one sentence about ``what``.

    Raises:
        HubError: it is not open to this user, or the hub cannot be reached, or fails.
    """
    try:
        yield
    except (httpx2.HTTPError, OSError, *_MALFORMED) as error:
        status = error.response.status_code if isinstance(error, HfHubHTTPError) else 0
        reason = next(reason for kinds, reason in _REASONS if isinstance(error, kinds))
        # An address may hold a password.
        host = urlsplit(constants.ENDPOINT).hostname or "HF_ENDPOINT"
        raise HubError(f"{what}: {reason.format(host=host, status=status)}") from None
