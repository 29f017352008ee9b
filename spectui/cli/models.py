"""``spectui models``: models on this machine."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import click

from spectui.cli.click_options import argument, option, request_command
from spectui.cli.completing import presets
from spectui.cli.help import Group
from spectui.cli.options_common import QUIET, json_option
from spectui.cli.values import Value
from spectui.options.option import Whole

_EXAMPLES = (
    ("Which models are here", "spectui models scan"),
    ("Which of them could draft for a target", "spectui models scan -m target.gguf"),
    ("Which drafts Hugging Face's hub has for it", "spectui models find -m target.gguf"),
)

_JSON = json_option()
_CONTEXT = option(
    "-c",
    "--ctx-size",
    type=Value(Whole(1)),
    show_default=True,
    metavar="N",
    help="Tokens of context that memory is given for.",
)


@click.group(name="models", cls=Group, examples=_EXAMPLES)
def command() -> None:
    """Find and fetch models and drafts for them, or build the demo models."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """List the models in each DIR, or with -m rank them as drafts.

    Sub-folders count. Without a DIR, the folders in which models usually lie are searched. Of files
    only headers are read, with -m vocabularies as well.
    """

    folders: Annotated[
        tuple[Path, ...],
        argument(nargs=-1, type=click.Path(path_type=Path), metavar="[DIR]..."),
    ]
    target: Annotated[
        Path | None,
        option("-m", "--model", type=click.Path(path_type=Path), help="Rank drafts for it."),
    ] = None
    n_ctx: Annotated[int, _CONTEXT] = 4096
    json_path: Annotated[str | None, _JSON] = None
    quiet: Annotated[bool, QUIET] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Find:
    """Ask Hugging Face's hub for drafts that fit a target; fetch none.

    Smaller models of its family, and files of MTP layers, EAGLE-3 and DFlash that were made for it.
    Of each, the header is read: some megabytes. Needs huggingface_hub, as the extra hub brings it.
    """

    target: Annotated[
        Path | None,
        option(
            "-m",
            "--model",
            type=click.Path(path_type=Path),
            help="Find drafts for it. Has to be given.",
        ),
    ] = None
    n_ctx: Annotated[int, _CONTEXT] = 4096
    limit: Annotated[
        int,
        option(
            "--limit",
            type=Value(Whole(1, 100)),
            show_default=True,
            metavar="N",
            help="Repositories to look into, the most promising first.",
        ),
    ] = 8
    json_path: Annotated[str | None, _JSON] = None
    quiet: Annotated[bool, QUIET] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetch:
    """Fetch FILE of REPO, or the target and the first draft of PRESET, and print the paths.

    REPO is OWNER/NAME on Hugging Face's hub, OWNER/NAME:QUANT as llama-server's -hf takes it, or
    the address of a repository or of a file there. Files go to the hub's cache, a preset's to its
    folder; what is there already stays. Needs huggingface_hub, as the extra hub brings it.
    """

    what: Annotated[str, argument(metavar="REPO|PRESET", shell_complete=presets)]
    file: Annotated[str | None, argument()] = None
    quiet: Annotated[bool, QUIET] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Demo:
    """Build the demo models and print their paths.

    A dense and a mixture-of-experts target and two drafts, made from SmolLM2-135M.
    """

    seed: Annotated[
        int,
        option(
            "--seed",
            type=Value(Whole(0)),
            show_default=True,
            metavar="N",
            help="Of the noise in their weights.",
        ),
    ] = 0
    quiet: Annotated[bool, QUIET] = False


command.add_command(request_command(Scan, "scan", "run_scan:scan"))
command.add_command(request_command(Find, "find", "hub:find"))
command.add_command(request_command(Fetch, "fetch", "hub:fetch"))
command.add_command(request_command(Demo, "demo", "run_scan:build_demo"))
