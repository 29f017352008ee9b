"""What to call a server that tells nothing, and what to do about it."""

from spectui.server.attached.sample import Failure, Trouble

API_KEY_VARIABLES = ("SPECTUI_API_KEY", "LLAMA_API_KEY")
"""The first one that is set counts."""

_NAMES = {
    Trouble.UNREACHABLE: "no connection",
    Trouble.BROKEN: "connection breaks",
    Trouble.SILENT: "no answer",
    Trouble.LOADING: "loading its model",
    Trouble.LOCKED: "locked",
    Trouble.STRANGE: "no llama-server",
    Trouble.MODEL: "no such model",
}
_REMEDIES = {
    Trouble.UNREACHABLE: "start the server, or give the address that it prints when it starts",
    Trouble.BROKEN: "look into the server's log; a server with TLS has an address with https://",
    Trouble.SILENT: "look into the server's log, or try again when it has less to do",
    Trouble.LOADING: "try again in a moment",
    Trouble.LOCKED: f"put its key into {' or '.join(API_KEY_VARIABLES)} and try again",
}


def named(trouble: Trouble) -> str:
    """Return a word or three."""
    return _NAMES[trouble]


def sentence_of(failure: Failure) -> str:
    """Return what is wrong and what to do."""
    remedy = _REMEDIES.get(failure.trouble)
    return failure.reason if remedy is None else f"{failure.reason}; {remedy}"


def waiting_for(failure: Failure) -> str:
    """Return what is wrong, for a screen that tries again by itself, always with the same key."""
    if failure.trouble is Trouble.LOCKED:
        return f"{failure.reason}; quit and attach again to be asked for one"
    return failure.reason
