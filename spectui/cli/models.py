"""``spectui models``: models on this machine."""

from pathlib import Path

import click

from spectui.cli.click_options import argument, option, request, request_command
from spectui.cli.help import Group
from spectui.cli.options import QUIET, json_option
from spectui.options.option import Form, Whole

_EXAMPLES = (
    ("Which models are here", "spectui models scan"),
    ("Which of them could draft for a target", "spectui models scan -m target.gguf"),
    ("Which drafts Hugging Face's hub has for it", "spectui models find -m target.gguf"),
)

_JSON = json_option()
_CONTEXT = option(
    "-c",
    "--ctx-size",
    type=Whole(1),
    default=4096,
    help="Tokens of context that memory is given for.",
)


@click.group(name="models", cls=Group, examples=_EXAMPLES)
def command() -> None:
    """Find models and drafts for them, or build the demo models."""


@request
class Scan:
    """List the models in each DIR, or with -m rank them as drafts.

    Sub-folders count. Without a DIR, the folders in which models usually lie are searched. Of files
    only headers are read, with -m vocabularies as well.
    """

    folders: tuple[Path, ...] = argument(nargs=-1, type=Form.FILE, metavar="[DIR]...")
    target: Path | None = option("-m", "--model", type=Form.FILE, help="Rank drafts for it.")
    n_ctx: int = _CONTEXT
    json_path: str | None = _JSON
    quiet: bool = QUIET


@request
class Find:
    """Ask Hugging Face's hub for drafts that fit a target; fetch none.

    Smaller models of its family, and files of MTP layers, EAGLE-3 and DFlash that were made for it.
    Of each, the header is read: some megabytes. Prints the commands of Hugging Face's own program,
    hf, that fetch them. Needs huggingface_hub, as the extra hub brings it.
    """

    target: Path = option(
        "-m", "--model", type=Form.FILE, required=True, help="Find drafts for it."
    )
    n_ctx: int = _CONTEXT
    json_path: str | None = _JSON
    quiet: bool = QUIET


@request
class Demo:
    """Build the demo models and print their paths.

    A dense and a mixture-of-experts target and two drafts, made from SmolLM2-135M.
    """

    quiet: bool = QUIET


command.add_command(request_command(Scan, "scan", "run_models:scan"))
command.add_command(request_command(Find, "find", "run_models:find"))
command.add_command(request_command(Demo, "demo", "run_models:build_demo"))
