"""A PostgreSQL server of the tests' own, in a temporary folder and on a free port."""

import os
import pwd
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_FOLDERS = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
PROGRAMS = os.environ.get("SPECTUI_POSTGRES") or (str(_FOLDERS[-1]) if _FOLDERS else "")
"""Folder of ``initdb`` and ``pg_ctl``; empty where there is none."""
needs_postgres = pytest.mark.skipif(not PROGRAMS, reason="PostgreSQL is not installed")
USER = "spectui"
PASSWORD = "s3cret-of-postgres"  # noqa: S105 - of a server that ends with its test
_ENDS_S = 60


class Postgres:
    """A server, which may be stopped and started again."""

    def __init__(self, folder: Path) -> None:
        """Keep everything below ``folder``, which is removed by whoever made it."""
        self._folder = folder
        # The server refuses to run as root.
        self._user = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
        if self._user is not None:
            os.chown(folder, self._user.pw_uid, self._user.pw_gid)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        password = folder / "password"
        password.write_text(PASSWORD)
        if self._user is not None:
            os.chown(password, self._user.pw_uid, self._user.pw_gid)
        made = ("-A", "scram-sha-256", "-U", USER, f"--pwfile={password}", "--no-sync")
        self._run("initdb", "-D", folder / "data", *made, "-E", "UTF8")
        password.unlink()

    @property
    def url(self) -> str:
        return f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -k {self._folder} -c fsync=off"
        self._run(
            *("pg_ctl", "-D", self._folder / "data", "-w", "-t", str(_ENDS_S)),
            *("-l", self._folder / "log", "-o", options, "start"),
        )

    def stop(self) -> None:
        self._run("pg_ctl", "-D", self._folder / "data", "-w", "-m", "fast", "stop")

    def _run(self, program: str, *arguments: object) -> None:
        user = self._user
        # Its children would keep a pipe open.
        with (self._folder / "said").open("ab") as said:
            done = subprocess.run(
                [f"{PROGRAMS}/{program}", *map(str, arguments)],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                check=False,
                timeout=2 * _ENDS_S,
                cwd="/",
                user=None if user is None else user.pw_uid,
                group=None if user is None else user.pw_gid,
                extra_groups=None if user is None else [],
            )
        assert done.returncode == 0, (self._folder / "said").read_text()


@contextmanager
def postgres() -> Iterator[Postgres]:
    """A server that runs, and is gone afterwards with all its files."""
    with tempfile.TemporaryDirectory(prefix="spectui-pg-", ignore_cleanup_errors=True) as folder:
        server = Postgres(Path(folder))
        server.start()
        try:
            yield server
        finally:
            server.stop()
