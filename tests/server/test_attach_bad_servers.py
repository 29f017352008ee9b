"""Servers that are slow, broken, or no llama-server: said so, and nothing hangs."""

import asyncio
import socket
from dataclasses import replace

import pytest

from spectui.server.connection import Connection, LateError, Page
from spectui.server.watch.locator import Address, parse_address
from spectui.server.watch.poller import Interview, ask
from spectui.server.watch.sample import Failure, Sample, ServerSample, Trouble
from tests.support.attached import (
    OLD_METRICS,
    PROPS,
    Play,
    Script,
    bomb,
    error,
    half,
    hang,
    metrics_text,
    page,
    serving,
    slam,
    trickle,
)

SHORT_S = 0.3
"""The longest that an answer may take, where none comes."""
LONG_S = 30.0


def attachment(script: Script, timeout_s: float = LONG_S) -> Address:
    return replace(parse_address(script.address), timeout_s=timeout_s)


def asked(script: Script, timeout_s: float = LONG_S, api_key: str | None = None) -> Sample:
    (found,) = asyncio.run(ask(replace(attachment(script, timeout_s), api_key=api_key)))
    return found


def answered(script: Script, timeout_s: float = LONG_S) -> ServerSample:
    found = asked(script, timeout_s)
    assert isinstance(found, ServerSample), found
    return found


def failed(script: Script, timeout_s: float = LONG_S) -> Failure:
    found = asked(script, timeout_s)
    assert isinstance(found, Failure), found
    assert "\n" not in found.reason
    return found


def test_a_server_that_tells_all() -> None:
    with serving() as script:
        found = answered(script)
    assert found.facts.value is not None
    assert found.facts.value.alias == "Qwen3-8B"
    assert found.slots.value is not None
    assert [slot.is_processing for slot in found.slots.value] == [True, False]
    assert found.counters.value is not None
    # A program of any kind may listen here for a server somewhere else.
    assert not found.is_here
    assert "is no llama-server" in str(found.process.reason)


@pytest.mark.parametrize(
    ("play", "trouble", "reason"),
    [
        (error(503, "Loading model"), Trouble.LOADING, "still loading its model"),
        (error(500, "out of order"), Trouble.STRANGE, "status 500: out of order; is it a llama"),
        (page("<html>hello</html>"), Trouble.STRANGE, "not what llama-server answers"),
        (
            page({"status": "error"}),
            Trouble.STRANGE,
            "says of the server: error; is it a",
        ),
        (
            page("", 302, Location="https://other/llama/health?x=1"),
            Trouble.STRANGE,
            r"redirects to https://other/llama/health\?x=1; give that address",
        ),
        (page("", 302, Location="/in/health"), Trouble.STRANGE, r"to http://.*:\d+/in/health;"),
        (page("", 302), Trouble.STRANGE, r"/health was answered with status 302; is it a llama"),
        (page("\x1b[2J\n\nx", 418), Trouble.STRANGE, "status 418: '"),
        (half, Trouble.UNREACHABLE, "no answer from http://.*: the answer to /health broke off"),
        (slam, Trouble.UNREACHABLE, "broke"),
        (page("[" * 100_000), Trouble.STRANGE, "is not what llama-server answers"),
        (bomb, Trouble.STRANGE, "is compressed"),
    ],
)
def test_what_is_no_server_now(play: Play, trouble: Trouble, reason: str) -> None:
    with serving() as script:
        script.plays["/health"] = play
        failure = failed(script)
    assert failure.trouble is trouble
    assert failure.reason.isprintable()
    with pytest.raises(AssertionError, match=reason):
        raise AssertionError(failure.reason)


def test_a_server_that_never_answers_is_given_up() -> None:
    for play in (hang, trickle):
        with serving() as script:
            script.plays["/health"] = play
            failure = failed(script, SHORT_S)
        assert failure.trouble is Trouble.UNREACHABLE
        assert "/health was not answered within 0.3 s" in failure.reason


def test_a_port_where_nobody_listens_and_a_server_without_tls() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        script = Script()
        script.address = f"127.0.0.1:{taken.getsockname()[1]}"
        failure = failed(script)
    assert failure.trouble is Trouble.UNREACHABLE
    assert "(Connection refused); start the server" in failure.reason
    with serving() as script:
        script.address = f"https://{script.address}"
        failure = failed(script, 2.0)
    assert failure.trouble is Trouble.UNREACHABLE
    assert "only a server with TLS has an" in failure.reason or "no TLS" in failure.reason


ODD = "is not what llama-server answers"


@pytest.mark.parametrize(
    ("path", "play", "reason"),
    [
        ("/metrics", error(501, "This server does not"), "/metrics is off; start the server"),
        ("/metrics", error(500, "it broke"), "/metrics was answered with status 500: it broke"),
        ("/metrics", page("<html>hello</html>"), f"/metrics {ODD}: llamacpp:prompt_tokens_total"),
        ("/metrics", page("up 1\n"), "llamacpp:prompt_tokens_total is missing"),
        ("/slots", error(501, "no slots"), "/slots is off; start the server with --slots"),
        ("/slots", page("[{"), f"/slots {ODD}"),
        ("/slots", page([{"n_ctx": 1}]), "missing required field `id`"),
        ("/slots", page("[" * 100_000), f"/slots {ODD}"),
        ("/slots", page("x" * 17_000_000), "/slots has more than 16 MB"),
        ("/slots", bomb, "/slots is compressed (gzip, gzip), which was"),
        ("/slots", error(400, "model is not loaded"), "answered with status 400: model is not"),
        *(
            (path, play, f"the answer to {path} broke off (")
            for path in ("/metrics", "/slots", "/props")
            for play in (half, slam)
        ),
    ],
)
def test_without_one_answer_the_rest_goes_on(path: str, play: Play, reason: str) -> None:
    with serving() as script:
        script.plays[path] = play
        found = answered(script)
    reasons = {
        "/metrics": found.counters.reason,
        "/slots": found.slots.reason,
        "/props": found.facts.reason,
    }
    said = str(reasons.pop(path))
    assert reason in said
    assert len(said) < 300
    assert not any(reasons.values())


def test_an_older_server() -> None:
    with serving() as script:
        script.plays["/props"] = page({"total_slots": 1, "chat_template": "x"})
        script.plays["/metrics"] = page(metrics_text(OLD_METRICS))
        script.plays["/slots"] = page([{"id": 0, "next_token": [{"n_decoded": 4}]}])
        del script.plays["/v1/models"]
        found = answered(script)
    assert found.counters.value is not None
    assert found.counters.value.drafts is None
    assert found.slots.value is not None
    assert found.slots.value[0].n_decoded == 4


def test_a_server_with_a_key() -> None:
    with serving() as script:
        script.api_key = "sesame"
        for api_key in (None, "other"):
            found = asked(script, api_key=api_key)
            assert isinstance(found, Failure)
            assert found.trouble is Trouble.LOCKED
            assert "wants its API key; put it into SPECTUI_API_KEY or" in found.reason
        assert isinstance(asked(script, api_key="sesame"), ServerSample)


def test_a_router_is_not_asked_for_what_a_model_does() -> None:
    with serving() as script:
        script.plays["/props"] = page({**PROPS, "role": "router"})
        found = failed(script)
    assert found.trouble is Trouble.ROUTER
    assert "is a router, which hands requests on; give the address" in found.reason
    assert "/metrics" not in script.asked


def test_a_sleeping_server_is_not_woken() -> None:
    with serving() as script:
        script.plays["/props"] = page({**PROPS, "is_sleeping": True})
        found = answered(script)
    assert "the server sleeps" in str(found.slots.reason)
    assert "/slots" not in script.asked


def test_after_a_broken_answer_the_connection_is_made_anew() -> None:
    with serving() as script:
        script.plays["/slots"] = half
        for found in asyncio.run(_asked_twice_at_once(attachment(script))):
            assert isinstance(found, ServerSample)
        assert script.asked.count("/health") == 2


async def _asked_twice_at_once(wanted: Address) -> tuple[Sample, Sample]:
    async with Interview(wanted, clock=lambda: 0.0) as interview:
        return await interview.ask(), await interview.ask()


@pytest.mark.parametrize("late", ["/metrics", "/slots", "/props"])
def test_a_late_answer_leaves_the_others_and_the_one_before(
    late: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stalled, ask_in_time = {late}, Connection.ask

    async def timed(self: Connection, path: str) -> Page:
        if path in stalled:
            raise LateError(f"{path} was not answered", "late")
        return await ask_in_time(self, path)

    async def looks(wanted: Address) -> list[ServerSample]:
        found = []
        async with Interview(wanted) as interview:
            for is_stalled in (True, False, True):
                stalled.update({late} if is_stalled else ())
                found.append(await interview.ask())
                stalled.clear()
        return [one for one in found if isinstance(one, ServerSample)]

    monkeypatch.setattr(Connection, "ask", timed)
    monkeypatch.setattr("spectui.server.watch.poller._RENEWED_S", 0.0)
    with serving() as script:
        never, before, after = asyncio.run(looks(attachment(script)))
    assert [one.is_late for one in (never, before, after)] == [True, False, True]
    reasons = {never.counters.reason, never.slots.reason, never.facts.reason}
    assert reasons == {None, f"{late} was not answered"}
    # Slots change all the time: an old answer is none.
    assert (after.facts, after.counters) == (before.facts, before.counters)
    assert (after.slots == before.slots) is (late != "/slots")
