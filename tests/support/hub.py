"""A hub on loopback: answers what huggingface_hub asks for, and fails as it is told to."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import unquote, urlsplit

COMMIT = "c" * 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A file of a repository, and what the hub says of it."""

    content: bytes
    claimed_bytes: int | None = None
    """What its size is said to be, where that is a lie."""
    sent: bytes | None = None
    """What arrives instead."""

    def described(self, name: str) -> dict[str, Any]:
        size = len(self.content) if self.claimed_bytes is None else self.claimed_bytes
        return {"rfilename": name, "size": size, "blobId": "b" * 40}


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """An answer that is none."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """A request for bytes of a file."""

    name: str
    authorization: str | None


class Hub:
    """Repositories, what is to go wrong, and what was asked for."""

    def __init__(self) -> None:
        self.url = ""
        self.elsewhere = ""
        """The same server under another name, where files are kept."""
        self.repos: dict[str, dict[str, Served]] = {}
        self.listing_refused: Refusal | None = None
        self.file_refused: Refusal | None = None
        self.authorizations: list[str | None] = []
        """Of requests to the hub itself."""
        self.fetched: list[Fetched] = []


class _Handler(BaseHTTPRequestHandler):
    hub: Hub

    def do_HEAD(self) -> None:
        self._resolve(unquote(urlsplit(self.path).path))

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        # Somebody may be gone before an answer was sent.
        with suppress(BrokenPipeError, ConnectionResetError):
            self._answer(path)

    def _answer(self, path: str) -> None:
        if path.startswith("/api/models/"):
            self._list(path.removeprefix("/api/models/"))
        elif "/resolve/" in path:
            self._resolve(path)
        elif path.startswith("/kept/"):
            self._send(path.removeprefix("/kept/"))
        else:
            self._refuse(Refusal(status=404))

    def _list(self, repo: str) -> None:
        self.hub.authorizations.append(self.headers["Authorization"])
        files = self.hub.repos.get(repo)
        if self.hub.listing_refused is not None:
            self._refuse(self.hub.listing_refused)
        elif files is None:
            self._refuse(Refusal(status=404, headers={"X-Error-Code": "RepoNotFound"}))
        else:
            siblings = [served.described(name) for name, served in files.items()]
            document = {"id": repo, "sha": COMMIT, "siblings": siblings}
            self._refuse(Refusal(status=200, body=json.dumps(document).encode()))

    def _resolve(self, path: str) -> None:
        self.hub.authorizations.append(self.headers["Authorization"])
        repo, _, name = path.removeprefix("/").partition(f"/resolve/{COMMIT}/")
        if self.hub.file_refused is not None:
            self._refuse(self.hub.file_refused)
        else:
            served = self.hub.repos[repo][name]
            headers = {
                "Location": f"{self.hub.elsewhere}/kept/{repo}/{name}",
                "X-Repo-Commit": COMMIT,
                "X-Linked-Etag": f'"{hashlib.sha256(served.content).hexdigest()}"',
                "X-Linked-Size": str(len(served.content)),
            }
            self._refuse(Refusal(status=302, headers=headers))

    def _send(self, path: str) -> None:
        owner, repo, name = path.split("/", 2)
        served = self.hub.repos[f"{owner}/{repo}"][name]
        content = served.content if served.sent is None else served.sent
        self.hub.fetched.append(Fetched(name=name, authorization=self.headers["Authorization"]))
        self._refuse(Refusal(status=200, body=content))

    def _refuse(self, refusal: Refusal) -> None:
        self.send_response(refusal.status)
        for name, value in refusal.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(refusal.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(refusal.body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Say nothing."""


@contextmanager
def serving() -> Iterator[Hub]:
    """Serve a hub until the end of the block."""
    hub = Hub()
    handler = type("Handler", (_Handler,), {"hub": hub})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        hub.url = f"http://127.0.0.1:{server.server_port}"
        hub.elsewhere = f"http://localhost:{server.server_port}"
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield hub
        finally:
            server.shutdown()
            thread.join()
