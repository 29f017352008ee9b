"""Parses the address of a running llama-server."""

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from spectui.errors import UsageError

_DEFAULT_PORTS = {"http": 80, "https": 443}
_HOST = re.compile(r"[\w.:%~-]+")
_PATH = re.compile(r"[\w.~%!$&'()*+,;=:@/-]*")
_ROUTE = re.compile(r"/(v1(/.*)?|(chat/)?completions?|health|metrics|props|slots(/\d+)?)$")
"""Route that llama-server serves below its address, and nobody would call a prefix."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """A running server."""

    url: str
    """The beginning of every endpoint, without a slash at its end."""
    host: str
    """A name or an IP address, IPv6 without brackets."""
    port: int


def parse_address(text: str) -> Address:
    """Read ``host:port``, ``http://...`` or ``https://...``, with a path or without.

    An endpoint of llama-server's, as programs are given it, stands for its server.

    Raises:
        UsageError: it is none of these, or holds what does not belong into an address.
    """
    has_scheme = "://" in text
    try:
        parts = urlsplit(text if has_scheme else f"http://{text}")
        port = parts.port
    except ValueError as error:
        raise _refused(text) from error
    if parts.username is not None or parts.password is not None:
        # Not repeated: what stands there is a secret.
        raise UsageError(
            "the address holds a name or a password; leave them out, and put the server's API key "
            "into LLAMA_API_KEY"
        )
    usual = _DEFAULT_PORTS.get(parts.scheme)
    port = usual if port is None and has_scheme else port
    host = parts.hostname or ""
    is_plain = _HOST.fullmatch(host) and _PATH.fullmatch(parts.path) and not {*"?#"} & {*text}
    if not (usual and port and is_plain):
        raise _refused(text)
    authority = f"[{host}]" if ":" in host else host
    shown_port = "" if port == usual else f":{port}"
    prefix = _ROUTE.sub("", parts.path.rstrip("/"))
    return Address(url=f"{parts.scheme}://{authority}{shown_port}{prefix}", host=host, port=port)


def _refused(text: str) -> UsageError:
    return UsageError(
        f"{text!r} is no address of a server; write host:port, http://host:port or https://host, "
        "such as http://localhost:8080"
    )
