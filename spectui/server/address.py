"""Parses the address of a running llama-server."""

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from spectui.errors import UsageError

_DEFAULT_PORTS = {"http": 80, "https": 443}
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_HOST = re.compile(r"[\w.:%~-]+")
_PATH = re.compile(r"[\w.~%!$&'()*+,;=:@/-]*")
_ROUTE = re.compile(
    r"/v1(/(chat/completions|completions|embeddings|health|messages|models|rerank(ing)?|responses)"
    r"(/\w+)?)?$"
    r"|/(chat/completions(/\w+)?|completions?|health|metrics|props|slots(/\d+)?)$"
)
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
    has_scheme = _SCHEME.match(text) is not None
    try:
        parts = urlsplit(text if has_scheme else f"http://{text}")
        given_port = parts.port
    except ValueError as error:
        raise _refused(text, "is no address") from error
    scheme, host = parts.scheme.lower(), parts.hostname or ""
    if scheme not in _DEFAULT_PORTS:
        raise _refused(text, f"is no address of the web, but {scheme}")
    if parts.username is not None or parts.password is not None:
        # Not repeated: what stands there is a secret.
        raise UsageError(
            "the address holds a name or a password; leave them out, and put the server's API key "
            "into LLAMA_API_KEY"
        )
    port = _DEFAULT_PORTS[scheme] if given_port is None and has_scheme else given_port
    if "?" in text or "#" in text:
        raise _refused(text, "has more than a path behind the host")
    if not _HOST.fullmatch(host):
        raise _refused(text, "names no host")
    if not port or parts.netloc.endswith(":"):
        raise _refused(text, "names no port")
    if not _PATH.fullmatch(parts.path):
        raise _refused(text, "has a path with characters that belong into none")
    prefix = _ROUTE.sub("", parts.path.rstrip("/"))
    authority = f"[{host}]" if ":" in host else host
    shown_port = "" if port == _DEFAULT_PORTS[scheme] else f":{port}"
    return Address(url=f"{scheme}://{authority}{shown_port}{prefix}", host=host, port=port)


def _refused(text: str, why: str) -> UsageError:
    return UsageError(
        f"{text!r} {why}; write host:port, http://host:port or https://host, "
        "such as http://localhost:8080"
    )
