"""Draw screenshots/*.svg, all but the cast: the real app on the demo models.

    python -m tools.screenshots             # all; pictures that are drawn no more are removed
    python -m tools.screenshots live 80 24  # one run: its name, columns and rows

A pilot types into the app; the engine, the models, the tuner and the readings are the real ones.
Some run on RPC servers of loopback (``python tools/build_llama_server.py rpc`` builds them), one on
a llama-server. ``python -m tools.cast`` draws the moving picture.
"""

import asyncio
import faulthandler
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from textual.pilot import Pilot

from spectui.cli.click_options import request_of
from spectui.cli.cockpit import Cockpit, command, make_launch
from spectui.demo import DemoModel
from spectui.live.pair import SearchRequest
from spectui.live.setup import Activity
from spectui.llama.search import LIBRARY_VARIABLE
from spectui.prompts import builtin_suite
from spectui.server.process import LlamaServer
from spectui.server.watch.locator import parse_address
from spectui.settings import Settings
from spectui.tui.app import SpectuiApp
from spectui.tui.chat.prompt_box import PromptBox
from spectui.tune.progress import Phase, TuningState
from tests.support.rpc import rpc_backend, rpc_build
from tools.demo_folder import PAIR, ROOT, DemoFolder, demo_folder

FOLDER = ROOT / "screenshots"
QUESTION = "Write a short story about a lighthouse keeper."
QUESTIONS = (
    "A list of the days of the week: Monday,",
    "def fibonacci(n):",
    "The lighthouse keeper climbed the stairs and",
)
_LOOK_S = 0.1
_SILENT_S = 30.0
"""Beside other programs an answer of the demo takes minutes."""
_BUSY_S = 1.5
"""Of the last answer, before it is drawn."""
_LONGEST_S = 3600.0
"""A run that takes longer is stuck."""
_GRACE_S = 60.0
"""How long the app may take to end, once its time is over."""


class Stage:
    """An app with a pilot at the keyboard."""

    def __init__(
        self, app: SpectuiApp, pilot: Pilot[None], folder: DemoFolder | None = None
    ) -> None:
        """Drive ``app``; ``folder`` is where it runs, if pictures are saved."""
        self.app = app
        self.pilot = pilot
        self._folder = folder

    async def wait(self, condition: Callable[[], bool]) -> None:
        """Wait for what takes its time, and say now and then what the screen is at."""
        told_s = time.monotonic()
        while not condition():
            await self.pilot.pause(_LOOK_S)
            if time.monotonic() - told_s > _SILENT_S:
                told_s = time.monotonic()
                print(self.text().partition("\n")[0], file=sys.stderr, flush=True)

    def text(self) -> str:
        """What is on the screen."""
        strips = self.app.screen._compositor.render_strips()  # noqa: SLF001 - nothing public has it
        return "\n".join(strip.text.rstrip() for strip in strips)

    async def save(self, name: str) -> None:
        """Write the picture once nothing on the screen is being rebuilt.

        Raises:
            RuntimeError: it shows where this machine keeps its files.
        """
        await self.pilot.pause(_LOOK_S)
        if self._folder is not None:
            self._folder.check(name, self.text())
        size = self.app.size
        path = FOLDER / f"{name}-{size.width}x{size.height}.svg"
        FOLDER.mkdir(exist_ok=True)
        path.write_text(self.app.export_screenshot(simplify=True), encoding="utf-8")
        print(path.relative_to(ROOT))


class Session(Stage):
    """The screen with a pair."""

    async def ready(self) -> None:
        """Wait until the pair is loaded, and idle."""
        await self.wait(lambda: self.app.live.activity is Activity.READY)

    async def measured(self) -> None:
        """Wait for the target's own speed."""
        throughput = self.app.session.tally
        await self.wait(lambda: throughput.state().throughput.baseline_tokens_per_s is not None)

    async def ask(self, text: str) -> None:
        """Send a prompt and wait for the end of the answer."""
        chat, shown = self.app.session.chat, self.app.live.transcript
        n_before = len(shown.paragraphs)
        self.app.live.query_one(PromptBox).text = text
        await self.pilot.press("enter")
        # By what is shown: an answer may have ended before the key has returned.
        await self.wait(lambda: len(shown.paragraphs) > n_before and not chat.is_answering)
        await self.ready()

    async def start_search(self) -> None:
        """Start a short one."""
        session = self.app.session
        if session.engine is None or session.setup is None:
            raise RuntimeError("there is no pair to tune")
        request = SearchRequest(prompts=builtin_suite()[:8])
        session.engine.start_tuning(session.setup, request)
        # The state of before is idle, as that of a search that has ended without a trial.
        tuning = self.app.tune
        await self.wait(lambda: tuning.state is not None and tuning.state.phase is not Phase.IDLE)

    async def searched(self, is_enough: Callable[[TuningState], bool]) -> None:
        """Wait until the search has come so far.

        Raises:
            RuntimeError: it has ended before that.
        """
        tuning = self.app.tune
        await self.wait(
            lambda: (
                tuning.state is not None
                and (is_enough(tuning.state) or not tuning.state.is_running)
            )
        )
        if tuning.state is None or not is_enough(tuning.state):
            raise RuntimeError(f"the search has ended too early: {tuning.state}")


Scenario = Callable[[Session], Awaitable[None]]


async def live(session: Session) -> None:
    """A chat, with and without what was rejected."""
    await session.ready()
    await session.measured()
    await session.ask(QUESTION)
    await session.save("live")
    await session.pilot.press("f2")
    await session.save("rejected")


async def devices(session: Session) -> None:
    """The panels of a pair on devices beyond a network, with the experts in RAM."""
    await session.ready()
    await session.measured()
    await session.ask(QUESTION)
    await session.save("devices")


async def keys(session: Session) -> None:
    """Keys and actions, and the flags of the pair as it runs."""
    await session.ready()
    await session.pilot.press("f1")
    await session.save("help")
    await session.pilot.press("escape", "f6")
    await session.save("export")


async def tune(session: Session) -> None:
    """A search from start to verdict."""
    await session.ready()
    await session.pilot.press("f5")
    await session.save("tune-start")
    await session.start_search()
    await session.searched(lambda state: state.is_confirming and state.n_done > 1)
    await session.save("tuning")
    await session.searched(lambda state: state.result is not None)
    await session.save("tune")


async def what_if(session: Session) -> None:
    """The best setting of each length on two answers, after a search has measured rounds."""
    await session.ready()
    await session.measured()
    await session.start_search()
    await session.searched(lambda state: state.phase is Phase.FINISHED)
    for question in QUESTIONS[:2]:
        await session.ask(question)
    await session.pilot.press("f10")
    await session.wait(lambda: "of 2 answers" in session.text())
    await session.save("what-if")


SCENARIOS: dict[str, Scenario] = {
    "live": live,
    "devices": devices,
    "keys": keys,
    "tune": tune,
    "what-if": what_if,
}
ATTACH = "attach"
DEVICES = "devices"
ALL = (
    ("live", 80, 24),
    ("live", 120, 40),
    ("live", 200, 60),
    ("keys", 120, 40),
    ("tune", 120, 40),
    ("what-if", 120, 40),
    (ATTACH, 120, 40),
    (DEVICES, 160, 48),
)


def run(
    arguments: list[str], size: tuple[int, int], scenario: Scenario, folder: DemoFolder
) -> None:
    """Start the app with ``arguments`` and play the scenario.

    Raises:
        RuntimeError: it is stuck.
    """
    request = request_of(Cockpit, command.make_context("cockpit", arguments))
    app = SpectuiApp(make_launch(request, Settings(keep_sessions=False)))

    async def play() -> None:
        async with app.run_test(size=size) as pilot:
            session = Session(app, pilot, folder)
            await in_time(scenario(session), session)

    # Should the loop itself be stuck, every thread says where, and the process ends.
    faulthandler.dump_traceback_later(_LONGEST_S + _GRACE_S, exit=True)
    try:
        asyncio.run(play())
    finally:
        app.threads.close()
    faulthandler.cancel_dump_traceback_later()


async def in_time(scenario: Awaitable[None], stage: Stage) -> None:
    """Play the scenario.

    Raises:
        RuntimeError: it is stuck.
    """
    try:
        async with asyncio.timeout(_LONGEST_S):
            await scenario
    except TimeoutError as error:
        raise RuntimeError(f"stuck for {_LONGEST_S:g} s:\n{stage.text()}") from error


def watch(server: LlamaServer, size: tuple[int, int], folder: DemoFolder) -> None:
    """Draw what ``spectui attach`` shows of a server that answers."""
    attachment = parse_address(server.base_url, server.api_key)
    request = request_of(Cockpit, command.make_context("cockpit", []))
    launch = make_launch(request, Settings(keep_sessions=False))
    app = SpectuiApp(replace(launch, watched=attachment, look_s=_LOOK_S))

    async def scenario(stage: Stage) -> None:
        await stage.wait(lambda: "connected" in stage.text())
        for question in QUESTIONS:
            asked = asyncio.create_task(asyncio.to_thread(server.complete, question, n_predict=96))
            await stage.wait(lambda: "generating" in stage.text())
            if question is not QUESTIONS[-1]:
                await asked
        await stage.pilot.pause(_BUSY_S)
        await stage.save(ATTACH)
        await asked

    async def play() -> None:
        async with app.run_test(size=size) as pilot:
            stage = Stage(app, pilot, folder)
            await in_time(scenario(stage), stage)

    try:
        asyncio.run(play())
    finally:
        app.threads.close()


@contextmanager
def rpc_devices() -> Iterator[list[str]]:
    """Two RPC servers on loopback, and the options that use them.

    Raises:
        RuntimeError: they are not built.
    """
    build = rpc_build()
    if build is None:
        raise RuntimeError("python tools/build_llama_server.py rpc builds the RPC server first")
    with build.serving(port=50052) as one, build.serving(port=50053) as other, rpc_backend(build):
        yield ["--rpc", f"{one.endpoint},{other.endpoint}", "--cpu-moe"]


def draw(name: str, size: tuple[int, int]) -> None:
    """Run the app in a folder that tells nothing of this machine, and draw it."""
    if name == DEVICES:
        # The RPC backend is of this library's llama.cpp.
        os.environ.setdefault(LIBRARY_VARIABLE, str(server_binary().parent))
    # Looked for while the user's own cache is still in sight.
    binary = server_binary() if name == ATTACH else Path()
    with ExitStack() as stack:
        placed = stack.enter_context(rpc_devices()) if name == DEVICES else []
        folder = stack.enter_context(demo_folder(target_of(name)))
        os.environ.clear()
        os.environ.update(folder.environment)
        os.chdir(folder.path)
        options = [*PAIR, "-c", "2048", *placed]
        if name == ATTACH:
            # All but one core: the screen is to be drawn, too.
            more = ["--spec-type", "draft-simple", "-np", "1", "-t", "1", "--metrics"]
            log = folder.path / "llama-server.log"
            with LlamaServer(binary, [*options, *more], log_path=log) as server:
                watch(server, size, folder)
        else:
            run([*options, "-n", "96"], size, SCENARIOS[name], folder)


def target_of(name: str) -> DemoModel:
    """Return the demo's target of a picture."""
    return DemoModel.MOE if name == DEVICES else DemoModel.DENSE


def server_binary() -> Path:
    """Return the llama-server of the same llama.cpp sources, built on first use."""
    tool = ROOT / "tools" / "build_llama_server.py"
    built = subprocess.run([sys.executable, tool], check=True, capture_output=True, text=True)
    return Path(built.stdout.strip())


def main() -> None:
    """Draw all pictures, each run in a process of its own; or those of the run that is named."""
    if len(sys.argv) == 1:
        for drawn_before in FOLDER.glob("*-*.svg"):
            drawn_before.unlink()
        for name, width, height in ALL:
            program = [sys.executable, "-m", "tools.screenshots", name, str(width), str(height)]
            subprocess.run(program, check=True)
        return
    name, n_columns, n_rows = sys.argv[1:]
    draw(name, (int(n_columns), int(n_rows)))


if __name__ == "__main__":
    main()
