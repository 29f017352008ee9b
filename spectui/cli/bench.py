"""``spectui bench``: one configuration against the target alone."""

from spectui.cli.click_options import option, request, request_command
from spectui.cli.given import Given
from spectui.cli.options import (
    BACKEND_OPTIONS,
    CHATS,
    MEASURED,
    PAIR_OPTIONS,
    PARALLEL,
    REQUEST,
    SERVER_BIN,
    repeats_option,
)
from spectui.options.option import Whole
from spectui.options.request import RequestShape

_EXAMPLES = (
    ("One setting of a pair", "spectui bench -m target.gguf -md draft.gguf --draft-max 8"),
    (
        "An n-gram drafter, with a temperature",
        "spectui bench -m target.gguf --spec-type ngram-mod --temp 0.8",
    ),
    (
        "Through your llama-server, with four streams at once",
        "spectui bench -m target.gguf -md draft.gguf --backend server -np 4",
    ),
)


@request
class Bench:
    """Measure one setting against the target alone.

    Every prompt is decoded without and with the draft, one right after the other. Prints the
    speedup with its interval, and checks that the output is the same. With --backend server your
    own llama-server decodes, once without and once with the draft, in turns; with -np as many
    streams at once. A table of several settings, temperatures or lengths of prompt: spectui sweep.
    """

    given: Given
    prompt_length: int | None = option(
        "--prompt-length",
        type=Whole(1),
        metavar="N",
        help="Tokens of each prompt, which gets others before it (default: its own).",
    )
    repeats: int = repeats_option("Measure every prompt N times.")
    requests: tuple[RequestShape, ...] = REQUEST


command = request_command(
    Bench,
    "bench",
    "run_bench:bench",
    shared=(*PAIR_OPTIONS, CHATS, *MEASURED, *BACKEND_OPTIONS, SERVER_BIN, PARALLEL),
    examples=_EXAMPLES,
)
