"""The attach screen over a script."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

from textual.pilot import Pilot

from spectui.monitor.readings import Snapshot
from spectui.server.address import parse_address
from spectui.server.watch.poller import Attachment, Poller
from spectui.settings import Settings
from spectui.tui.attach.app import AttachApp, AttachLaunch
from spectui.tui.threads import Monitor
from tests.support.cockpit import handled

URL = "http://localhost:8080"


class ScriptedPoller(Poller):
    """Asks nobody."""

    n_tries = 0
    n_started = 0

    def start(self) -> None:
        self.n_started += 1

    def try_now(self) -> None:
        self.n_tries += 1


class ScriptedMonitor(Monitor):
    """Reads what the test has laid out."""

    def __init__(self, post: Callable[[object], None]) -> None:
        super().__init__(post)
        self.post = post
        self.readings: list[Snapshot] = []

    def start(self, interval_s: float, replay: Path | None = None) -> None:
        del interval_s, replay
        readings, self.readings = self.readings, []
        for snapshot in readings:
            self.post(snapshot)


class Watched:
    def __init__(
        self,
        *,
        settings: Settings | None = None,
        theme: str | None = None,
        ascii: bool = False,  # noqa: A002 - the option's name
    ) -> None:
        launch = AttachLaunch(
            attachment=Attachment(address=parse_address(URL)),
            interval_s=0.5,
            settings=settings or Settings(),
            theme=theme,
            ascii=ascii,
        )
        self.app = AttachApp(launch, ScriptedPoller, ScriptedMonitor)
        self.poller = cast("ScriptedPoller", self.app.poller)
        self.monitor = cast("ScriptedMonitor", self.app.monitor)

    async def told(self, pilot: Pilot[None], *events: object) -> None:
        """Let events come, and wait until they are shown."""
        for event in events:
            self.monitor.post(event)
        await shown(pilot)

    @asynccontextmanager
    async def running(self, size: tuple[int, int] = (120, 40)) -> AsyncIterator[Pilot[None]]:
        async with self.app.run_test(size=size) as pilot:
            await handled(pilot)
            yield pilot


async def shown(pilot: Pilot[None]) -> None:
    """Wait until every event is collected, at the pace of the screen."""
    app = pilot.app
    assert isinstance(app, AttachApp)
    async with asyncio.timeout(60):
        while app._mailbox._is_awake:
            await pilot.pause(0.02)
    await handled(pilot)
