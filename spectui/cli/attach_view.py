"""Renders the facts of a running llama-server as text."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from spectui.cli.drawing import drawn, wrapped
from spectui.format import bytes_text, counted
from spectui.monitor.readings import Reading
from spectui.server.watch.state import AttachState, DraftState, ServedState, SlotsState, Work
from spectui.server.watch.words import model_name, model_text


def told(state: AttachState) -> str:
    """Render all sections."""
    return drawn(*_parts(state))


def _parts(state: AttachState) -> Iterator[RenderableType]:
    yield from _section("Server", _server(state))
    yield from _section("Throughput", _throughput(state.served))
    yield from _section("Acceptance", _acceptance(state.drafts))
    yield Text("Slots", style="bold")
    yield _slots(state.slots)


def _section(title: str, lines: Iterator[str]) -> Iterator[RenderableType]:
    yield Text(title, style="bold")
    yield from (Text(wrapped(line)) for line in lines)
    yield Text("")


def _server(state: AttachState) -> Iterator[str]:
    facts = state.facts.value
    if facts is None:
        yield f"{state.link.url}: {state.facts.reason}"
    else:
        build = "" if facts.build is None else f", llama.cpp {facts.build}"
        yield f"{state.link.url}{build}"
        yield f"{model_name(facts)}: {model_text(facts)}"
        if facts.models_reason is not None:
            yield f"size and parameters: {facts.models_reason}"
        if facts.is_sleeping:
            yield "it sleeps: the model is unloaded until the next request"
    process = state.host.process.value
    if process is None:
        yield f"process: {state.host.process.reason}"
        return
    busy = "" if state.host.cores is None else f", {state.host.cores:.1f} cores busy"
    memory = bytes_text(process.rss_bytes)
    yield f"{process.name}, process {process.pid} on this machine: {memory} of RAM{busy}"


def _throughput(served: ServedState) -> Iterator[str]:
    now = served.now_tokens_per_s
    rests = served.work is Work.IDLE
    yield str(served.work) if rests else f"{served.work}: {_speed(now)}"
    counters = served.counters.value
    if counters is None:
        if served.counters.reason != now.reason:
            yield f"since the start: {served.counters.reason}"
        return
    yield f"generation since the start: {_speed(served.mean_tokens_per_s)}"
    yield f"prompts since the start: {_speed(served.mean_prompt_tokens_per_s)}"
    cached = "" if counters.n_prompt_cached is None else f", {counters.n_prompt_cached} cached"
    yield (
        f"{counters.n_predicted} generated; prompts: {counters.n_prompt} evaluated{cached}; "
        f"{counted(counters.n_processing, 'request')} at work, {counters.n_deferred} waiting"
    )


def _speed(reading: Reading) -> str:
    return str(reading.reason) if reading.value is None else f"{reading.value:.1f} tokens/s"


def _acceptance(drafts: DraftState) -> Iterator[str]:
    counts = drafts.overall
    if drafts.reason is not None or counts is None or counts.acceptance_rate is None:
        yield str(drafts.reason)
        return
    yield (
        f"{counts.acceptance_rate:.2f} of {counted(counts.n_drafted, 'drafted token')} accepted, "
        f"{counts.mean_accepted_length:.2f} tokens per round"
    )
    if counts.share_per_position:
        shares = ", ".join(f"{share:.2f}" for share in counts.share_per_position)
        yield f"accepted at position 1, 2, ... of all {counts.n_drafts} drafts: {shares}"


def _slots(slots: SlotsState) -> RenderableType:
    if slots.reason is not None:
        return Text(wrapped(slots.reason))
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("slot", justify="right")
    table.add_column("state")
    for heading in ("context", "of", "generated", "left", "tokens/s"):
        table.add_column(heading, justify="right")
    for slot in slots.slots:
        sample = slot.sample
        numbers = (sample.n_used, sample.n_ctx, sample.n_decoded, sample.n_remaining)
        speed = "" if slot.tokens_per_s is None else f"{slot.tokens_per_s:.1f}"
        table.add_row(str(sample.id), str(slot.phase), *map(_count, numbers), speed)
    return table


def _count(value: int | None) -> str:
    return "" if value is None else str(value)
