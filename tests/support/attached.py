"""A llama-server's answers from a script, on loopback, and samples as it would tell them."""

import gzip
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Lock, Thread
from typing import Any
from urllib.parse import urlsplit

from msgspec import structs

from spectui.documents import Known
from spectui.server.metrics import Counters, DraftCounts
from spectui.server.replies import NextToken, SlotParameters, SlotReply
from spectui.server.watch.locator import Place
from spectui.server.watch.sample import (
    Failure,
    ProcessSample,
    ServerFacts,
    ServerSample,
    Trouble,
)

PROPS: dict[str, Any] = {
    "default_generation_settings": {"n_ctx": 4096},
    "total_slots": 2,
    "model_alias": "Qwen3-8B",
    "model_path": "/models/Qwen3-8B-Q4_K_M.gguf",
    "model_ftype": "Q4_K - Medium",
    "build_info": "b7000-0c1e570",
    "is_sleeping": False,
}
MODELS: dict[str, Any] = {
    "data": [{"id": "Qwen3-8B", "meta": {"n_params": 8_190_735_360, "size": 5_027_783_488}}]
}
SLOTS: list[dict[str, Any]] = [
    {
        "id": 0,
        "n_ctx": 4096,
        "speculative": True,
        "is_processing": True,
        "id_task": 7,
        "n_prompt_tokens": 512,
        "n_prompt_tokens_processed": 400,
        "n_prompt_tokens_cache": 0,
        "params": {"speculative.types": "none,draft-simple"},
        "next_token": [{"n_decoded": 112}],
    },
    {"id": 1, "n_ctx": 4096, "speculative": True, "is_processing": False},
]


def metrics_text(values: Mapping[str, float], per_position: tuple[int, ...] = ()) -> str:
    lines = [
        line
        for name, value in values.items()
        for line in (f"# TYPE llamacpp:{name} counter", f"llamacpp:{name} {value}")
    ]
    lines += [
        f'llamacpp:spec_decode_num_accepted_tokens_per_pos_total{{position="{index}"}} {count}'
        for index, count in enumerate(per_position)
    ]
    return "\n".join(lines) + "\n"


OLD_METRICS = {
    "prompt_tokens_total": 400,
    "prompt_seconds_total": 2.0,
    "tokens_predicted_total": 300,
    "tokens_predicted_seconds_total": 15.0,
    "requests_deferred": 0,
}
"""Of a server that does not count drafts."""
METRICS = {
    **OLD_METRICS,
    "spec_decode_num_draft_tokens_total": 240,
    "spec_decode_num_accepted_tokens_total": 180,
    "spec_decode_num_drafts_total": 60,
}

Play = Callable[["Handler"], None]


def page(content: object, status: int = 200, **headers: str) -> Play:
    """Answer with text, or with JSON."""
    text = content if isinstance(content, str) else json.dumps(content)
    return page_of_bytes(text.encode(), status, **headers)


def page_of_bytes(body: bytes, status: int = 200, **headers: str) -> Play:
    def play(handler: "Handler") -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return play


def error(status: int, message: str) -> Play:
    return page({"error": {"code": status, "message": message}}, status)


def hang(handler: "Handler") -> None:
    """Say nothing until the end."""
    handler.script.ended.wait()


def half(handler: "Handler") -> None:
    """Close the connection in the middle of an answer."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'[{"id": 0')
    handler.close_connection = True


def trickle(handler: "Handler") -> None:
    """Send a byte whenever somebody could lose patience."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000000")
    handler.end_headers()
    while not handler.script.ended.wait(0.02):
        handler.wfile.write(b" ")
        handler.wfile.flush()


def bomb(handler: "Handler") -> None:
    """Send 16 MB of zeros in a few bytes."""
    body = gzip.compress(gzip.compress(bytes(1 << 24), 9), 9)
    page_of_bytes(body, Content_Encoding="gzip, gzip")(handler)


def slam(handler: "Handler") -> None:
    """Close the connection without a word."""
    handler.close_connection = True


class Script:
    """What each path answers, and what was asked."""

    def __init__(self) -> None:
        self.address = ""
        self.plays: dict[str, Play] = {
            "/health": page({"status": "ok"}),
            "/props": page(PROPS),
            "/v1/models": page(MODELS),
            "/metrics": page(metrics_text(METRICS, (50, 40, 30, 20))),
            "/slots": page(SLOTS),
        }
        self.api_key: str | None = None
        self.asked: list[str] = []
        self.queries: list[str] = []
        self.n_at_once = 0
        self.most_at_once = 0
        self.lock = Lock()
        self.ended = Event()
        self.asked_for: dict[str, Event] = {}

    def seen(self, path: str) -> Event:
        """Return what is set when a path is asked for."""
        return self.asked_for.setdefault(path, Event())


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    script: Script

    def do_GET(self) -> None:
        script, parts = self.script, urlsplit(self.path)
        if script.ended.is_set():
            # A connection that was kept outlives the one who listens.
            self.close_connection = True
            return
        with script.lock:
            script.asked.append(parts.path)
            script.queries.append(parts.query)
            script.n_at_once += 1
            script.most_at_once = max(script.most_at_once, script.n_at_once)
        script.seen(parts.path).set()
        with suppress(BrokenPipeError, ConnectionResetError):
            is_open = script.api_key is None or parts.path == "/health"
            if is_open or self.headers["Authorization"] == f"Bearer {script.api_key}":
                script.plays.get(parts.path, error(404, "File Not Found"))(self)
            else:
                error(401, "Invalid API Key")(self)
        with script.lock:
            script.n_at_once -= 1

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.do_GET()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True


@contextmanager
def serving(script: Script | None = None, port: int = 0) -> Iterator[Script]:
    """Serve a script until the end of the block."""
    script = script or Script()
    handler = type("ScriptedHandler", (Handler,), {"script": script})
    with _Server(("127.0.0.1", port), handler) as server:
        script.address = f"127.0.0.1:{server.server_port}"
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield script
        finally:
            script.ended.set()
            server.shutdown()
            thread.join()


FACTS = ServerFacts(
    build="b7000-0c1e570",
    alias="Qwen3-8B",
    model_path="/models/Qwen3-8B-Q4_K_M.gguf",
    n_ctx=4096,
    n_slots=4,
    quantization="Q4_K - Medium",
    n_params=8_190_735_360,
    size_bytes=5_027_783_488,
    is_sleeping=False,
)
DRAFTS = DraftCounts(
    n_drafts=600, n_drafted=2400, n_accepted=1560, accepted_per_position=(520, 430, 350, 260)
)
COUNTERS = Counters(
    n_prompt=40_000,
    prompt_s=80.0,
    n_predicted=9_876,
    predicted_s=420.0,
    n_deferred=0,
    drafts=DRAFTS,
)
PROCESS = ProcessSample(
    pid=4711,
    name="llama-server",
    rss_bytes=6_100_000_000,
)
HERE: Place = (True, Known(PROCESS))
ELSEWHERE: Place = (False, Known(None, "the server runs on another machine"))
LOST = Failure(
    trouble=Trouble.UNREACHABLE,
    reason="no connection to http://localhost:8080 (Connection refused)",
)


def slot(
    number: int = 0,
    *,
    decoded: int | None = None,
    task: int | None = None,
    used: int | None = None,
    is_processing: bool = False,
    speculates: bool = True,
) -> SlotReply:
    return SlotReply(
        id=number,
        is_processing=is_processing,
        n_ctx=4096,
        n_used=used,
        next_token=(NextToken(n_decoded=decoded),),
        task=task,
        speculates=speculates,
        params=None if task is None else SlotParameters(types="draft-simple"),
    )


IDLE_SLOTS = tuple(slot(number) for number in range(4))


def sample(
    time_s: float,
    *,
    slots: tuple[SlotReply, ...] | str = IDLE_SLOTS,
    counters: Counters | str = COUNTERS,
    where: Place = HERE,
    facts: ServerFacts = FACTS,
) -> ServerSample:
    """One round of answers; text stands for a reason."""
    return ServerSample(
        time_s=time_s,
        facts=Known(facts),
        slots=Known(None, slots) if isinstance(slots, str) else Known(slots),
        counters=Known(None, counters) if isinstance(counters, str) else Known(counters),
        is_here=where[0],
        process=where[1],
        took_s=0.0042,
    )


def _with_request(before: DraftCounts, number: int) -> DraftCounts:
    """Counts with the drafts of one more request."""
    good = number * 5 % 9
    positions = zip(before.accepted_per_position, (20, 16, 13, 11), strict=True)
    return DraftCounts(
        n_drafts=before.n_drafts + 30,
        n_drafted=before.n_drafted + 120,
        n_accepted=before.n_accepted + 60 + 4 * good,
        accepted_per_position=tuple(count + more + good for count, more in positions),
    )


def busy(n: int = 120) -> list[ServerSample]:
    """Two slots that generate, a third that reads; every five seconds a request ends."""
    samples = []
    for step in range(n):
        n_ended, time_s = step // 10, step / 2
        wave = 5 + n_ended % 4
        slots = (
            slot(0, decoded=10 + 3 * step, task=3, used=426 + 3 * step, is_processing=True),
            slot(
                1,
                decoded=5 + wave * (step % 10 + 1),
                task=4 + n_ended,
                used=900,
                is_processing=True,
            ),
            slot(2, decoded=0, task=90, used=2048, is_processing=True),
            slot(3),
        )
        drafts = DRAFTS
        for ended in range(n_ended):
            drafts = _with_request(drafts, ended)
        counters = structs.replace(
            COUNTERS,
            n_predicted=COUNTERS.n_predicted + 100 * n_ended,
            predicted_s=COUNTERS.predicted_s + 4.0 * n_ended,
            n_prompt=COUNTERS.n_prompt + 416 * n_ended,
            prompt_s=COUNTERS.prompt_s + 0.9 * n_ended,
            n_deferred=2,
            drafts=drafts,
        )
        samples.append(sample(time_s, slots=slots, counters=counters))
    return samples
