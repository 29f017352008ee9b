"""The audit of the lock, by pip-audit and a service on loopback.

``SPECTUI_AUDIT_PYTHON`` names the Python of an environment with pip-audit, as in ``.ci/run``.
"""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from threading import Thread

import pytest

TOOL = Path(__file__).parents[1] / "tools" / "audit_lock.py"
PYTHON = os.environ.get("SPECTUI_AUDIT_PYTHON", sys.executable)
LOCK = "fine==1.0\nholed==2.0\n"
RANGE = {"type": "ECOSYSTEM", "events": [{"fixed": "2.1"}]}
AFFECTED = {"package": {"name": "holed", "ecosystem": "PyPI"}, "ranges": [RANGE]}
HOLE = {"vulns": [{"id": "PYSEC-1", "affected": [AFFECTED]}]}
pytestmark = [
    pytest.mark.ci,
    pytest.mark.skipif(
        sys.executable == PYTHON and find_spec("pip_audit") is None,
        reason="no pip-audit: SPECTUI_AUDIT_PYTHON names a Python that has it",
    ),
]


@contextmanager
def service(status: int = 200) -> Iterator[str]:
    """A service of known vulnerabilities, and its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            content = json.dumps(HOLE if asked["package"]["name"] == "holed" else {}).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/query"
        finally:
            server.shutdown()
            thread.join()


def audited(folder: Path, url: str, lock: str = LOCK) -> subprocess.CompletedProcess[str]:
    (folder / "a.lock").write_text(lock)
    given = ("--cache-dir", folder, "-s", "osv", "--osv-url", url, "--timeout", "5")
    return subprocess.run(
        [PYTHON, TOOL, "--lock", folder / "a.lock", *given],
        env=os.environ | {"no_proxy": "127.0.0.1"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_known_vulnerability_fails_the_audit(tmp_path: Path) -> None:
    with service() as url:
        found = audited(tmp_path, url)
    assert found.returncode == 1, found
    assert "holed 2.0: PYSEC-1, mended in 2.1" in found.stdout
    assert "2 of 2 packages were audited" in found.stdout


def test_a_service_that_cannot_be_reached_is_told(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    found = audited(tmp_path, f"http://127.0.0.1:{port}/query")
    assert found.returncode == 0, found
    assert "NOT FATAL: nothing was audited, the service cannot be reached" in found.stdout


@pytest.mark.parametrize(
    ("status", "lock"), [(500, LOCK), (200, "fine>=1\n"), (200, "fine==1.0\n<html>\n")]
)
def test_other_failures_do_not_look_like_that(tmp_path: Path, status: int, lock: str) -> None:
    with service(status) as url:
        found = audited(tmp_path, url, lock)
    assert found.returncode == 2, found
    assert "NOT FATAL" not in found.stdout
    assert "the audit failed: pip-audit ended with 1" in found.stdout
