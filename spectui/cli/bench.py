"""``spectui bench``: one configuration against the baseline."""

from spectui.cli.click_options import ListOf, Value, listed, option, request, request_command
from spectui.cli.given import Given
from spectui.cli.options import (
    CHATS,
    MEASURED,
    OF_BACKEND,
    OF_TEMPERATURES,
    PARALLEL,
    REQUEST,
    SERVER_BIN,
    BackendKind,
    check_no_servers,
    check_one_stream,
    repeats_option,
)
from spectui.errors import UsageError
from spectui.options import catalogue
from spectui.options.option import Whole
from spectui.options.request import RequestShape
from spectui.options.setup import SamplingConfig

_OF_RUNNING = frozenset(
    {
        *("backend", "server_url", "baseline_url", "timeout"),
        *("temp", "lengths", "repeats", "requests", "prompts", "chats", "n_predict"),
        *("top_k", "top_p", "min_p", "seed", "ignore_eos"),
        *("json_path", "quiet", "verbose"),
    }
)
"""Parameters about prompts, the only ones that apply to a running server."""
_EXAMPLES = (
    ("One setting of a pair", "spectui bench -m target.gguf -md draft.gguf --draft-max 8"),
    (
        "An n-gram drafter, greedy and with a temperature",
        "spectui bench -m target.gguf --spec-type ngram-mod --temp 0,0.8",
    ),
    (
        "A llama-server that runs, beside one that does not draft",
        "spectui bench --server-url gpu:8080 --baseline-url gpu:8081",
    ),
)


@request
class Bench:
    """Measure one setting against the target alone.

    Every prompt is decoded without and with the draft, one right after the other. Prints the
    speedup with its interval, and checks that the output is the same. With several temperatures or
    lengths of prompt it prints a table. With --backend server your own llama-server decodes, once
    without and once with the draft, in turns; with -np as many streams at once.
    """

    given: Given
    server_url: str | None = option(
        "--server-url",
        metavar="ADDRESS",
        help=(
            "Measure a llama-server that runs already, here or elsewhere, as it stands: only "
            "prompts are sent to it. Its API key is taken from SPECTUI_API_KEY or LLAMA_API_KEY, "
            "or asked for."
        ),
    )
    baseline_url: str | None = option(
        "--baseline-url",
        metavar="ADDRESS",
        help="With --server-url: another one without speculation, to compare with.",
    )
    lengths: tuple[int, ...] = option(
        "--prompt-length",
        default=(),
        type=ListOf(Value(Whole(1))),
        help="Lengths of prompt to measure one after the other: each prompt with others before it.",
    )
    repeats: int = repeats_option("Measure every prompt N times.")
    requests: tuple[RequestShape, ...] = REQUEST


command = request_command(
    Bench,
    "bench",
    "run_bench:bench",
    shared=(
        *OF_TEMPERATURES,
        CHATS,
        *MEASURED,
        *OF_BACKEND,
        SERVER_BIN,
        PARALLEL,
        listed(
            catalogue.TEMPERATURE,
            default=(SamplingConfig().temp,),
            help_text="Temperatures to measure one after the other; 0 is greedy.",
        ),
    ),
    examples=_EXAMPLES,
)


def check_backend(given: Given) -> None:
    """Refuse options of the backend that contradict each other."""
    is_running = given["server_url"] is not None
    starts = given["backend"] == BackendKind.SERVER and not is_running
    if given["server_bin"] is not None and is_running:
        raise UsageError(
            "--server-bin starts a llama-server and --server-url names one that runs; leave "
            "out one of them"
        )
    if given["baseline_url"] is not None and not is_running:
        raise UsageError(
            "--baseline-url is what --server-url is compared with; give --server-url as well"
        )
    if not starts:
        check_no_servers(given)
    if not starts and not is_running:
        check_one_stream(is_one={*given["parallel"]} <= {1})
    if is_running:
        _check_running(given)


def _check_running(given: Given) -> None:
    """Refuse options that a running server cannot be given, and one compared with itself."""
    from spectui.server.address import parse_address

    for name, flag in given.flags.items():
        if name in given.typed - _OF_RUNNING:
            raise UsageError(
                f"{flag}: a server that runs is measured as it stands, since llama-server "
                "takes no such option per request; leave it out, or have it started with --backend "
                "server --server-bin PATH"
            )
    if "backend" in given.typed and given["backend"] == BackendKind.ENGINE:
        raise UsageError(
            "--backend engine decodes with spectui's own engine, and --server-url names a "
            "llama-server that does; leave out one of them"
        )
    if given["baseline_url"] is None:
        return
    urls = {parse_address(given[name]).url for name in ("server_url", "baseline_url")}
    if len(urls) == 1:
        raise UsageError(
            f"--server-url and --baseline-url are both {urls.pop()}, which would be compared with "
            "itself; give the address of another one that was started without speculation"
        )
