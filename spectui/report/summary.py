"""The head of a report: answer, gain, and the numbers that everybody asks for first."""

from collections.abc import Iterator
from dataclasses import dataclass

from spectui.format import counted, gain_percent, rate_text, time_text, times_text
from spectui.measure.verdict import Basis
from spectui.report.content import Content
from spectui.report.section import file_name, interval_text, short

_NO_VERDICT = (
    "The search ended before it had found one; its spectui tune command goes on from there."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """A number without and with the draft."""

    name: str
    off: str
    on: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """Head of a report."""

    tone: str
    """How the answer is coloured: ``use``, ``off`` or ``even``."""
    headline: str
    gain: str | None
    """The speedup, such as ``1.18×``; None where none was confirmed."""
    gain_words: str
    """Meaning of the gain, behind its number."""
    interval: str
    """The interval in words."""
    reason: str
    """The verdict's own sentence."""
    tiles: tuple[Tile, ...]
    who: str
    """Which models, on which machine, when."""


def head_of(content: Content) -> Head:
    """The head of a study's report."""
    gain, verdict = content.gain, content.verdict
    tone = "even"
    if verdict is not None and verdict.use_speculation:
        tone = "use"
    elif verdict is not None and verdict.answer in {None, "off"}:
        tone = "off"
    percent = "" if gain is None else gain_percent(100 * (gain.speedup - 1), 0)
    return Head(
        tone=tone,
        headline=content.headline,
        gain=None if gain is None else times_text(gain.speedup),
        gain_words=f"as fast while writing ({percent})" if percent else "",
        interval=_certainty(content),
        reason=_NO_VERDICT if verdict is None else verdict.reason,
        tiles=tuple(_tiles(content)),
        who=_who(content),
    )


def _certainty(content: Content) -> str:
    gain, basis = content.gain, None if content.verdict is None else content.verdict.basis
    if gain is None:
        return ""
    prompts, interval = counted(gain.n_prompts, "prompt"), interval_text(gain.interval)
    if gain.interval is None:
        return f"{prompts}, without an interval"
    if basis is Basis.SAME:
        return f"{interval} on the {prompts} that chose it, which prove nothing"
    just = "for just " if basis is Basis.THESE else ""
    return f"{interval} with 95 % confidence, {just}{prompts}"


def _tiles(content: Content) -> Iterator[Tile]:
    """Numbers without and with the best setting."""
    if content.rates is not None:
        off, on = map(rate_text, content.rates)
        yield Tile(name="tokens per second", off=off, on=on)
    request = next(iter(content.document.requests or ()), None)
    if request is not None:
        total, first = request.total_s, request.time_to_first_token_s
        name = f"whole request ({request.shape})"
        yield Tile(name=name, off=time_text(total.off), on=time_text(total.on))
        yield Tile(name="first token after", off=time_text(first.off), on=time_text(first.on))
    if content.document.lossless is not None:
        yield Tile(name="text", off="the same" if content.document.lossless else "changed")


def _who(content: Content) -> str:
    target, machine = content.document.target, content.document.machine
    parts = [] if target is None else [file_name(target)]
    if content.best is not None:
        parts.append(f"best setting {short(content.best.label)}")
    if machine is not None:
        parts.append(", ".join(map(short, (f"on {machine.cpu}", *machine.gpus[:4]))))
    if content.ended is not None:
        parts.append(f"{content.ended:%Y-%m-%d}")
    return ", ".join(parts)
