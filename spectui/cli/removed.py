"""Commands and options that spectui no longer has, with the way that is left."""

from collections.abc import Iterator
from contextlib import contextmanager

import click

from spectui.errors import UsageError

_COUNTS = "verify compares speedups alone; leave out --counts and --no-counts"
_ISOLATE = "the models always have a process of their own; leave out --isolate and --no-isolate"
_BY_SERVER = (
    "spectui's own engine has no such option any more; give it in a whole command, "
    "--from 'llama-server ...', with --backend server"
)
_REPLAY = "replay predicts all settings that tune searches; leave out its lists of values"
_VERIFY = "verify holds promises of studies; measure settings with spectui bench --backend server"
_GRIDS = "sweep has no files of grids any more; give lists such as --draft-max 2,4,8"
_RUNNING = (
    "bench starts the llama-servers that it measures; give the binary with --server-bin PATH, or "
    "watch a server that runs with spectui attach"
)
_FETCH = "fetch files with hf download, as spectui models find and presets show print it"
_BOTH = "servers run side by side where memory has room; leave out --keep-both and --one-at-a-time"
_PROCESSORS = (
    "spectui gives its threads no processors and priorities of their own; leave out --cpu-mask, "
    "--cpu-range, --cpu-strict, --prio and --poll, and start it with taskset -c 0-7 or nice"
)
_REMOVED = {
    "probe": "probe experts is gone; spectui tune measures what experts cost on your prompts",
    "worker": "worker is gone; run the same tune with --study and --storage on each machine",
    "serve": "serve is gone; run spectui in a terminal, over ssh where the models are elsewhere",
    "doctor --libraries": "doctor says which library is used, and which cannot be; leave it out",
    "lint --fix": "--fix is gone; spectui export --from COMMAND writes the corrected command alone",
    "--draft-dir": "give each draft of a folder with -md; spectui models scan DIR -m lists them",
    "models fetch": _FETCH,
    "models pull": _FETCH,
    "studies repair": "studies repair is gone; a damaged file is moved aside where it is found",
    "attach --model": "--model is gone; give the address of the server that runs the model",
    "attach --once": "--once is gone; attach --json - writes what the server tells now",
    "replay --costs": "--costs is gone; replay --json has them",
    "replay --draft-max": _REPLAY,
    "replay --draft-min": _REPLAY,
    "replay --draft-p-min": _REPLAY,
    "replay --spec-type": _REPLAY,
    "bench --server-url": _RUNNING,
    "bench --baseline-url": _RUNNING,
    "report --format json": "the card of JSON is gone; studies show --json - has the document",
    "report OTHER": "two studies side by side are gone; write a report of each",
    "sweep --grid": _GRIDS,
    "sweep --list": _GRIDS,
    "sweep --dry-run": "--dry-run is gone; sweep says at its start how much it measures",
    "sweep --retry-failed": "sweep tries again what has failed; leave out --retry-failed",
    "sweep --png": "sweep --out draws one picture, speedups.svg; leave out --png",
    "tune --depth": "--depth is gone; --request PROMPT+ANSWER measures behind longer prompts",
    "tune --dialect": "--dialect is gone; spectui export --dialect writes the command in another",
    "tune --group": "--group is gone; run the same tune with --study and --storage on each machine",
    "tune --pin": "tune leaves to the server what it fits; spectui export --pin writes it out",
    "tune --repeats": "tune times prompts as often as the answer takes; leave out --repeats",
    "tune --resume": "tune goes on with the study that it finds; leave out --resume",
    "tune --sampler": "tune chooses settings with Optuna's TPE alone; leave out --sampler",
    "tune --server-url": "--server-url is gone; give the server's binary with --server-bin PATH",
    **dict.fromkeys(
        (
            *("verify -m", "verify --model", "verify -md", "verify --model-draft"),
            *("verify --demo", "verify --preset", "verify --from", "verify --no-promise"),
        ),
        _VERIFY,
    ),
    "verify --counts": _COUNTS,
    "verify --no-counts": _COUNTS,
    **dict.fromkeys(
        (
            *("--cpu-mask", "-C", "--cpu-range", "-Cr", "--cpu-strict", "--prio", "--poll"),
            *("--cpu-mask-batch", "-Cb", "--cpu-range-batch", "-Crb", "--cpu-strict-batch"),
            *("--prio-batch", "--poll-batch"),
        ),
        _PROCESSORS,
    ),
    **dict.fromkeys(
        ("--lazy-mode", "-lzm", "--no-host", "--n-cpu-ffn", "-ncffn"),
        _BY_SERVER,
    ),
    "--keep-both": _BOTH,
    "--one-at-a-time": _BOTH,
    "--isolate": _ISOLATE,
    "--no-isolate": _ISOLATE,
    "--monitor-replay": "the screen shows this machine's readings; leave out --monitor-replay",
    "--schedule": "every round does llama-server's work; leave out --schedule",
}
"""By command, behind ``spectui``, and option, with its value where others are left.

An option alone was one of several commands; a word in capitals was an argument.
"""


def reason_of(command: str, name: str = "") -> str | None:
    """Why a command, or an option of one, is no more; None where it never was."""
    return _REMOVED.get(f"{command} {name}".strip()) or _REMOVED.get(name)


@contextmanager
def removed_refused(ctx: click.Context) -> Iterator[None]:
    """Refuse inside the block what was a command, or an option of one, in an earlier version.

    Raises:
        UsageError: such a word was typed.
    """
    try:
        yield
    except (click.NoSuchOption, click.NoSuchCommand) as error:
        name = error.option_name if isinstance(error, click.NoSuchOption) else error.command_name
        reason = reason_of(ctx.command_path.partition(" ")[2], name)
        if reason is None:
            raise
        raise UsageError(reason) from None
