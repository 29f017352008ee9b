"""Draw screenshots/cast.svg: a session of the real program, from a command to a verdict.

    python -m tools.cast

A shell in a pseudo terminal runs spectui on the demo models. Keys are typed when the screen has
what they answer; every screen is kept with its time. The film is that recording with the waiting
cut short, each cut marked as a time-lapse, over the real clock. It takes some eight minutes on two
cores that do nothing else; beside other programs the numbers in the picture are slow.
"""

import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path

from spectui import prompts
from tools.animated_svg import draw
from tools.demo_folder import PAIR, ROOT, DemoFolder, demo_folder
from tools.film import Scene, cut
from tools.recorder import Recorder

PICTURE = ROOT / "screenshots" / "cast.svg"
VERDICT = re.compile(r"(?:Use it|Leave it off|Turn it off|Not decided)\b")
"""How each sentence of a verdict begins."""
_SIZE = 112, 36
_PROMPTS, _N_PROMPTS = "prompts.jsonl", 16
_ASKED = "Write a short story about a lighthouse keeper."
_ABOUT = (
    "A terminal: spectui chats with a pair of models while panels show acceptance and speed, then "
    "searches for the best draft settings, gives its verdict and the llama-server command."
)
_F5, _F6, _RIGHT = "\x1b[15~", "\x1b[17~", "\x1b[C"
_SOON_S, _LOAD_S, _SEARCH_S = 60.0, 300.0, 3600.0
"""The longest that an answer to a key, a load and a search may take."""


def main() -> None:
    """Record, cut and draw."""
    with demo_folder() as folder:
        _write_prompts(folder.path / _PROMPTS)
        with _shell(folder) as terminal:
            scenes = _play(terminal)
        for frame in terminal.frames:
            folder.check(PICTURE.name, frame.text)
    film, end_s = cut(terminal.frames, scenes)
    drawn = draw(film, end_s=end_s, title="spectui", about=_ABOUT)
    PICTURE.write_text(drawn, encoding="utf-8")
    size_kb = PICTURE.stat().st_size / 1000
    real_s = scenes[-1].end_s
    print(f"{PICTURE.relative_to(ROOT)}: {end_s:.1f} s of {real_s:.0f} s, {size_kb:.0f} kB")


def _play(terminal: Recorder) -> list[Scene]:
    """Type, wait for what comes, and say which part of the recording is which scene."""
    scenes: list[Scene] = []

    def scene(
        caption: str, *, longest_s: float, hold_s: float = 0.0, is_typed: bool = False
    ) -> None:
        terminal.settle()
        print(f"{terminal.now_s:5.0f} s  {caption}", flush=True)
        scenes.append(
            Scene(
                caption=caption,
                begin_s=scenes[-1].end_s if scenes else 0.0,
                end_s=terminal.now_s,
                longest_s=longest_s,
                hold_s=hold_s,
                is_typed=is_typed,
            )
        )

    terminal.wait("$", longest_s=_SOON_S)
    terminal.type_text(shlex.join(["spectui", *PAIR, "-n", "40", "--temp", "0"]))
    scene("A model, and a small one that drafts for it", longest_s=1.6, is_typed=True)
    terminal.press("\r")
    terminal.wait(" ready ", longest_s=_LOAD_S)
    # Without a draft, too: what the first answer is compared with.
    terminal.wait(lambda text: "not measured yet" not in text, longest_s=_LOAD_S)
    scene("Loaded, and timed without a draft", longest_s=1.2)
    terminal.type_text(_ASKED)
    scene("Ask something", longest_s=1.2, is_typed=True)
    terminal.press("\r")
    terminal.wait(" answering ", longest_s=_SOON_S)
    terminal.wait(" ready ", longest_s=_LOAD_S)
    scene("Underlined tokens are drafted: how many hold, and does it pay?", longest_s=4, hold_s=0.8)
    terminal.press(_F5)
    terminal.wait("built-in", longest_s=_SOON_S)
    terminal.press(_RIGHT)
    terminal.wait("path", longest_s=_SOON_S)
    terminal.press("\t")
    terminal.type_text(_PROMPTS)
    scene("F5 searches for something better, on your prompts", longest_s=1.6, is_typed=True)
    terminal.press("\r")
    terminal.wait(lambda text: VERDICT.search(text) is not None, longest_s=_SEARCH_S)
    scene("Every setting is replayed, the best few are measured", longest_s=4.5, hold_s=2.5)
    terminal.press(_F6)
    terminal.wait("llama-server -m", longest_s=_SOON_S)
    scene("F6: the verdict, and the command for your server", longest_s=0.2, hold_s=4.5)
    return scenes


@contextmanager
def _shell(folder: DemoFolder) -> Iterator[Recorder]:
    """Start a shell in which ``spectui`` is the one that this Python has."""
    programs = folder.path / "bin"
    programs.mkdir()
    program = programs / "spectui"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m spectui "$@"\n', encoding="utf-8")
    program.chmod(0o700)
    environment = folder.environment | {
        "PATH": f"{programs}:{folder.environment['PATH']}",
        "PYTHONPATH": str(ROOT),
        "TERM": "xterm-256color",
        "COLORTERM": "truecolor",
        "PS1": "$ ",
    }
    shell = ("bash", "--norc", "--noprofile")
    with Recorder(shell, environment, size=_SIZE, folder=folder.path) as terminal:
        yield terminal


def _write_prompts(path: Path) -> None:
    """Write the shortest of the built-in prompts, which are read soonest, as a user's own."""
    suite = (resources.files(prompts) / "suite.jsonl").read_text("utf-8").splitlines(keepends=True)
    path.write_text("".join(sorted(suite, key=len)[:_N_PROMPTS]), encoding="utf-8")


if __name__ == "__main__":
    main()
