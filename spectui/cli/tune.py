"""``spectui tune``: finds the best setting, and decides whether it is worth using."""

from typing import TYPE_CHECKING

import click

from spectui.cli.click_options import option, request, request_command
from spectui.cli.given import Given
from spectui.cli.options import (
    BACKEND_OPTIONS,
    CHATS,
    PARALLEL,
    REQUEST,
    SEARCH_OPTIONS,
    SERVER_BIN,
    STORAGE,
    YES,
)
from spectui.errors import UsageError
from spectui.format import counted, duration_text
from spectui.options.option import Decimal, Form, Whole
from spectui.options.request import RequestShape

if TYPE_CHECKING:
    from spectui.measure.workload import Workload
    from spectui.tune.places import Parameter

_ALL = "all"
"""``--tune`` for every parameter."""
_EXAMPLES = (
    (
        "See what the answer looks like, on the demo models, in four minutes",
        "spectui tune --demo --time-budget 4m",
    ),
    (
        "Compare two drafts, with the experts in RAM",
        "spectui tune -m target.gguf -md small.gguf -md tiny.gguf --cpu-moe",
    ),
    (
        "Improve a command that you have, measured through your llama-server",
        "spectui tune --from serve.sh --server-bin ./llama-server",
    ),
)


@request
class Tune:
    """Find the fastest draft and settings on this machine, and say whether they pay.

    Records a few prompts once and replays every setting on them, then measures the best against the
    target alone on other prompts. Ends with the verdict, why it is so, and a llama-server command.
    Ctrl-C keeps what was measured; the same command goes on from there. With --backend server your
    own llama-server measures: it shows what each draft length accepts and costs, and where it
    cannot, settings are tried one by one, and each starts a server; with -np it measures as many
    streams at once.
    """

    given: Given
    trials: int | None = option(
        "--trials",
        type=Whole(1),
        help=(
            "Time N settings beside the target alone before the best is confirmed, those of a "
            "resumed study included (default: none where they are forecast; else 50)."
        ),
    )
    time_budget: float | None = option(
        "--time-budget",
        type=Form.SECONDS,
        help=(
            "Stop trying in time to confirm the best by then, from when the models are loaded: "
            "90s, 30m, 2h, with the unit. The prompt at work is finished, and the first ones that "
            "confirm it may take half the time again."
        ),
    )
    study: str | None = option(
        "--study",
        metavar="NAME",
        help="Name of the study (default: made from the run).",
    )
    storage: str | None = STORAGE
    tuned: str | None = option(
        "--tune",
        metavar="LIST",
        help=(
            "Parameters of the target's place to search first, without a draft, or all: threads, "
            "threads_batch, ubatch_size, split_mode, n_cpu_moe (layers with their experts in RAM; "
            "it leaves room for each draft as well) and moe_cache_mib (a cache of these on a GPU). "
            "The draft and its numbers are searched in any case."
        ),
    )
    min_gain: float = option(
        "--min-gain",
        default=0.02,
        type=Decimal(0, 1),
        metavar="SHARE",
        help="Least gain that makes speculation worth it; 0.05 is 5 %.",
    )
    until: str = option(
        "--until",
        default="decided",
        type=click.Choice(["decided", "precise"]),
        help=(
            "End once the answer is decided (a gain also known within ±7 %, or after as long "
            "again), or with the time budget and the prompts, for a narrower interval."
        ),
    )
    requests: tuple[RequestShape, ...] = REQUEST

    @property
    def parameters(self) -> "frozenset[Parameter]":
        """Parameters of ``--tune``.

        Raises:
            UsageError: it names an unknown parameter, or none.
        """
        from spectui.tune.places import Parameter

        if self.tuned is None:
            return frozenset()
        if self.tuned == _ALL:
            return frozenset(Parameter)
        known = [str(parameter) for parameter in Parameter]
        # As options are written, too.
        wanted = [name.strip().replace("-", "_") for name in self.tuned.split(",")]
        for name in wanted:
            if name not in known:
                raise UsageError(
                    f"--tune {name!r}: choose among {', '.join(known)}, or give {_ALL}; the draft "
                    "and its numbers are searched in any case"
                )
        return frozenset(map(Parameter, wanted))

    def plan(self, study: str, workload: "Workload", why_not: str | None) -> str:
        """Steps of the search, time limit, and that it may be interrupted.

        Args:
            study: name of the study.
            workload: the prompts.
            why_not: why nothing is forecast; None where something is.
        """
        from spectui.tune.setup import MOST_TRIALS

        steps = list[str]()
        if not self.given.is_server:
            steps.append("a recording to replay every setting on")
        elif self.trials is None and why_not is None:
            others = "--trials N tries other values, and n-gram drafters"
            steps.append(f"a forecast of every draft length with draft_p_min 0 ({others})")
        if self.trials is not None or why_not is not None:
            because = f" ({why_not})" if self.trials is None else ""
            steps.append(f"up to {counted(self.trials or MOST_TRIALS, 'trial')}{because}")
        takes = "No limit of time (--time-budget sets one)"
        if self.time_budget is not None:
            takes = f"About {duration_text(self.time_budget)}: a step that has begun is finished"
        return (
            f"tuning on {counted(len(workload.items), 'prompt')}, {workload.sampling.label}: "
            f"{', '.join(steps)}, and the best against the target alone. {takes}; Ctrl+C keeps "
            f"what is finished (study {study})"
        )


command = request_command(
    Tune,
    "tune",
    "run_tune:tune",
    shared=(*SEARCH_OPTIONS, CHATS, YES, SERVER_BIN, *BACKEND_OPTIONS, PARALLEL),
    examples=_EXAMPLES,
)
