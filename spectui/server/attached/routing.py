"""Which of a router's servers is meant, from what ``/v1/models`` lists. Pure."""

from spectui.server.attached.replies import RUNNING, ModelReply, ModelsReply
from spectui.server.attached.sample import Failure, ServerFacts, Trouble
from spectui.server.attached.words import one_line

_COMING = frozenset({"loading", "downloading"})


_MOST_NAMED = 12
"""Models that one sentence lists."""


def unchosen(url: str, facts: ServerFacts) -> str:
    """Say that a router has models to choose from, those first that it has loaded."""
    if facts.models_reason is not None:
        return (
            f"{url} is a router and does not list its models ({facts.models_reason}); choose one "
            "with --model"
        )
    if not facts.models:
        return f"{url} is a router without models; give the address of a server that runs one"
    others = [name for name in facts.models if name not in facts.running]
    names = [*(f"{name} (loaded)" for name in facts.running), *others]
    more = len(names) - _MOST_NAMED
    told = ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
    return f"{url} is a router; choose one of its models with --model: {told}"


def unroutable(url: str, model: str, listed: ModelsReply) -> Failure | None:
    """Say why a server cannot be asked for a model; None where it can.

    Args:
        url: of the server.
        model: that was asked for.
        listed: by the server.
    """
    if not listed.is_routers:
        reason = f"{url} is no router and runs one model alone; leave out --model"
        return Failure(trouble=Trouble.MODEL, reason=reason)
    found = listed.named(model)
    if found is None:
        names = ", ".join(one_line(each.id) for each in listed.data) or "it lists none"
        reason = f"{url} has no model {one_line(model)}; name one of its models: {names}"
        return Failure(trouble=Trouble.MODEL, reason=reason)
    return _unready(url, found)


def _unready(url: str, found: ModelReply) -> Failure | None:
    status = "" if found.status is None else found.status.value
    name = one_line(found.id)
    if not status or status in RUNNING:
        return None
    if status in _COMING:
        return Failure(trouble=Trouble.LOADING, reason=f"{url} is {status} {name}")
    loaded = "load it, which the first request for it does as well"
    reason = f"{url} has not loaded {name}, which is {one_line(status)}; {loaded}"
    return Failure(trouble=Trouble.MODEL, reason=reason)
