"""Commands and options that spectui no longer has or leaves to others, with the way to go."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from spectui.errors import UsageError

_BY_SERVER = (
    "spectui's own engine has no such option any more; give it in a whole command, "
    "--from 'llama-server ...', with --backend server"
)
_VERIFY = "verify holds promises of studies; measure settings with spectui bench --backend server"
_GRIDS = "sweep has no files of grids any more; give lists such as --draft-max 2,4,8"
_RUNNING = (
    "bench starts the llama-servers that it measures; give the binary with --server-bin PATH, or "
    "watch a server that runs with spectui attach"
)
_FETCH = "fetch files with hf download, as spectui models find and presets show print it"
_PIN = "llama-server fits layers and experts itself; give your own with -ngl, -ncmoe or -ot"
_PROCESSORS = (
    "spectui gives its threads no processors and priorities of their own; leave out --cpu-mask, "
    "--cpu-range, --cpu-strict, --prio and --poll, and start it with taskset -c 0-7 or nice"
)
_STUDIES = (
    "studies are no longer moved as files of JSON; copy the file of studies, and give the copy "
    "with --storage sqlite:///FILE"
)
_SEARCHED = "tune searches the draft's numbers; leave it out, or measure one setting with bench"
_STDOUT = "export writes to stdout; let the shell write the file, as in spectui export > run.sh"
_REMOVED = {
    "completion": "completion is gone; _SPECTUI_COMPLETE=bash_source spectui prints the script",
    "probe": "probe experts is gone; spectui tune measures what experts cost on your prompts",
    "worker": "worker is gone; run the same tune with --study and --storage on each machine",
    "serve": "serve is gone; run spectui in a terminal, over ssh where the models are elsewhere",
    "doctor --libraries": "doctor says which library is used, and which cannot be; leave it out",
    "lint --fix": "--fix is gone; spectui export --from COMMAND writes the corrected command alone",
    "--draft-dir": "give each draft of a folder with -md; spectui models scan DIR -m lists them",
    "models fetch": _FETCH,
    "models pull": _FETCH,
    "studies export": _STUDIES,
    "studies import": _STUDIES,
    "studies repair": "studies repair is gone; a damaged file is moved aside where it is found",
    "attach --model": "--model is gone; give the address of the server that runs the model",
    "attach --once": "--once is gone; attach --json - writes what the server tells now",
    "bench --server-url": _RUNNING,
    "bench --baseline-url": _RUNNING,
    "export --force": _STDOUT,
    "export --out": _STDOUT,
    "export --pin": _PIN,
    "export --format compose": (
        "spectui writes no Compose files any more; put the options of the plain command into the "
        "service's command, with paths as its container sees them"
    ),
    "export --format llama-swap": (
        "spectui writes no files of llama-swap any more; put the plain command into the model's "
        "cmd, with --port ${PORT}"
    ),
    "sweep --grid": _GRIDS,
    "sweep --list": _GRIDS,
    "--ascii": "--ascii is gone; config.toml has ascii = true, as docs/configuration.md says",
    "--theme": "--theme is gone; choose a look with Ctrl+P, or as theme in config.toml",
    "tune --depth": "--depth is gone; --request PROMPT+ANSWER measures behind longer prompts",
    "tune --dialect": "--dialect is gone; spectui export --dialect writes the command in another",
    "tune --group": "--group is gone; run the same tune with --study and --storage on each machine",
    "tune --pin": _PIN,
    "tune --server-url": "--server-url is gone; give the server's binary with --server-bin PATH",
    **dict.fromkeys(
        (
            *("verify -m", "verify --model", "verify -md", "verify --model-draft"),
            *("verify --demo", "verify --preset", "verify --from", "verify --no-promise"),
        ),
        _VERIFY,
    ),
    **dict.fromkeys(
        (
            *("tune --draft-max", "tune --draft-min", "tune --draft-p-min"),
            *("tune --spec-draft-n-max", "tune --spec-draft-n-min", "tune --spec-draft-p-min"),
        ),
        _SEARCHED,
    ),
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
}
"""By command, behind ``spectui``, and option; an option alone was one of several commands."""
_WITHOUT = frozenset(
    (
        *("models demo --seed", "models find --limit", "report --force", "replay --costs"),
        *("replay --draft-max", "replay --draft-min", "replay --draft-p-min", "replay --spec-type"),
        *("sweep --dry-run", "sweep --retry-failed", "sweep --png", "tune --repeats"),
        *("tune --resume", "tune --sampler", "verify --counts", "verify --no-counts"),
        *("--keep-both", "--one-at-a-time", "--isolate", "--no-isolate", "--monitor-replay"),
        "--schedule",
    )
)
"""Those whose commands do the same without them."""


class ExportFormats(click.Choice[str]):
    """Formats of ``export``, which refuses those that it had in earlier versions."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return a format that there is."""
        if (reason := reason_of("export", f"--format {value}")) is not None:
            raise UsageError(reason)
        return super().convert(value, param, ctx)


def reason_of(command: str, name: str = "") -> str | None:
    """Why a command, or an option of one, is no more; None where it never was."""
    whole = f"{command} {name}".strip()
    if {whole, name} & _WITHOUT:
        return f"{name} is gone, and nothing takes its place; leave it out"
    return _REMOVED.get(whole) or _REMOVED.get(name)


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
