"""``spectui serve``: the screen in a real browser, and who is kept out."""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from tests.support.chromium import PROGRAM, browser
from tests.support.models import CLOSE_DRAFT, TARGET, TinyPath

pytest_plugins = ["tests.support.fixtures"]

ENTER, F5 = ("Enter", 13), ("F5", 116)
FORBIDDEN, SEE_OTHER = 403, 303


class Served:
    """A ``spectui serve`` that runs."""

    def __init__(self, process: subprocess.Popen[str], address: str) -> None:
        self.process = process
        self.address = address
        self.origin, _, self.token = address.partition("/?token=")

    def get(self, path: str, **headers: str) -> int:
        return httpx.get(f"{self.origin}{path}", headers=headers).status_code

    def screens(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children()


@pytest.fixture
def served(tiny: TinyPath, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    monkeypatch.setenv("SPECTUI_HOME", str(tmp_path / "home"))
    pair = ("-m", tiny(TARGET), "-md", tiny(CLOSE_DRAFT), "-c", 512, "-t", 1, "-n", 12)
    arguments = ["serve", "--port", "0", *map(str, pair), "--ignore-eos"]
    with subprocess.Popen(
        [sys.executable, "-m", "spectui", *arguments], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield Served(process, process.stdout.readline().strip())
        finally:
            process.send_signal(signal.SIGINT)
            process.wait()


def test_only_who_has_the_token_gets_in(served: Served) -> None:
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[\w-]{32}", served.address)
    wrong = f"/?token={served.token[:-1]}{'y' if served.token.endswith('x') else 'x'}"
    for path in ("/", "/ws", "/static/js/textual.js", "/download/key", wrong):
        assert served.get(path) == FORBIDDEN
    with_token = f"/?token={served.token}"
    assert served.get(with_token) == SEE_OTHER
    assert served.get(with_token, Host="evil.example") == FORBIDDEN
    assert served.get(with_token, Origin="http://evil.example") == FORBIDDEN
    port = served.origin.rpartition(":")[2]
    cookie = f"spectui-{port}={served.token}"
    assert served.get("/", Cookie=cookie) == httpx.codes.OK
    assert served.get("/ws", Cookie=cookie) == FORBIDDEN
    assert served.get("/ws", Cookie=cookie, Origin="http://evil.example") == FORBIDDEN
    assert served.screens() == []


def test_options_that_the_screen_refuses_are_refused_at_once() -> None:
    for wrong in (["--no-such-option"], ["tune"], ["-m", "missing.gguf", "--draft-max", "x"]):
        done = subprocess.run(
            [sys.executable, "-m", "spectui", "serve", "--port", "0", *wrong],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stdout) == (2, "")


@pytest.mark.ci
@pytest.mark.skipif(PROGRAM is None, reason="needs Debian's chromium")
def test_a_chat_and_a_search_in_a_browser(served: Served, tmp_path: Path) -> None:
    with browser(tmp_path / "chromium") as page:
        page.open(served.address, width=1400, height=900)
        assert page.value("location.search") == ""
        page.see("Ask something")
        page.see("target alone")
        page.value("document.querySelector('textarea').focus()")
        page.type("hello there")
        page.see("hello there")
        page.press(*ENTER)
        page.see("tokens/round")
        page.press(*F5)
        page.see("Press Enter to start")
        page.press(*ENTER)
        page.see("Tuning: ")
        assert all(url.startswith(served.origin) for url in page.requests)
        [screen] = served.screens()
    # A page that is closed hangs up.
    assert screen.wait(timeout=60) is not None or not screen.is_running()
