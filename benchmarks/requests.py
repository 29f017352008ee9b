"""Seconds of whole requests: as ``tune`` predicts them, and as the real llama-server takes them.

``spectui tune`` finds a setting for the demo pair and predicts the requests, and the server runs
the best setting's own command, and that command without its drafting. Prompts of each shape's
length are made of the prompts that judged the setting, as ``tune`` makes them. Off and on take
turns, request by request, in an order that changes. The machine's speed drifts between ``tune`` and
the servers: seconds are compared as they are, and the speedups beside them, which drift changes
less.
"""

import argparse
import json
import random
import shlex
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

from benchmarks.common import add_row, read_rows, server_binary, write_results
from spectui.measure.workload import Workload, tokenize, with_length
from spectui.options.setup import SamplingConfig
from spectui.prompts import builtin_suite
from spectui.server.process import LlamaServer

SHAPES = ("128+512", "256+256", "512+512", "1024+256", "2048+128", "4096+64")
SMALLEST = ("96+16", "384+16")
_CONTEXT = 5120
_DRAFTING = "--spec"
"""Where the drafting of a command begins."""


def main() -> None:
    """Predict, measure and write ``results/requests.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shapes", nargs="+", default=SHAPES, metavar="PROMPT+ANSWER")
    parser.add_argument("--target", choices=["dense", "moe"], default="dense")
    parser.add_argument("--prompts", type=int, default=3, help="requests of each shape")
    parser.add_argument("--n-predict", type=int, default=64, help="tokens of tune's answers")
    parser.add_argument("--time-budget", default="20m")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rows", type=Path, help="keep what was measured, to go on from there")
    parser.add_argument("--smallest", action="store_true", help="a run that shows that it works")
    arguments = parser.parse_args()
    if arguments.smallest:
        arguments.shapes, arguments.prompts = SMALLEST, 1
        arguments.n_predict, arguments.time_budget = 12, "60s"
    with tempfile.TemporaryDirectory() as folder:
        found = tuned(arguments, Path(folder))
        rows = measured(arguments, found, Path(folder))
    asked = ("target", "prompts", "n_predict", "time_budget", "seed")
    write_results(
        "requests",
        {
            **{name: getattr(arguments, name) for name in asked},
            "best": found["best"]["params"],
            "decoding_speedup": found["best"]["speedup"],
            "verdict": found["verdict"]["reason"],
            "shapes": [compared(one, rows) for one in found["requests"]],
            "rows": rows,
        },
    )


def tuned(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Run ``spectui tune`` and return its document."""
    requests = [word for shape in arguments.shapes for word in ("--request", shape)]
    command = [
        *(sys.executable, "-m", "spectui", "tune", "--demo", "--target", arguments.target),
        *("-c", str(_CONTEXT), "-n", str(arguments.n_predict), "--temp", "0", "--ignore-eos"),
        *("--spec-type", "draft-simple"),
        *("--time-budget", arguments.time_budget),
        *("--storage", f"sqlite:///{folder / 'studies.sqlite3'}"),
        *(*requests, "--json", str(folder / "tune.json")),
    ]
    subprocess.run(command, check=True)
    document: dict[str, Any] = json.loads((folder / "tune.json").read_text(encoding="utf-8"))
    if document["requests"] is None:
        raise SystemExit(f"no request was predicted: {document['requests_reason']}")
    return document


def measured(
    arguments: argparse.Namespace, found: dict[str, Any], folder: Path
) -> list[dict[str, Any]]:
    """Run the requests on servers; a row each, with the seconds of both sides."""
    _program, *on_words = shlex.split(found["best_command"])
    off_words = takewhile(lambda word: not word.startswith(_DRAFTING), on_words)
    judged = [one["id"] for one in found["prompts"]]
    chance = random.Random(arguments.seed)  # noqa: S311 - an order, not a secret
    rows = read_rows(arguments.rows)
    known = {(row["shape"], row["prompt"]) for row in rows}
    with (
        started(off_words, folder / "off.log") as off,
        started(on_words, folder / "on.log") as on,
    ):
        workload = prompts_of(off, judged)
        for server in (off, on):
            server.complete(workload.items[0].tokens, n_predict=8)
        for shape in arguments.shapes:
            n_prompt, n_answer = map(int, shape.split("+"))
            for item in with_length(workload, n_prompt).items[: arguments.prompts]:
                if (shape, item.id) in known:
                    continue
                sides = [("off", off), ("on", on)]
                chance.shuffle(sides)
                row: dict[str, Any] = {"shape": shape, "prompt": item.id}
                for name, server in sides:
                    row[name] = seconds_of_request(server, item.tokens, n_answer)
                rows.append(row)
                add_row(arguments.rows, row)
                print(json.dumps(row), file=sys.stderr)
    return rows


def started(words: Iterable[str], log: Path) -> LlamaServer:
    """A server that runs a command of ``tune``."""
    more = ("-np", "1", "--cache-ram", "0")
    return LlamaServer(server_binary(), [*words, *more], log_path=log, request_timeout_s=3600)


def prompts_of(server: LlamaServer, names: Sequence[str]) -> Workload:
    """The prompts of the suite in the order of ``tune``'s race, then the others."""
    suite = {prompt.id: prompt for prompt in builtin_suite()}
    ordered = [*dict.fromkeys([*names, *suite])]
    return tokenize(
        server,
        [suite[name] for name in ordered if name in suite],
        n_predict=64,
        sampling=SamplingConfig(temp=0),
        n_ctx=_CONTEXT,
    )


def seconds_of_request(
    server: LlamaServer, tokens: Sequence[int], n_answer: int
) -> dict[str, float]:
    """Seconds of the prompt and of the rest, and the accepted share."""
    done = server.complete(tokens, n_predict=n_answer, ignore_eos=True)
    if done.n_evaluated != len(tokens):
        raise SystemExit(f"the server evaluated {done.n_evaluated} of {len(tokens)} tokens")
    return {
        "prompt_s": done.prompt_s,
        "decode_s": done.predicted_s,
        "total_s": done.prompt_s + done.predicted_s,
        "n_drafted": done.n_drafted,
        "n_accepted": done.n_accepted,
    }


def compared(predicted: dict[str, Any], rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """A shape's predicted seconds over the server's, in the mean of its requests."""
    shape = f"{predicted['n_prompt']}+{predicted['n_answer']}"
    own = [row for row in rows if row["shape"] == shape]
    total = {name: statistics.fmean(row[name]["total_s"] for row in own) for name in ("off", "on")}
    first = {name: statistics.fmean(row[name]["prompt_s"] for row in own) for name in ("off", "on")}
    return {
        "shape": shape,
        "predicted": predicted,
        "server": {
            "total_s": total,
            "time_to_first_token_s": first,
            "speedup": total["off"] / total["on"],
        },
        "predicted_over_server": {
            **{f"total_{name}": predicted["total_s"][name] / total[name] for name in total},
            **{
                f"first_token_{name}": predicted["time_to_first_token_s"][name] / first[name]
                for name in first
            },
            "speedup": predicted["speedup"] / (total["off"] / total["on"]),
        },
    }


if __name__ == "__main__":
    main()
