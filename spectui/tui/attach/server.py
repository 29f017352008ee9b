"""Which server it is: its model, its settings, its process."""

from collections.abc import Sequence
from dataclasses import dataclass

from spectui.known import Known
from spectui.models.sizes import counted
from spectui.server.watch.sample import ServerFacts
from spectui.server.watch.state import HostState, LinkState
from spectui.server.watch.words import context_facts, model_facts, model_name
from spectui.tui import units
from spectui.tui.glyphs import Glyphs
from spectui.tui.panels.base import Panel
from spectui.tui.panels.blocks import Block, Lines, block, growing
from spectui.tui.panels.paint import MUTED, PLAIN, STRONG, WARNING, sentence, shortened

_LONGEST_LIST = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentityState:
    """What the panel shows."""

    link: LinkState
    facts: Known[ServerFacts]
    host: HostState
    drafters: tuple[str, ...] = ()


class ServerPanel(Panel[IdentityState]):
    """Shows facts that hardly change."""

    heading = "Server"

    def blocks(self, state: IdentityState, width: int, glyphs: Glyphs) -> Sequence[Block]:
        """Model, context, sleep, process, address, build, connection."""
        facts = state.facts.value
        link = sentence(_link(state.link, glyphs), MUTED, width, glyphs)
        told = "" if state.link.failure is not None else _process(state.host, glyphs)
        process = sentence(told, PLAIN, width, glyphs)
        where = sentence(_where(state, facts), MUTED, width, glyphs)
        around = (growing(20, shortened(process), step=10), growing(25, shortened(where), step=10))
        if facts is None:
            reason = sentence(state.facts.reason or "", MUTED, width, glyphs)
            return (growing(0, shortened(reason)), *around, block((40, link)))
        return (
            growing(0, shortened(sentence(model_name(facts), STRONG, width, glyphs)), step=15),
            block((3, _asleep(facts, width, glyphs))),
            growing(5, shortened(_joined(model_facts(facts), width, glyphs)), step=25),
            growing(10, shortened(_context(state, facts, width, glyphs)), step=25),
            *around,
            block((40, link)),
            block((45, _models(facts, width, glyphs))),
        )


def _joined(facts: Sequence[str], width: int, glyphs: Glyphs) -> Lines:
    return sentence(", ".join(facts), PLAIN, width, glyphs)


def _asleep(facts: ServerFacts, width: int, glyphs: Glyphs) -> Lines:
    if not facts.is_sleeping:
        return ()
    text = "asleep: the model is unloaded until the next request"
    return sentence(text, WARNING, width, glyphs)


def _context(state: IdentityState, facts: ServerFacts, width: int, glyphs: Glyphs) -> Lines:
    drafters = f"drafts by {', '.join(state.drafters)}" if state.drafters else ""
    return _joined(tuple(filter(None, (*context_facts(facts), drafters))), width, glyphs)


def _process(host: HostState, glyphs: Glyphs) -> str:
    process = host.process.value
    if process is None:
        return str(host.process.reason)
    busy = "" if host.cores is None else f", {units.number(host.cores, glyphs, 1)} cores busy"
    size = units.size(process.rss_bytes, glyphs)
    return f"{process.name} {process.pid}: {size} of RAM{busy}"


def _where(state: IdentityState, facts: ServerFacts | None) -> str:
    build = "" if facts is None or facts.build is None else f", llama.cpp {facts.build}"
    return f"{state.link.url}{build}"


def _link(link: LinkState, glyphs: Glyphs) -> str:
    took = f"answers in {units.duration(link.took_s, glyphs)}" if link.is_connected else ""
    restarts = f"restarted {counted(link.n_restarts, 'time')}" if link.n_restarts else ""
    return ", ".join(filter(None, (took, restarts)))


def _models(facts: ServerFacts, width: int, glyphs: Glyphs) -> Lines:
    """List what a router runs."""
    if len(facts.models) <= 1:
        return ()
    more = len(facts.models) - _LONGEST_LIST
    names = ", ".join(facts.models[:_LONGEST_LIST])
    tail = f" and {more} more" if more > 0 else ""
    return sentence(f"models: {names}{tail}", MUTED, width, glyphs)
