"""A program that passes for llama-server, does what it is told and says exact numbers."""

import sys
from pathlib import Path

from spectui.options.drafters import NGRAM_KINDS, NGRAMS, numbers_of
from tests.support.binaries import CURRENT, write_script

OFF_MS, ON_MS = 10.0, 8.0
"""Per decoded token: speculation is worth 25 %."""
CROWDED, CROWDED_MS = 4, 12.5
"""Slots with which speculation costs 20 %, and its time per token then."""
_PATIENCE_S = 30
N_DRAFTED, N_ACCEPTED = 10, 7
LAST_WORDS = "llama_decode: the card fell off the bus"

_PROGRAM = """#!{python} -S
import http.server, json, os, signal, sys, threading

manner = {manner!r}
help_text = {help_text!r}
version = {version!r}
if sys.argv[1] == "--help":
    print(help_text)
    sys.exit()
if sys.argv[1] == "--version":
    print(version, file=sys.stderr)
    sys.exit()
is_on = "--spec-type" in sys.argv or "-md" in sys.argv
n_slots = int((["1"] + [v for o, v in zip(sys.argv, sys.argv[1:]) if o == "-np"])[-1])
on_ms = {crowded_ms} if n_slots >= {crowded} else {on_ms}
port = int(sys.argv[sys.argv.index("--port") + 1])
limit = "--spec-draft-n-max"
longest = int(sys.argv[sys.argv.index(limit) + 1]) if limit in sys.argv else 1_000_000
print("error:", {last_words!r}, file=sys.stderr, flush=True)
if manner == "exits" or (manner == "exits with a draft" and is_on):
    sys.exit(1)
if manner == "cannot load":
    # As llama-server does it when it ends of itself, too.
    print("srv operator(): operator(): cleaning up before exit...", flush=True)
    print("main: exiting due to model loading error", flush=True)
    sys.exit(1)
if manner == "aborts":
    os.abort()
if manner == "never ready":
    signal.pause()
if manner == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
n_answers = 0
# Behind its warm-up a server with several slots answers only when all of them are busy.
all_busy = threading.Barrier(n_slots)


class Handler(http.server.BaseHTTPRequestHandler):
    # Connections are kept, as by llama-server: to make one costs more than an answer.
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def answer(self, fields, status=200):
        body = json.dumps(fields).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if manner in ("loading", "odd health"):
            status = 503 if manner == "loading" else 500
            self.answer({{"error": {{"message": manner}}}}, status)
        elif self.path == "/slots" and manner == "speculates always":
            self.answer([{{"id": 0, "speculative": True}}])
        else:
            self.answer({{"status": "ok"}})

    def do_POST(self):
        global n_answers
        fields = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/tokenize":
            self.answer({{"tokens": list(fields["content"].encode())}})
        elif self.path == "/apply-template":
            self.answer({{"prompt": "user: " + fields["messages"][0]["content"]}})
        else:
            n_answers += 1
            if n_answers > {n_good} and (is_on or {n_good} == 0) and self.misbehaves():
                return
            if n_answers > 1:
                all_busy.wait({patience_s})
            self.answer(completion(len(fields["prompt"]), fields["n_predict"]))
            # As llama-server does behind a streamed answer, without a word.
            self.close_connection = self.close_connection or fields.get("stream", False)

    def misbehaves(self):
        print("busy", flush=True)
        if manner == "hangs":
            signal.pause()
        if manner == "quits":
            os._exit(7)
        if manner == "is killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if manner == "is garbled":
            self.answer(["no completion"])
        if manner == "answers 500":
            self.answer({{"error": {{"message": "out of luck"}}}}, 500)
        return manner in ("is garbled", "answers 500")


def completion(n_prompt, n_predict):
    n = 1 if manner == "ends at once" else n_predict
    timings = {{"predicted_n": n, "predicted_ms": (on_ms if is_on else {off_ms}) * (n - 1)}}
    timings |= {{"prompt_n": n_prompt, "prompt_ms": 1.0}}
    if is_on and manner != "drafts nothing" or manner == "drafts always":
        n_accepted = min({n_accepted}, max(2 * n // 3 - 1, 0), (n - 1) * longest // (1 + longest))
        n_drafted = {n_drafted} * n_accepted // {n_accepted}
        n_drafted = min(n_drafted, (n - 1 - n_accepted) * longest)
        timings |= {{"draft_n": n_drafted, "draft_n_accepted": n_accepted}} if n_drafted else {{}}
    tokens = list(range(n))
    return {{"content": "x", "tokens": tokens, "stop_type": "limit", "timings": timings}}


http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""


def write_server(
    path: Path,
    manner: str = "is good",
    *,
    n_good: int = 1_000_000,
    version: str = "version: 6945 (c0ffee12)",
    help_text: str | None = None,
) -> Path:
    """Write it; its manner shows behind ``n_good`` answers with speculation, a warm-up included."""
    source = _PROGRAM.format(
        python=sys.executable,
        manner=manner,
        help_text=HELP if help_text is None else help_text,
        version=version,
        last_words=LAST_WORDS,
        n_good=n_good,
        on_ms=ON_MS,
        patience_s=_PATIENCE_S,
        crowded=CROWDED,
        crowded_ms=CROWDED_MS,
        off_ms=OFF_MS,
        n_drafted=N_DRAFTED,
        n_accepted=N_ACCEPTED,
    )
    return write_script(path, source)


_KINDS = "none,draft-simple,draft-mtp"
_SIZES = "".join(f"{one.flags[0]} N\n" for kind in NGRAMS for one in numbers_of(kind))
HELP = (
    CURRENT.replace(f"{_KINDS},ngram-simple", f"{_KINDS},{','.join(NGRAM_KINDS)}")
    + "-np,   --parallel N                     number of server slots (default: -1, -1 = auto)\n"
    + _SIZES
)
