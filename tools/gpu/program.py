"""The program on the device: its verdict, and its screen."""

import asyncio
import json
import subprocess
import sys
from typing import Any

from spectui.cli.click_options import request_of
from spectui.cli.cockpit import Cockpit, make_launch
from spectui.cli.cockpit import command as cockpit
from spectui.engine.commands import Generate, LoadTarget, Tokenize
from spectui.engine.driver import Engine
from spectui.options.drafters import DraftSimple
from spectui.options.speculation import Speculation
from spectui.settings import Settings
from spectui.tui.app import SpectuiApp
from tools.gpu.card import CONTEXT, Card
from tools.screenshots import QUESTION, Session


def verdict(card: Card) -> dict[str, Any]:
    """The verdict on a pair that knows words, and what the server makes of its promise."""
    budget = ["--trials", "2", "-n", "8"] if card.is_small else ["--time-budget", "2m"]
    study = ("--storage", f"sqlite:///{card.folder / 'studies.sqlite3'}")
    return {
        "tune": spectui(card, "tune", *card.options, *budget, *study, "--study", "gpu"),
        "verify": spectui(card, "verify", "gpu", *study, "--server-bin", str(card.program)),
    }


def spectui(card: Card, *words: str) -> dict[str, Any]:
    """Run one of the commands, and return its document.

    Raises:
        RuntimeError: it has none.
    """
    found = card.folder / f"{words[0]}.json"
    program = [sys.executable, "-c", "from spectui.cli import main; main()"]
    code = subprocess.run([*program, *words, "--json", str(found)], check=False).returncode
    if not found.exists():
        raise RuntimeError(f"{words[0]} ended with {code} and without a result")
    document: dict[str, Any] = json.loads(found.read_text("utf-8"))
    return document


def screen(card: Card) -> dict[str, Any]:
    """The live screen in three sizes, as pictures; its speed over that without a screen."""
    sizes = ((80, 24),) if card.is_small else ((80, 24), (120, 40), (200, 60))
    under_it = [asyncio.run(_answered(card, size)) for size in sizes]
    target, draft = card.pair
    with Engine() as engine:
        engine.load_target(LoadTarget(options=target, context=CONTEXT, max_draft=16))
        engine.load_draft(draft)
        command = Generate(
            prompt=engine.tokenize(Tokenize(messages=(("user", QUESTION),))),
            n_predict=128,
            speculation=Speculation(DraftSimple(draft_max=3)),
        )
        alone = [engine.generate(command).tokens_per_s for _ in range(2)][-1]
    return {"tokens_per_s": under_it, "tokens_per_s_without_a_screen": alone}


async def _answered(card: Card, size: tuple[int, int]) -> float | None:
    """Answer a question under the screen; tokens/s of the turn."""
    request = request_of(Cockpit, cockpit.make_context("cockpit", [*card.options, "--temp", "0"]))
    app = SpectuiApp(make_launch(request, Settings(keep_sessions=False)))
    try:
        async with app.run_test(size=size) as pilot:
            session = Session(app, pilot)
            await session.ready()
            await session.measured()
            await session.ask(QUESTION)
            picture = app.export_screenshot(simplify=True)
            speed = app.session.tally.state().throughput.turn_tokens_per_s
    finally:
        app.threads.close()
    name = f"gpu-{size[0]}x{size[1]}.svg"
    (card.folder.parent / name).write_text(picture, encoding="utf-8")
    return speed
