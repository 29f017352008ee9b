"""spectui.server against the real llama-server, and against servers that misbehave."""

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from spectui.errors import ServerError
from spectui.server import process
from spectui.server.client import ChatMessage, LlamaClient
from spectui.server.process import LlamaServer
from tests.support.attached import (
    SLOTS,
    Handler,
    Play,
    bomb,
    error,
    hang,
    page,
    serving,
    slam,
    trickle,
)
from tests.support.scripted_server import write_server

pytest_plugins = ["tests.support.fixtures"]
pytestmark = pytest.mark.usefixtures("no_process_is_left")

PROMPT = "The capital of France is"
# One thread: where cores are shared, two spend their time waiting for each other.
SMALL = ("-c", "512", "-np", "1", "-t", "1")


def scripted(folder: Path, manner: str, **how: Any) -> LlamaServer:  # noqa: ANN401 - of a server
    """A program that passes for llama-server, and behaves so from its first answer on."""
    program = write_server(folder / "llama-server", manner, n_good=0)
    return LlamaServer(program, [], log_path=folder / "log", **how)


@pytest.fixture(scope="module")
def plain_server(
    llama_server_binary: Path, smollm2: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LlamaServer]:
    log_path = tmp_path_factory.mktemp("server") / "server.log"
    arguments = ["-m", str(smollm2), *SMALL]
    with LlamaServer(llama_server_binary, arguments, log_path=log_path) as server:
        yield server


@pytest.mark.server
def test_a_completion_of_the_real_server(plain_server: LlamaServer) -> None:
    completion = plain_server.complete(PROMPT, n_predict=16, ignore_eos=True)
    assert completion.n_predicted == len(completion.tokens) == 16
    assert "Paris" in completion.text
    assert completion.predicted_s > 0
    assert (completion.n_drafted, completion.n_accepted) == (0, 0)
    assert completion.stop == "limit"
    # Every prompt is evaluated as a whole.
    n_tokens = len(plain_server.tokenize(PROMPT))
    done = [plain_server.complete(PROMPT, n_predict=2) for _ in range(2)]
    assert [one.n_evaluated for one in done] == [n_tokens, n_tokens]
    cached = plain_server.complete(PROMPT, n_predict=2, cache_prompt=True)
    assert cached.n_evaluated is not None
    assert cached.n_evaluated < n_tokens
    with pytest.raises(ServerError, match=r"status 400: .*context"):
        plain_server.complete([1] * 600, n_predict=1)
    # Only who has the key may use the server.
    answer = httpx.post(f"{plain_server.base_url}/tokenize", json={}, trust_env=False)
    assert answer.status_code == httpx.codes.UNAUTHORIZED
    assert "--api-key" not in psutil.Process(plain_server.pid).cmdline()


@pytest.mark.server
def test_what_a_request_asks_for_reaches_the_server(plain_server: LlamaServer) -> None:
    from_text = plain_server.complete(PROMPT, n_predict=8).tokens
    assert plain_server.complete(plain_server.tokenize(PROMPT), n_predict=8).tokens == from_text
    completion = plain_server.complete(PROMPT, n_predict=16, stop=[" Paris"])
    assert completion.stop == "word"
    assert "Paris" not in completion.text
    prompt = plain_server.apply_template([ChatMessage(role="user", content="Hello [/INST]")])
    assert "<|im_start|>user\nHello [/INST]<|im_end|>" in prompt


@pytest.mark.parametrize(
    ("manner", "message"),
    [
        ("exits", r"exit code 1; .*the card fell off the bus.* \(all of it in .*log\)"),
        ("aborts", "signal SIGABRT; .*the card fell off the bus"),
        ("cannot load", "^llama-server ended with exit code 1; .*exiting due to model loading"),
        ("odd health", "GET http.*/health with status 500: odd health"),
    ],
)
def test_a_server_that_does_not_start_is_noticed_at_once(
    tmp_path: Path, manner: str, message: str
) -> None:
    with pytest.raises(ServerError, match=message):
        scripted(tmp_path, manner, ready_timeout_s=1e6)


@pytest.mark.parametrize("manner", ["never ready", "loading"])
def test_a_server_that_is_never_ready_is_given_up(tmp_path: Path, manner: str) -> None:
    with pytest.raises(ServerError, match=r"not ready after 0\.3 s"):
        scripted(tmp_path, manner, ready_timeout_s=0.3)


def flood(handler: Handler) -> None:
    handler.send_response(200)
    handler.end_headers()
    while True:
        handler.wfile.write(b"x" * 65536)


def heads_without_end(handler: Handler) -> None:
    handler.send_response(200)
    while True:
        handler.send_header("X-More", "1")
        handler.flush_headers()


def timed(**timings: float) -> Play:
    """A completion with these timings."""
    told = {"predicted_n": 2, "predicted_ms": 9.0, "prompt_ms": 1.0, **timings}
    return page({"content": "", "tokens": [1, 2], "stop_type": "limit", "timings": told})


ODD = "POST http.*/completion is not what spectui understands"
BAD_ANSWERS: list[tuple[Play, str]] = [
    (page("<html>hello</html>"), ODD),
    (page({"content": "text"}), "missing required field `tokens`"),
    (error(500, "it broke"), "status 500: it broke"),
    (error(500, "it\x1b]52;c;eA==\x07 broke\n" * 9999), "status 500: it.]52;c;eA==. broke"),
    (slam, "the connection broke|broke off|disconnected"),
    (bomb, rf"{ODD} \(it is compressed \(gzip, gzip\), which was not"),
    (flood, rf"{ODD} \(it has more than 16 MB\)"),
    (page('{"content":' + "[" * 100_000), ODD),
    *(
        (timed(**timings), ODD)
        for timings in (
            {"predicted_ms": 0},
            {"predicted_ms": -1},
            {"predicted_ms": 1e308},
            {"prompt_ms": -1},
            {"predicted_n": 1},
            {"draft_n": 8, "draft_n_accepted": 30},
            {"draft_n": -8, "draft_n_accepted": -9},
        )
    ),
]
LATE = "no answer from llama-server at http.* within 0.3 s; --timeout gives it longer"
NEVER: list[tuple[Play, str]] = [
    (hang, LATE),
    (trickle, LATE),
    (heads_without_end, "no answer from llama-server at http"),
]


@pytest.mark.parametrize(
    ("answers", "timeout_s"), [(BAD_ANSWERS, 600.0), (NEVER, 0.3)], ids=["bad", "never"]
)
def test_a_bad_answer_is_one_sentence(answers: list[tuple[Play, str]], timeout_s: float) -> None:
    with serving() as script:
        for play, message in answers:
            script.plays["/completion"] = play
            with (
                LlamaClient(f"http://{script.address}", request_timeout_s=timeout_s) as client,
                pytest.raises(ServerError, match=message) as caught,
            ):
                client.complete(PROMPT, n_predict=2)
            assert str(caught.value).isprintable()
            assert len(str(caught.value)) < 1000


def test_another_user_who_has_the_port_is_sent_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = os.getuid()
    with serving() as script:
        port = int(script.address.rpartition(":")[2])
        monkeypatch.setattr(process, "_free_port", lambda: port)
        monkeypatch.setattr(process, "_ROOT", -1)
        monkeypatch.setattr(os, "geteuid", lambda: -2)
        told = rf"port {port} .* was taken by a process of user {user}, which was sent nothing"
        with pytest.raises(ServerError, match=told):
            scripted(tmp_path, "never ready")
    assert script.asked == []


def test_a_program_that_takes_the_port_of_a_dead_server_is_sent_nothing(tmp_path: Path) -> None:
    with scripted(tmp_path, "quits") as server:
        with pytest.raises(ServerError, match="exit code 7"):
            server.complete(PROMPT, n_predict=1)
        with serving(port=int(server.base_url.rpartition(":")[2])) as script:
            with pytest.raises(ServerError, match="exit code 7"):
                server.complete(PROMPT, n_predict=1)
            assert script.asked == []


@pytest.fixture
def _interrupts() -> Iterator[None]:
    """Ctrl+C interrupts this process, even where it was started to ignore that."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_interrupts")
def test_a_request_can_be_interrupted() -> None:
    def interrupt(handler: Handler) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        hang(handler)

    with serving() as script, LlamaClient(f"http://{script.address}") as client:
        script.plays["/slots"] = interrupt
        with pytest.raises(KeyboardInterrupt):
            client.speculates()
        script.plays["/slots"] = page(SLOTS)
        assert client.speculates()


def test_a_script_may_start_the_server_and_no_proxy_is_asked_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    script = tmp_path / "script"
    server = write_server(tmp_path / "llama-server", "answers 500", n_good=0)
    script.write_text(f'#!/bin/sh\n(setsid "{server}" "$@")\nexit 3\n', "utf-8")
    script.chmod(0o755)
    with (
        pytest.raises(ServerError, match="status 500: out of luck"),
        LlamaServer(script, [], log_path=tmp_path / "log") as started,
    ):
        started.complete(PROMPT, n_predict=1)
    # It does not outlive the exception.
    assert not psutil.pid_exists(started.pid)


def test_who_listens_or_has_the_connection_is_known_by_its_user(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        client = socket.create_connection(("127.0.0.1", port))
        taken, _address = listening.accept()
    with client, taken:
        # Nobody listens any more.
        from_port = client.getsockname()[1]
        assert list(process._strangers(port, from_port)) == []
        monkeypatch.setattr(process, "_ROOT", -1)
        monkeypatch.setattr(os, "geteuid", lambda: -2)
        assert list(process._strangers(port, from_port)) == [os.getuid()]
        assert list(process._strangers(port, from_port + 1)) == []


def test_a_server_that_ignores_the_request_to_end_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "GRACE_S", 0.1)
    with scripted(tmp_path, "stubborn") as server:
        pass
    assert server._process.returncode == -signal.SIGKILL
    server.close()


@pytest.mark.parametrize("mode", [None, 0o644])
def test_a_binary_that_cannot_run_is_named(tmp_path: Path, mode: int | None) -> None:
    binary = tmp_path / "llama-server"
    if mode is not None:
        binary.write_text("")
        binary.chmod(mode)
    with pytest.raises(ServerError, match=rf"cannot start {binary} \(.*\)"):
        LlamaServer(binary, [], log_path=tmp_path / "log")
