"""Which addresses of a running server are taken."""

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectui.errors import UsageError
from spectui.server.watch.locator import parse_address


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("localhost:8080", "http://localhost:8080"),
        ("127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("[::1]:8080", "http://[::1]:8080"),
        ("http://box", "http://box"),
        ("http://box:80/", "http://box"),
        ("HTTP://Box:8080", "http://box:8080"),
        ("https://gpu.example", "https://gpu.example"),
        ("https://gpu.example:8443/llama/", "https://gpu.example:8443/llama"),
        ("box:8080/llama", "http://box:8080/llama"),
        ("my_box:8080", "http://my_box:8080"),
        ("box:80/v1/chat/completions", "http://box"),
        ("box:80/llama/v1/chat/completions/", "http://box/llama"),
        ("box:80/v1/models", "http://box"),
        ("box:80/health", "http://box"),
        ("box:80/slots/0", "http://box"),
        ("box:80/completion/health", "http://box/completion"),
        ("box:80/v1", "http://box"),
        # They may be prefixes of a server's own.
        ("box:80/embeddings", "http://box/embeddings"),
        ("box:80/my-health", "http://box/my-health"),
    ],
)
def test_forms_that_are_taken(text: str, url: str) -> None:
    assert parse_address(text).url == url


REFUSED = [
    *("localhost", "localhost:", "localhost:0", "localhost:99999", "localhost:http", ":8080", ""),
    *("http://", "a b:80", "http://[::1", "ftp://box:21", "unix:///run/llama.sock", "box:80/?x=1"),
    *("box:80/#top", "box:80/?", "box:80/a b"),
]


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is no address of a server; write host:port") as caught:
        parse_address(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text", ["http://me:sesame@box:80", "me:sesame@box:80", "http://sesame@box"]
)
def test_a_password_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(UsageError, match="LLAMA_API_KEY") as caught:
        parse_address(text)
    assert "sesame" not in str(caught.value)


@settings(max_examples=50)
@given(st.text())
def test_any_text_is_an_address_or_a_sentence(text: str) -> None:
    with suppress(UsageError):
        found = parse_address(text)
        assert parse_address(found.url) == found


@given(
    scheme=st.sampled_from(["http", "https"]),
    host=st.from_regex(r"[a-z][a-z0-9-]{0,20}(\.[a-z]{2,5})?", fullmatch=True),
    port=st.integers(1, 65535),
    path=st.lists(st.from_regex(r"[a-z0-9_-]{1,8}", fullmatch=True)),
)
def test_an_address_is_read_back(scheme: str, host: str, port: int, path: list[str]) -> None:
    prefix = "".join(f"/{part}" for part in path)
    given = f"{scheme}://{host}:{port}{prefix}"
    address = parse_address(given)
    assert (address.host, address.port) == (host, port)
    assert parse_address(address.url) == address
    assert address.url in {given, f"{scheme}://{host}{prefix}"}
