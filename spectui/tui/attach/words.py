"""The state of the connection in words."""

from spectui.server.watch.state import AttachState, LinkState
from spectui.server.watch.words import model_name, named, waiting_for


def title(state: AttachState) -> str:
    """Return which server, and which model."""
    facts = state.facts.value
    address = state.link.url.removeprefix("http://")
    return address if facts is None else f"{address}  {model_name(facts)}"


def connection(link: LinkState, *, is_paused: bool) -> str:
    """Return how it stands, in a few words."""
    if is_paused:
        return "paused"
    if link.failure is not None:
        return named(link.failure.trouble)
    if link.waits_s is not None:
        return f"no answer for {link.waits_s:.0f} s"
    if not link.is_connected:
        return "connecting"
    return "connected, answers late" if link.is_late else "connected"


def trouble(link: LinkState) -> str:
    """Return what is wrong and what happens next; empty if nothing is wrong."""
    if link.failure is None:
        return ""
    again = "" if link.retry_s is None else f"; asked again after {link.retry_s:g} s"
    return f"{waiting_for(link.failure)}{again}."
