"""Preparation of ``bench`` and ``tune`` for measurements through a llama-server."""

from collections.abc import Callable, Sequence

from spectui.cli.progress import Progress
from spectui.cli.request import SharedOptions
from spectui.errors import BadInputError, UsageError
from spectui.format import bytes_text
from spectui.measure.served_models import both_fit, size_bytes
from spectui.measure.servers import Fleet
from spectui.measure.workload import WARM_UP_TOKENS, Workload, as_tokens, distinct
from spectui.monitor.machine import this_machine
from spectui.options.setup import ModelOptions, Schedule, Setup
from spectui.paths import data_dir, ensure_dir
from spectui.prompts import Prompt
from spectui.server import LlamaClient, LlamaServer
from spectui.server.binary import ServerBinary, examine

_WARM_UP_TEXT = "The quick brown fox"


def wanted_binary(server_bin: str | None) -> ServerBinary:
    """The llama-server that is to measure.

    Raises:
        ServerError: it is none, or cannot be asked.
        UsageError: none was given.
    """
    if server_bin is None:
        raise UsageError("--backend server measures through a llama-server; give --server-bin PATH")
    return examine(server_bin)


def check_schedule(shared: SharedOptions) -> None:
    """Refuse a schedule that llama-server does not have.

    Raises:
        UsageError: it was asked for.
    """
    if shared.schedule_kind() is not Schedule.SERVER:
        raise UsageError(
            f"--schedule {shared.schedule} is spectui's own engine's; leave it out with "
            "--backend server"
        )


def keeps_off(
    target: ModelOptions, drafts: Sequence[ModelOptions | None], *, wanted: bool | None
) -> bool:
    """Whether the server of the target alone stays alive beside one with any draft.

    ``wanted`` is what the user has said.
    """
    if wanted is not None:
        return wanted
    machine = this_machine()
    return all(both_fit(target, draft, machine) for draft in drafts or (None,))


def open_fleet(
    binary: ServerBinary,
    progress: Progress,
    *,
    keeps_off: bool,
    timeout_s: float,
    name: Callable[[Setup], str],
) -> Fleet:
    """Open a fleet whose servers warm up on first use; nothing is started yet.

    Args:
        binary: binary of all servers.
        progress: told of every start.
        keeps_off: as ``Fleet``.
        timeout_s: as ``Fleet``.
        name: name of the server that speculates.
    """

    def started(setup: Setup) -> None:
        size = bytes_text(sum(size_bytes(model.path) for model in setup.models))
        what = "without speculation" if setup.is_off else f"with {name(setup)}"
        progress.say(f"starting llama-server {what} ({size} to load)")

    return Fleet(
        binary,
        logs=ensure_dir(data_dir() / "logs"),
        keeps_off=keeps_off,
        timeout_s=timeout_s,
        on_start=started,
        on_ready=_warm_up,
    )


def _warm_up(server: LlamaServer) -> None:
    server.complete(_WARM_UP_TEXT, n_predict=WARM_UP_TOKENS)


def served_workload(
    server: LlamaClient,
    prompts: Sequence[Prompt],
    shared: SharedOptions,
    progress: Progress,
    *,
    n_ctx: int,
    remedy: str = "raise -c",
) -> Workload:
    """The prompts tokenized by the server, each text once; ``remedy`` as in ``as_tokens``.

    Raises:
        BadInputError: a prompt does not fit, or there is none.
        ServerError: the server refused one.
    """
    found = as_tokens(server, prompts, n_predict=shared.n_predict, n_ctx=n_ctx, remedy=remedy)
    items, repeated = distinct(found)
    if repeated:
        progress.say(f"left out, the same text as another prompt: {', '.join(repeated)}")
    if not items:
        raise BadInputError("there are no prompts to measure; give --prompts")
    return Workload(items=items, n_predict=shared.n_predict, sampling=shared.sampling_config())
