"""The head of a report: answer, gain, and the numbers that everybody asks for first."""

from collections.abc import Iterator
from dataclasses import dataclass

from spectui.format import counted, gain_percent, rate_text, times_text
from spectui.measure.verdict import Basis
from spectui.report.content import Content
from spectui.report.words import file_name, interval_text, short, time_text

_SLOWER_FIRST = 1.1
"""Factor from which on a first token that comes later is worth a word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """A number without and with the draft."""

    name: str
    off: str
    on: str | None = None


def tone(content: Content) -> str:
    """How the answer is coloured: ``use``, ``off`` or ``even``."""
    verdict = content.verdict
    if verdict is None:
        return "even"
    if verdict.use_speculation:
        return "use"
    return "off" if verdict.answer in {None, "off"} else "even"


def gain_words(content: Content) -> str:
    """What the speedup means, behind its number."""
    gain = content.gain
    if gain is None:
        return ""
    told = gain_percent(100 * (gain.speedup - 1), 0)
    return f"as fast while writing ({told})"


def certainty(content: Content) -> str:
    """The interval of the gain in words."""
    gain = content.gain
    if gain is None:
        return ""
    prompts = counted(gain.n_prompts, "prompt")
    if gain.low is None or gain.high is None:
        return f"{prompts}, without an interval"
    interval = interval_text(gain.low, gain.high)
    if content.verdict is not None and content.verdict.basis is Basis.SAME:
        return f"{interval} on the {prompts} that chose it, which prove nothing"
    if content.verdict is not None and content.verdict.basis is Basis.THESE:
        return f"{interval} with 95 % confidence, for just {prompts}"
    return f"{interval} with 95 % confidence, {prompts}"


def reason(content: Content) -> str:
    """The verdict's own sentence."""
    if content.verdict is None:
        return (
            "The search ended before it had found one; its spectui tune command goes on from there."
        )
    return content.verdict.reason


def tiles(content: Content) -> tuple[Tile, ...]:
    """Numbers without and with the best setting."""
    return tuple(_tiles(content))


def _tiles(content: Content) -> Iterator[Tile]:
    if content.rates is not None:
        off, on = content.rates
        yield Tile(name="tokens per second", off=rate_text(off), on=rate_text(on))
    request = next(iter(content.document.requests or ()), None)
    if request is not None:
        total, first = request.total_s, request.time_to_first_token_s
        shape = f"{request.n_prompt:,} + {request.n_answer:,} tokens"
        yield Tile(
            name=f"whole request ({shape})", off=time_text(total.off), on=time_text(total.on)
        )
        yield Tile(name="first token after", off=time_text(first.off), on=time_text(first.on))
    if content.document.lossless is not None:
        yield Tile(name="text", off="the same" if content.document.lossless else "changed")


def who(content: Content) -> str:
    """Which models, on which machine, when."""
    target, machine = content.document.target, content.document.machine
    parts = [] if target is None else [file_name(target)]
    if content.setting is not None:
        parts.append(f"best setting {short(content.setting)}")
    if machine is not None:
        gpus = f", {', '.join(map(short, machine.gpus[:4]))}" if machine.gpus else ""
        parts.append(f"on {short(machine.cpu)}{gpus}")
    if content.ended is not None:
        parts.append(f"{content.ended:%Y-%m-%d}")
    return ", ".join(parts)


def speedup_text(content: Content) -> str | None:
    """The speedup, such as ``1.18×``."""
    return None if content.gain is None else times_text(content.gain.speedup)
