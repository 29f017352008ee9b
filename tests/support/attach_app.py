"""The attach screen over a script."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import cast

from textual.pilot import Pilot

from spectui.monitor.readings import Snapshot
from spectui.server.attached.address import parse_address
from spectui.server.attached.poller import Attachment
from spectui.settings import Settings
from spectui.tui.attach.app import AttachApp, AttachBackstage, AttachLaunch
from spectui.tui.mailbox import Mailbox
from tests.support.cockpit import handled

URL = "http://localhost:8080"


class ScriptedBackstage(AttachBackstage):
    """Asks nobody."""

    def __init__(self, mailbox: Mailbox[object]) -> None:
        super().__init__(mailbox, Attachment(address=parse_address(URL)), 0.5)
        self.post = mailbox.put
        self.n_tries = 0
        self.n_started = 0
        self.readings: list[Snapshot] = []
        """Of the machine, for when it is watched."""

    def start(self) -> None:
        self.n_started += 1

    def watch_machine(self, interval_s: float) -> None:
        del interval_s
        readings, self.readings = self.readings, []
        for snapshot in readings:
            self.post(snapshot)

    def try_now(self) -> None:
        self.n_tries += 1


class Watched:
    """An app with its script."""

    def __init__(
        self,
        *,
        settings: Settings | None = None,
        theme: str | None = None,
        ascii: bool = False,  # noqa: A002 - the option's name
    ) -> None:
        launch = AttachLaunch(url=URL, settings=settings or Settings(), theme=theme, ascii=ascii)
        self.app = AttachApp(launch, ScriptedBackstage)
        self.backstage = cast("ScriptedBackstage", self.app.backstage)

    async def told(self, pilot: Pilot[None], *events: object) -> None:
        """Let events come, and wait until they are shown."""
        for event in events:
            self.backstage.post(event)
        await shown(pilot)

    def run(
        self, scenario: Callable[[Pilot[None]], Awaitable[None]], size: tuple[int, int] = (120, 40)
    ) -> None:
        """Drive it."""

        async def drive() -> None:
            async with self.app.run_test(size=size) as pilot:
                await handled(pilot)
                await scenario(pilot)

        asyncio.run(drive())


async def shown(pilot: Pilot[None]) -> None:
    """Wait until every event is collected, at the pace of the screen."""
    app = pilot.app
    assert isinstance(app, AttachApp)
    async with asyncio.timeout(60):
        while app._mailbox._is_awake:
            await pilot.pause(0.02)
    await handled(pilot)
