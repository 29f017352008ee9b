"""Draw screenshots/*.svg: the real app on the demo models, and on the readings of a GPU machine.

    python tools/screenshots.py

A pilot types into the app; the engine, the models and the tuner are the real ones. One picture
replays tests/data/monitor-gpu.jsonl, whose header says whether a machine or a program made it.
"""

import asyncio
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from os import environ
from pathlib import Path

from textual.pilot import Pilot

from spectui.cli.cockpit import command
from spectui.cli.run_cockpit import make_launch
from spectui.paths import HOME_VARIABLE, cache_dir
from spectui.prompts import builtin_suite
from spectui.settings import Settings
from spectui.tui.app import SpectuiApp
from spectui.tui.screens.live import Activity
from spectui.tui.widgets.prompt_box import PromptBox

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "screenshots"
RECORDING = ROOT / "tests" / "data" / "monitor-gpu.jsonl"
QUESTION = "Write a short story about a lighthouse keeper."
_WAIT_S = 900.0
_LOOK_S = 0.1


class Session:
    """The app with a pilot at the keyboard."""

    def __init__(self, app: SpectuiApp, pilot: Pilot[None]) -> None:
        """Drive ``app``."""
        self.app = app
        self.pilot = pilot

    async def wait(self, condition: Callable[[], bool]) -> None:
        """Wait for the engine, which takes its time."""
        async with asyncio.timeout(_WAIT_S):
            while not condition():
                await self.pilot.pause(_LOOK_S)

    async def ready(self) -> None:
        """Wait until the pair is loaded, and idle."""
        await self.wait(lambda: self.app.live.activity is Activity.READY)

    async def measured(self) -> None:
        """Wait for the target's own speed."""
        throughput = self.app.director.talk.tally
        await self.wait(lambda: throughput.state().throughput.baseline_tokens_per_s is not None)

    async def ask(self, text: str) -> None:
        """Send a prompt and wait for the end of the answer."""
        self.app.live.query_one(PromptBox).text = text
        await self.pilot.press("enter")
        await self.wait(lambda: self.app.live.activity is Activity.ANSWERING)
        await self.ready()

    def save(self, name: str) -> None:
        """Write the picture."""
        FOLDER.mkdir(exist_ok=True)
        path = FOLDER / f"{name}.svg"
        path.write_text(self.app.export_screenshot(simplify=True), encoding="utf-8")
        print(path.relative_to(ROOT))


Scenario = Callable[[Session], Awaitable[None]]


async def live(session: Session) -> None:
    """A chat, with and without what was rejected."""
    await session.ready()
    await session.measured()
    await session.ask(QUESTION)
    session.save(f"live-{_size(session)}")
    await session.pilot.press("f2")
    session.save(f"rejected-{_size(session)}")


async def gpu(session: Session) -> None:
    """The panels with the readings of a machine that has a GPU."""
    await session.ready()
    await session.measured()
    await session.ask(QUESTION)
    session.save(f"gpu-{_size(session)}")


async def tune(session: Session) -> None:
    """A search from start to verdict."""
    await session.ready()
    await session.pilot.press("f5")
    await session.pilot.pause(_LOOK_S)
    session.save(f"tune-start-{_size(session)}")
    session.app.director.start_tuning(builtin_suite()[:6], n_trials=6)
    state = session.app.tuning
    await session.wait(lambda: state.state is not None and len(state.state.records) >= 4)  # noqa: PLR2004 - half of it
    session.save(f"tuning-{_size(session)}")
    await session.wait(lambda: state.state is not None and not state.state.is_running)
    await session.pilot.pause(_LOOK_S)
    session.save(f"tune-{_size(session)}")


def _size(session: Session) -> str:
    size = session.app.size
    return f"{size.width}x{size.height}"


def run(arguments: list[str], size: tuple[int, int], scenario: Scenario) -> None:
    """Start the app with ``arguments`` and play ``scenario``."""
    parsed = dict(command.make_context("cockpit", arguments).params)
    app = SpectuiApp(make_launch(parsed, Settings(keep_sessions=False), extra=()))

    async def play() -> None:
        async with app.run_test(size=size) as pilot:
            await scenario(Session(app, pilot))

    try:
        asyncio.run(play())
    finally:
        app.backstage.close()


SCENARIOS: dict[str, tuple[list[str], Scenario]] = {
    "live": ([], live),
    "gpu": (["--monitor-replay", str(RECORDING)], gpu),
    "tune": ([], tune),
}
PICTURES = (("live", 80, 24), ("live", 120, 40), ("gpu", 200, 60), ("tune", 120, 40))


def main() -> None:
    """Draw all pictures, each run in a process of its own; or the one that is named."""
    if len(sys.argv) == 1:
        for name, width, height in PICTURES:
            command = [sys.executable, __file__, name, str(width), str(height)]
            subprocess.run(command, check=True)
        return
    name, n_columns, n_rows = sys.argv[1:]
    options, scenario = SCENARIOS[name]
    models = cache_dir() / "demo"
    with tempfile.TemporaryDirectory() as home:
        # Studies of this machine's user are not to be shown, nor is anything to be left in them.
        environ[HOME_VARIABLE] = home
        (Path(home) / "cache").mkdir()
        (Path(home) / "cache" / "demo").symlink_to(models)
        run(["--demo", "-n", "96", *options], (int(n_columns), int(n_rows)), scenario)


if __name__ == "__main__":
    main()
