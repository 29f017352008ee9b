"""Attempts on spectui: each runs the command line within limits, and is looked at afterwards.

The commands run one after the other in a child process, whose output passes for a terminal.
"""

import io
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from unicodedata import category

import psutil

MOST_S = 5.0
MOST_BYTES = 1_000_000_000
SECRET = "s3cr3t-4711"  # noqa: S105 - what is looked for
_OWN = re.compile(
    "\x1b\\[(?:[012]|(?:1;)?3[1-3])m|\x1b\\[(?:1A|2K|[?]25[lh])|\r(?=\x1b\\[(?:2K|1A))"
)
"""Styles of tables, and what progress is drawn with."""
_OBEYED = {"Cc", "Cf", "Zl", "Zp"}
_PLAIN = "\n\t\u200c\u200d"
_HANGS_S = 60.0
_DEFECTS = ("Traceback (most recent call last)", "this is a defect of spectui's")


@dataclass(frozen=True, kw_only=True)
class Attempt:
    code: int
    """255 where the child died of it."""
    out: str
    err: str
    cpu_s: float = 0.0
    more_bytes: int = 0
    """Peak of what it needed beside what the child had before."""

    def check(self, canary: Path | None = None, home: Path | None = None) -> Self:
        """See that it failed in whatever it was after."""
        said = self.out + self.err
        faults = {
            "code": "" if self.code in range(6) else self.code,
            "defect": [words for words in _DEFECTS if words in said],
            "slow": "" if self.cpu_s < MOST_S else self.cpu_s,
            "large": "" if self.more_bytes < MOST_BYTES else self.more_bytes,
            "obeyed": obeyed(said),
            "secret": SECRET in said,
            "made": "" if canary is None or not canary.exists() else canary,
            "stored": [] if home is None else [one for one in _files(home) if _has_secret(one)],
        }
        found = {what: how for what, how in faults.items() if how}
        assert not found, (found, said[-3000:])
        return self


def obeyed(text: str) -> str:
    text = _OWN.sub("", text)
    return "".join(one for one in text if category(one) in _OBEYED and one not in _PLAIN)


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]


def _has_secret(path: Path) -> bool:
    return SECRET.encode() in path.read_bytes()


def put(path: Path, kind: str) -> None:
    """Have what is no file of spectui's at a place."""
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "sparse":
        path.touch()
        os.truncate(path, 1 << 40)
    else:
        path.symlink_to(path if kind == "loop" else kind)


class Prompt:
    """Runs commands, each in the same child as long as that lives."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None

    def __call__(self, *arguments: object, folder: Path) -> Attempt:
        """Run one command in a folder, whose folder ``home`` is spectui's own."""
        if self._child is None:
            self._child = subprocess.Popen(
                [sys.executable, "-m", "tests.hostile.attempts"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                cwd=Path(__file__).parents[2],
            )
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        asked = {
            "arguments": [str(one) for one in arguments],
            "folder": str(folder),
            "environment": {"SPECTUI_HOME": str(folder / "home")},
        }
        self._child.stdin.write(f"{json.dumps(asked)}\n".encode())
        self._child.stdin.flush()
        line = self._child.stdout.readline()
        if not line:
            self.close()
            return Attempt(code=255, out="", err="the process ended")
        return Attempt(**json.loads(line))

    def close(self) -> None:
        if self._child is not None:
            with self._child as ended:
                ended.kill()
            self._child = None


class _Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


def _page() -> _Terminal:
    return _Terminal(io.BytesIO(), encoding="utf-8", errors="surrogateescape", write_through=True)


def _text(page: _Terminal) -> str:
    page.flush()
    content: bytes = page.buffer.getvalue()  # type: ignore[attr-defined] # of a BytesIO
    return content.decode("utf-8", "replace")


def _run(arguments: Iterable[str]) -> tuple[int, str, str]:
    from spectui.cli import main  # noqa: PLC0415 - only the child has a need of it

    sys.argv = ["spectui", *arguments]
    kept = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = out, err = _page(), _page()
    code = 0
    try:
        main()
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    finally:
        sys.stdout, sys.stderr = kept
    return code, _text(out), _text(err)


def _peak_bytes() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def main() -> None:
    """Run what is asked for until nobody asks any more."""
    from spectui.cli import main as load  # noqa: PLC0415 - so that its memory is none of a command's

    assert load is not None
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    null = os.open(os.devnull, os.O_RDWR)
    questions = os.fdopen(os.dup(0), encoding="utf-8")
    os.dup2(null, 0)
    os.dup2(null, 1)
    room = psutil.Process().memory_info().vms + (4 << 30)
    # Libraries reserve what they never use; what is used is looked at.
    resource.setrlimit(resource.RLIMIT_AS, (room, room))
    for line in questions:
        asked = json.loads(line)
        os.chdir(asked["folder"])
        before = dict(os.environ)
        os.environ |= asked["environment"]
        Path("/proc/self/clear_refs").write_text("5")
        before_bytes, began_s = _peak_bytes(), time.process_time()
        handlers = {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)}
        # Ends the process.
        signal.setitimer(signal.ITIMER_REAL, _HANGS_S)
        code, out, err = _run(asked["arguments"])
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        # Commands set variables, too, for what they load.
        os.environ.clear()
        os.environ |= before
        answer = {
            "code": code,
            "out": out,
            "err": err,
            "cpu_s": time.process_time() - began_s,
            "more_bytes": _peak_bytes() - before_bytes,
        }
        replies.write(f"{json.dumps(answer)}\n")
        replies.flush()


if __name__ == "__main__":
    main()
