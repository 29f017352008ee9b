"""The bytes of the hub's files, from any place on.

The library's own download throws away what it has got when it is stopped, so files are streamed
here. Addresses, tokens, redirects and errors are the library's.
"""

import re
from collections.abc import Iterator
from http import HTTPStatus

import httpx2
from huggingface_hub import constants, hf_hub_url
from huggingface_hub.utils import hf_raise_for_status

from spectui.presets.hub_client import make_headers, open_client
from spectui.presets.hub_errors import explained, lost
from spectui.presets.plan import HubFile

PIECE_BYTES = 8 << 30
"""Asked for at a time: some caches refuse ranges of tens of gigabytes, and open ones."""
_CHUNK_BYTES = 1 << 16
"""What is lost at most when the connection ends."""
_CONTENT_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18})")


def read_from(file: HubFile, offset: int) -> Iterator[bytes]:
    """Yield bytes of a file from ``offset`` on: a piece of it, or all that are left.

    Raises:
        ConnectionLostError: they stopped before the end of the piece, are none of this file, or the
            hub is too busy.
        BadInputError: the hub refuses.
    """
    last = min(offset + PIECE_BYTES, file.size_bytes) - 1
    headers = make_headers()
    headers |= {"Range": f"bytes={offset}-{last}", "Accept-Encoding": "identity"}
    url = hf_hub_url(file.repo, file.name, revision=file.commit)
    timeout_s = constants.HF_HUB_DOWNLOAD_TIMEOUT
    with (
        explained(file.repo),
        open_client().stream("GET", url, headers=headers, timeout=timeout_s) as response,
    ):
        hf_raise_for_status(response)
        sent = _sent(file, offset, response)
        at = sent.start
        for chunk in response.iter_bytes(_CHUNK_BYTES):
            yield chunk[max(0, offset - at) :]
            at += len(chunk)
            if at >= sent.stop:
                return
        raise lost(file.repo, f"{file.name} ended after {at} bytes")


def _sent(file: HubFile, offset: int, response: httpx2.Response) -> range:
    """Return which bytes of the file the answer says that it holds."""
    headers, size_bytes = response.headers, file.size_bytes
    # Who does not know ranges sends all of it.
    is_all = response.status_code == HTTPStatus.OK
    if is_all and headers.get("Content-Length") == str(size_bytes):
        return range(size_bytes)
    found = _CONTENT_RANGE.fullmatch(headers.get("Content-Range", ""))
    if response.status_code == HTTPStatus.PARTIAL_CONTENT and found is not None:
        first, last, total = map(int, found.groups())
        if first == offset <= last < total == size_bytes:
            return range(first, last + 1)
        if total != size_bytes:
            told = f"something else than {file.name} was sent: {total} bytes, not {size_bytes}"
            raise lost(file.repo, told, is_lasting=True)
    raise lost(file.repo, f"something else than {file.name} was sent", is_lasting=True)
