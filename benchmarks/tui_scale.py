"""What size costs on screen: a transcript of up to 100,000 tokens.

Runs the real widget in a headless app of 100×24. Times are processor time of the event loop's
thread, so that other programs do not count, and medians: to append one token, to scroll by one line
and to jump to another page, each with what is laid out and painted after it. The longest gap is the
longest time in which the loop served nobody else while the terminal was made narrower and wider;
what was imported is frozen first, so that no gap holds the garbage collection of modules.
"""

import argparse
import asyncio
import gc
import random
import statistics
import time
import tracemalloc
from collections.abc import Callable, Sequence
from itertools import cycle
from typing import Any

from textual.app import ComposeResult
from textual.pilot import Pilot

from benchmarks.common import write_results
from spectui.tui.chat.transcript import Token, Transcript
from spectui.tui.look import ColouredApp

SCREEN = (100, 24)
WIDTHS = (81, 61, 100)
ENGLISH = "The draft proposes tokens, and the target checks them all in one batch. "
JAPANESE = "下書きモデルがトークンを提案し、本番モデルがまとめて検証します。"
TEXTS = {
    "English in paragraphs": ENGLISH * 8 + "\n",
    "Japanese in paragraphs": JAPANESE * 8 + "\n",
    "Japanese in one paragraph": JAPANESE,
}
TOKEN_BYTES = 4
TOKENS_PER_APPEND = 10
DRAFT_SHARE = 0.7
SAMPLES = 50


def main() -> None:
    """Measure and write ``results/tui_scale.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, nargs="+", default=[1_000, 10_000, 30_000, 100_000])
    arguments = parser.parse_args()
    write_results("tui_scale", {"transcript": measure_transcripts(arguments.tokens)})


def measure_transcripts(sizes: Sequence[int]) -> dict[str, dict[str, Any]]:
    """What a transcript costs, by its text and its number of tokens."""
    return {
        name: {str(size): asyncio.run(measure_transcript(text, size)) for size in sizes}
        for name, text in TEXTS.items()
    }


class TranscriptApp(ColouredApp[None]):
    """Nothing but a transcript."""

    def compose(self) -> ComposeResult:
        """Fill the screen with it."""
        yield Transcript()


async def measure_transcript(text: str, n_tokens: int) -> dict[str, float]:
    """Build one up, then append to it, scroll it and resize it."""
    gc.collect()
    gc.freeze()
    app = TranscriptApp()
    async with app.run_test(size=SCREEN) as pilot:
        transcript = app.query_one(Transcript)
        await pilot.pause()
        bytes_per_token = build(transcript, text, n_tokens)
        await pilot.pause()
        extra = tokens_of(text, 1)
        append_s = await median_s(pilot, lambda: transcript.append_tokens(extra))
        return {
            "append_ms": 1e3 * append_s,
            "scroll_line_ms": 1e3 * await median_s(pilot, go_on(transcript)),
            "jump_to_page_ms": 1e3 * await median_s(pilot, jump(transcript)),
            "resize_longest_gap_ms": 1e3 * await longest_gap_s(pilot),
            "bytes_per_token": bytes_per_token,
        }


def tokens_of(text: str, count: int) -> list[Token]:
    """So many tokens of a repeated text, most of them from the draft."""
    chance = random.Random(0)  # noqa: S311 - the same tokens every time, no secret
    data = text.encode() * (count * TOKEN_BYTES // len(text.encode()) + 1)
    starts = range(0, count * TOKEN_BYTES, TOKEN_BYTES)
    return [(data[i : i + TOKEN_BYTES], chance.random() < DRAFT_SHARE) for i in starts]


def build(transcript: Transcript, text: str, n_tokens: int) -> float:
    """Append the tokens and return the bytes that the transcript keeps for each."""
    tokens = tokens_of(text, n_tokens)
    tracemalloc.start()
    transcript.start_turn("assistant")
    for i in range(0, n_tokens, TOKENS_PER_APPEND):
        transcript.append_tokens(tokens[i : i + TOKENS_PER_APPEND])
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return kept / n_tokens


async def median_s(pilot: Pilot[None], run: Callable[[], object]) -> float:
    """Seconds that ``run`` takes, with what is laid out and painted after it."""
    seconds = []
    for _ in range(SAMPLES):
        began = time.thread_time()
        run()
        await pilot.pause()
        seconds.append(time.thread_time() - began)
    return statistics.median(seconds)


def go_on(transcript: Transcript) -> Callable[[], object]:
    """Return what scrolls one line on each time."""
    lines = cycle(range(transcript.max_scroll_y + 1))
    return lambda: transcript.scroll_to(y=next(lines), animate=False)


def jump(transcript: Transcript) -> Callable[[], object]:
    """Return what goes to any other page each time."""
    chance = random.Random(0)  # noqa: S311 - the same pages every time, no secret
    end = transcript.max_scroll_y + 1
    return lambda: transcript.scroll_to(y=chance.randrange(end), animate=False)


async def longest_gap_s(pilot: Pilot[None]) -> float:
    """Longest time between two turns of the event loop during several resizes."""
    gaps = [0.0]
    watch = asyncio.create_task(_watch(gaps))
    for width in WIDTHS:
        await pilot.resize_terminal(width, SCREEN[1])
        await pilot.pause()
    watch.cancel()
    return max(gaps)


async def _watch(gaps: list[float]) -> None:
    last = time.thread_time()
    while True:
        await asyncio.sleep(0)
        now = time.thread_time()
        gaps.append(now - last)
        last = now


if __name__ == "__main__":
    main()
