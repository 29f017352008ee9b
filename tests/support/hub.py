"""A hub on loopback that answers as Hugging Face's does, from files of this machine."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

_COMMIT = "0" * 40
_RANGE = re.compile(r"bytes=(\d+)-(\d+)?")
TOKEN = "hf_secretsecretsecretsecretsecretse"  # noqa: S105 - nobody's


@dataclass(kw_only=True)
class Repo:
    """A repository: its files, and what a search tells of it."""

    files: dict[str, Path]
    n_params: int | None = None
    tags: tuple[str, ...] = ("gguf",)
    downloads: int = 0
    manner: str = ""
    """How it misbehaves: a status, with the hub's error code; or slow, cut, whole, odd."""

    def info(self, name: str, *, has_sizes: bool) -> dict[str, Any]:
        """The hub's entry of it."""
        siblings = [
            {"rfilename": file, **({"size": path.stat().st_size} if has_sizes else {})}
            for file, path in self.files.items()
        ]
        return {
            "_id": "0",
            "id": name,
            "modelId": name,
            "sha": _COMMIT,
            "private": False,
            "gated": "auto" if "Gated" in self.manner else False,
            "downloads": self.downloads,
            "tags": list(self.tags),
            "siblings": siblings,
            **({} if self.n_params is None else {"gguf": {"total": self.n_params}}),
        }


@dataclass(kw_only=True)
class LoopbackHub:
    """What it has, and what it was asked."""

    repos: dict[str, Repo] = field(default_factory=dict)
    manner: str = ""
    """How its search misbehaves, as ``Repo.manner``."""
    requests: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    """Method, path and headers."""
    endpoint: str = ""
    n_cut: int = 0
    """Answers that are still to be cut."""
    share_before_cut: float = 0.5
    closing: Event = field(default_factory=Event)

    def asked(self, part: str) -> list[dict[str, str]]:
        """Headers of the requests whose path has a part."""
        return [headers for _method, path, headers in self.requests if part in path]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: LoopbackHub

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.hub.requests.append((self.command, self.path, headers))
        url = urlsplit(self.path)
        path, query = unquote(url.path), parse_qs(url.query)
        if path == "/api/models":
            if not self._misbehaves(self.hub.manner):
                self._json(self._found(query))
        elif path.startswith("/api/models/"):
            self._repo(path.removeprefix("/api/models/"), None)
        elif "/resolve/main/" in path:
            name, _, file = path[1:].partition("/resolve/main/")
            self._repo(name, file)
        elif path.startswith("/cdn/"):
            self._content(path.removeprefix("/cdn/"))
        else:
            self._error(404, "")

    def _found(self, query: dict[str, list[str]]) -> list[dict[str, Any]]:
        words = query.get("search", [""])[0].lower().split()
        limit = int(query.get("limit", ["1000"])[0])
        found = [
            repo.info(name, has_sizes=False)
            for name, repo in sorted(self.hub.repos.items(), key=lambda one: -one[1].downloads)
            if all(word in name.lower() for word in words)
            and {*query.get("filter", [])} <= {*repo.tags}
        ]
        assert query["sort"] == ["downloads"]
        assert {*query["expand"]} == {"downloads", "gated", "gguf", "siblings"}
        return found[:limit]

    def _repo(self, name: str, file: str | None) -> None:
        repo = self.hub.repos.get(name)
        if repo is None:
            self._error(404, "RepoNotFound")
        elif file is None:
            is_open = "Gated" in repo.manner or repo.manner in {"cut", "whole"}
            if is_open or not self._misbehaves(repo.manner):
                self._json(repo.info(name, has_sizes=True))
        elif file not in repo.files:
            self._error(404, "EntryNotFound")
        elif repo.manner in {"cut", "whole"} or not self._misbehaves(repo.manner):
            # As for files in large storage: the hub itself sends none of their bytes.
            size, other = repo.files[file].stat().st_size, self.hub.endpoint.split(":")[-1]
            self.send_response(302)
            self.send_header("Location", f"http://localhost:{other}/cdn/{name}/{file}")
            self.send_header("X-Linked-Size", str(size))
            self.send_header("X-Linked-ETag", f'"{_digest(repo.files[file])}"')
            self.send_header("X-Repo-Commit", _COMMIT)
            self.send_header("Content-Length", "0")
            self.end_headers()

    def _content(self, path: str) -> None:
        owner, name, *parts = path.split("/")
        repo = self.hub.repos[f"{owner}/{name}"]
        data = repo.files["/".join(parts)].read_bytes()
        asked = None if repo.manner == "whole" else _RANGE.match(self.headers.get("Range", ""))
        begin = int(asked[1]) if asked else 0
        end = min(int(asked[2]) + 1, len(data)) if asked and asked[2] else len(data)
        self.send_response(206 if asked else 200)
        self.send_header("Content-Length", str(len(data[begin:end])))
        self.send_header("ETag", '"0"')
        if asked:
            self.send_header("Content-Range", f"bytes {begin}-{end - 1}/{len(data)}")
        self.end_headers()
        if repo.manner == "cut" and self.hub.n_cut:
            self.hub.n_cut -= 1
            end = begin + int((end - begin) * self.hub.share_before_cut)
            self.close_connection = True
        if self.command != "HEAD":
            self.wfile.write(data[begin:end])

    def _misbehaves(self, manner: str) -> bool:
        if manner == "slow":
            self.hub.closing.wait()
            self.close_connection = True
        elif manner == "odd":
            self._send(200, b"<html>Sign in to this network</html>")
        elif manner:
            status, _, code = manner.partition(" ")
            self._error(int(status), code)
        return bool(manner)

    def _error(self, status: int, code: str) -> None:
        self._send(status, b'{"error":"' + code.encode() + b'"}', code)

    def _json(self, value: object) -> None:
        self._send(200, json.dumps(value).encode())

    def _send(self, status: int, body: bytes, code: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if code:
            self.send_header("X-Error-Code", code)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _digest(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()


@contextmanager
def loopback_hub() -> Iterator[LoopbackHub]:
    """Serve a hub until the block ends."""
    hub = LoopbackHub()
    handler = type("Handler", (_Handler,), {"hub": hub})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        hub.endpoint = f"http://127.0.0.1:{server.server_port}"
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield hub
        finally:
            hub.closing.set()
            server.shutdown()
            thread.join()
