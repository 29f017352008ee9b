"""The screen over a running llama-server, and its panels: its work, and the server itself."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import PurePath

from textual.app import ComposeResult
from textual.screen import Screen
from textual.widgets import Static

from spectui.documents import Known
from spectui.format import bytes_text, count_text, counted
from spectui.live.machine import TrafficState
from spectui.live.tally import LiveTally
from spectui.monitor.readings import Reading
from spectui.server.metrics import DraftCounts
from spectui.server.replies import SlotPhase, SlotReply
from spectui.server.watch.sample import ProcessSample, Sample, ServerFacts
from spectui.server.watch.tracker import AttachState, Tracker
from spectui.tui import draw
from spectui.tui.chat.panels import MemoryPanel, cores, disk, links
from spectui.tui.panel import (
    Block,
    Line,
    Lines,
    Look,
    Panel,
    PanelStack,
    Pen,
    cells,
    labelled,
)
from spectui.tui.widgets import KeyBar, StatusBar, key_of

_SMALLEST_BAR = 4
_SPEED = len(" 123.4/s")
_LOOKS = {
    SlotPhase.GENERATING: Look.STRONG,
    SlotPhase.PROMPT: Look.PLAIN,
    SlotPhase.IDLE: Look.MUTED,
}
_PHASE = max(map(len, SlotPhase))


class ServedPanel(Panel[AttachState]):
    """Shows how fast it generates, now and on average, and how fast it reads prompts."""

    heading = "Throughput"

    def blocks(self, state: AttachState, pen: Pen) -> Iterator[Block]:
        """Headline, what is missing, averages, history."""
        now, counters = state.now_tokens_per_s, state.sample.counters
        if now.value is not None:
            yield Block(0, (((draw.tokens_per_s(now.value), Look.STRONG), (" now", Look.MUTED)),))
        # Once, where the reason is the same for all.
        for reason in dict.fromkeys(one.reason for one in (counters, now) if one.value is None):
            yield from pen.wrapped(2, str(reason))
        if (known := counters.value) is not None:
            yield Block(10, _mean("generation", known.tokens_per_s))
            yield Block(20, _mean("prompts", known.prompt_tokens_per_s))
        if any(state.speeds):
            yield Block(15, chart=lambda height: pen.chart(state.speeds, height, draw.per_s))


def _mean(label: str, tokens_per_s: float | None) -> Lines:
    """Mean speed since the server's start; nothing where no request has ended."""
    if tokens_per_s is None:
        return ()
    return (labelled(f"mean {label}", draw.tokens_per_s(tokens_per_s)),)


class DraftsPanel(Panel[AttachState]):
    """Shows acceptance since the server's start, and of the requests that ended last."""

    heading = "Acceptance, since server start"

    def blocks(self, state: AttachState, pen: Pen) -> Iterator[Block]:
        """Headline, the last request, positions, counts."""
        counters = state.sample.counters.value
        counts = None if counters is None else counters.drafts
        if state.sample.undrafted is not None or counts is None:
            yield from pen.wrapped(0, state.sample.undrafted or "")
            return
        yield Block(0, _rate("rate", counts, Look.STRONG, pen))
        yield Block(10, _rate("last request", state.last_drafts, Look.PLAIN, pen))
        if shares := counts.share_per_position:
            yield Block(40, ((("accepted by position, of all drafts", Look.MUTED),),))
            yield Block(30, pen.positions(shares))
        accepted = f"{counts.n_accepted:,} of {counts.n_drafted:,} tokens"
        by = f" of {', '.join(state.sample.drafters)}" if state.sample.drafters else ""
        yield Block(50, pen.sentence(f"{accepted} in {counted(counts.n_drafts, 'draft')}{by}"))


def _rate(label: str, counts: DraftCounts | None, look: Look, pen: Pen) -> Lines:
    if counts is None:
        return ()
    rate, length = counts.acceptance_rate, counts.mean_accepted_length
    return (pen.acceptance(label, rate, length, look),)


class SlotsPanel(Panel[AttachState]):
    """A row per slot: its phase, the used part of its context, its speed."""

    heading = "Slots"

    def blocks(self, state: AttachState, pen: Pen) -> Iterator[Block]:
        """A summary; a row per slot, those at work first if not all fit."""
        slots, waiting = state.sample.slots.value, _waiting(state)
        if slots is None:
            yield from pen.wrapped(0, state.sample.slots.reason or "")
            yield Block(5, (waiting,) if waiting else ())
            return
        n_busy = sum(slot.phase is not SlotPhase.IDLE for slot in slots)
        text = f"{n_busy} of {counted(len(slots), 'slot')} at work"
        look = Look.STRONG if n_busy else Look.MUTED
        yield Block(1, (pen.spread(((text, look),), waiting),))
        speeds = state.slot_tokens_per_s
        for slot in slots:
            is_idle = slot.phase is SlotPhase.IDLE
            yield Block(20 if is_idle else 10, (_slot(slot, speeds.get(slot.id), pen),))


def _waiting(state: AttachState) -> Line:
    counters = None if state.sample.took_s is None else state.sample.counters.value
    n_deferred = 0 if counters is None else counters.n_deferred
    return ((f"▲ {n_deferred} waiting", Look.WARNING),) if n_deferred else ()


def _slot(slot: SlotReply, tokens_per_s: float | None, pen: Pen) -> Line:
    speed = f"{draw.number(tokens_per_s, 1)}/s".rjust(_SPEED)
    if slot.phase is not SlotPhase.GENERATING:
        speed = " " * _SPEED
    left: Line = (
        (f"{slot.id:>2} ", Look.PLAIN),
        (str(slot.phase).ljust(_PHASE), _LOOKS[slot.phase]),
    )
    context = _context(slot)
    room = max(pen.width - cells(left) - len(context) - len(speed) - 2, 1)
    used = " " * room
    if slot.n_ctx and slot.n_used is not None and room >= _SMALLEST_BAR:
        used = draw.bar(slot.n_used / slot.n_ctx, room)
    return (*left, (f" {used} ", Look.CACHE), (context, Look.MUTED), (speed, Look.STRONG))


def _context(slot: SlotReply) -> str:
    """Used and whole context, right-aligned so that bars of all slots begin and end alike."""
    n_ctx, n_used = slot.n_ctx, slot.n_used
    if n_ctx is None:
        return "" if n_used is None else str(n_used)
    used = draw.NONE if n_used is None else str(n_used)
    return f"{used.rjust(len(str(n_ctx)))}/{n_ctx}"


class ServerPanel(Panel[AttachState]):
    """Shows facts that hardly change."""

    heading = "Server"

    def blocks(self, state: AttachState, pen: Pen) -> Iterator[Block]:
        """Model, context, sleep, process, address, build, connection."""
        facts = state.sample.facts.value
        if facts is None:
            yield from pen.wrapped(0, state.sample.facts.reason or "")
        else:
            yield from pen.wrapped(0, model_name(facts), Look.STRONG)
            if facts.is_sleeping:
                asleep = "asleep: the model is unloaded until the next request"
                yield Block(3, pen.sentence(asleep, Look.WARNING))
            yield from pen.wrapped(5, ", ".join(_model_facts(facts)), Look.PLAIN)
            by = [f"drafts by {one}" for one in state.sample.drafters]
            yield from pen.wrapped(10, ", ".join([*_context_facts(facts), *by]), Look.PLAIN)
        if state.failure is None:
            yield from pen.wrapped(20, _process(state.sample.process), Look.PLAIN)
        if state.sample.process.value is not None:
            tunes = key_of(self.app, "app.tune")
            pays = f"{tunes} tells whether a draft pays: it loads these models a second time."
            yield from pen.wrapped(15, pays)
        build = "" if facts is None or facts.build is None else f", llama.cpp {facts.build}"
        yield from pen.wrapped(25, f"{state.url}{build}")


def model_name(facts: ServerFacts) -> str:
    """Return the shortest name that the server gives its model."""
    # Without a name of its own, the alias is the file's path.
    name = facts.alias or facts.model_path
    if name is None:
        return "a model without a name"
    is_file = name.endswith(".gguf")
    return PurePath(name.replace("\\", "/")).stem if is_file else name


def _model_facts(facts: ServerFacts) -> tuple[str, ...]:
    """Return parameters, quantization and size of the weights."""
    parameters = None if facts.n_params is None else f"{count_text(facts.n_params)} parameters"
    size = None if facts.size_bytes is None else bytes_text(facts.size_bytes)
    return tuple(filter(None, (parameters, facts.quantization, size)))


def _context_facts(facts: ServerFacts) -> tuple[str, ...]:
    """Return slots and context."""
    slots = None if facts.n_slots is None else counted(facts.n_slots, "slot")
    context = None if facts.n_ctx is None else f"{facts.n_ctx} tokens of context"
    if slots is not None and context is not None:
        # They may share it (--kv-unified), which the server does not say.
        return (f"{slots} with {f'up to {context} each' if facts.n_slots != 1 else context}",)
    return tuple(filter(None, (slots, context)))


def _process(found: Known[ProcessSample]) -> str:
    process = found.value
    if process is None:
        return str(found.reason)
    return f"{process.name} {process.pid}: {draw.size(process.rss_bytes)} of RAM"


class LoadPanel(Panel[TrafficState]):
    """Shows what moves on the server's machine, and what the server takes of its cores."""

    heading = "PCIe, disk, cores, now"

    def blocks(self, state: TrafficState, pen: Pen) -> Iterator[Block]:
        """Links, disk, cores."""
        if (machine := state.machine) is None:
            yield from pen.wrapped(0, "the machine has not been read yet")
            return
        yield from links(machine.gpus, state.received_history, pen)
        yield from disk(machine.host, state.disk_history, pen)
        yield from cores(machine.host, pen, whose="server")


_PANELS = (ServedPanel, DraftsPanel, SlotsPanel, ServerPanel)


class AttachScreen(Screen[None]):
    """Shows the last sample of the server; never sends a request."""

    TITLE = "Attach"
    HORIZONTAL_BREAKPOINTS = [(0, "-one"), (72, "-two")]  # noqa: RUF012 - as Screen has it
    VERTICAL_BREAKPOINTS = [(0, "-short"), (20, "-tall"), (30, "-large")]  # noqa: RUF012 - as Screen has it

    def __init__(self, url: str, tally: LiveTally) -> None:
        """Show the address before the first sample.

        Args:
            url: the server's.
            tally: has the readings of this machine.
        """
        super().__init__()
        self._tally = tally
        self._tracker = Tracker(url)
        self.loaded_pid: int | None = None
        """The process whose models were loaded here last."""
        self._status = StatusBar()
        self._trouble = Static(markup=False, id="trouble")

    def compose(self) -> ComposeResult:
        """Status, what is wrong, panels, keys."""
        yield self._status
        yield self._trouble
        with PanelStack(id="attached"):
            for kind in _PANELS:
                yield kind()
            yield MemoryPanel()
            yield LoadPanel()
        yield KeyBar()

    def on_mount(self) -> None:
        """Show the beginning."""
        self._show()

    @property
    def pid(self) -> int | None:
        """Id of the server's process; None where it runs elsewhere, or cannot be found."""
        process = self._tracker.state.sample.process.value
        return None if process is None else process.pid

    def take(self, sample: Sample) -> None:
        """Take an answer of the server, or why there is none."""
        could_tune = self.pid is not None
        self._tracker.add(sample)
        with self.app.batch_update():
            self._show()
        if could_tune is not (self.pid is not None):
            self.refresh_bindings()

    def _show(self) -> None:
        state = self._tracker.state
        facts = state.sample.facts.value
        address = state.url.removeprefix("http://")
        name = "" if facts is None else f"  {model_name(facts)}"
        self._status.left.update(f"{address}{name}")
        self._status.right.update(_connection(state))
        failure = state.failure
        wrong = "" if failure is None else f"{failure.reason}; it is asked again every second."
        if wrong and facts is not None:
            wrong += " The numbers are older."
        self._trouble.update(wrong)
        self._trouble.set_class(bool(wrong), "-shown")
        for kind in _PANELS:
            self.query_one(kind).state = state
        self.set_class(state.sample.is_here, "-here")
        if state.sample.is_here:
            self._show_machine(state.sample.process)

    def _show_machine(self, process: Known[ProcessSample]) -> None:
        machine = self._tally.state()
        self.query_one(MemoryPanel).state = machine.memory
        traffic = machine.traffic
        if traffic.machine is not None and process.value is None:
            # The monitor has read this process in its place.
            unread = Reading(None, process.reason)
            host = replace(
                traffic.machine.host,
                disk_read_bytes_per_s=unread,
                major_faults_per_s=unread,
                process_cores=unread,
            )
            traffic = replace(traffic, machine=replace(traffic.machine, host=host))
        self.query_one(LoadPanel).state = traffic


def _connection(state: AttachState) -> str:
    """Return the state of the connection, in a few words."""
    if state.failure is not None:
        return state.failure.trouble
    if state.sample.took_s is None:
        return "connecting"
    return "connected, answers late" if state.sample.is_late else "connected"
