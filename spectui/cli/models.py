"""``spectui models``: models on this machine."""

from pathlib import Path

import click

from spectui.cli.completing import presets
from spectui.cli.help import Group
from spectui.cli.options_common import QUIET, json_option
from spectui.cli.values import Value
from spectui.errors import UsageError
from spectui.options.option import Whole

_EXAMPLES = (
    ("Which models are here", "spectui models scan"),
    ("Which of them could draft for a target", "spectui models scan -m target.gguf"),
    ("Which drafts Hugging Face's hub has for it", "spectui models find -m target.gguf"),
)

_CONTEXT = click.option(
    "-c",
    "--ctx-size",
    "n_ctx",
    type=Value(Whole(1)),
    default=4096,
    show_default=True,
    metavar="N",
    help="Tokens of context that memory is given for.",
)


@click.group(name="models", cls=Group, examples=_EXAMPLES)
def command() -> None:
    """Find and fetch models and drafts for them, or build the demo models."""


@command.command(name="scan")
@click.argument("folders", nargs=-1, type=click.Path(path_type=Path), metavar="[DIR]...")
@click.option(
    "-m", "--model", "target", type=click.Path(path_type=Path), help="Rank drafts for it."
)
@_CONTEXT
@json_option()
@QUIET
def scan(
    *,
    folders: tuple[Path, ...],
    target: Path | None,
    n_ctx: int,
    json_path: str | None,
    quiet: bool,
) -> None:
    """List the models in each DIR, or with -m rank them as drafts.

    Sub-folders count. Without a DIR, the folders in which models usually lie are searched. Of files
    only headers are read, with -m vocabularies as well.
    """
    from spectui.cli.run_scan import run

    run(folders, target=target, n_ctx=n_ctx, json_path=json_path, quiet=quiet)


@command.command(name="find")
@click.option(
    "-m",
    "--model",
    "target",
    type=click.Path(path_type=Path),
    help="Find drafts for it. Has to be given.",
)
@_CONTEXT
@click.option(
    "--limit",
    type=Value(Whole(1, 100)),
    default=8,
    show_default=True,
    metavar="N",
    help="Repositories to look into, the most promising first.",
)
@json_option()
@QUIET
def find(
    *, target: Path | None, n_ctx: int, limit: int, json_path: str | None, quiet: bool
) -> None:
    """Ask Hugging Face's hub for drafts that fit a target; fetch none.

    Smaller models of its family, and files of MTP layers, EAGLE-3 and DFlash that were made for it.
    Of each, the header is read: some megabytes. Needs huggingface_hub, as the extra hub brings it.
    """
    from spectui.cli.hub import find

    if target is None:
        raise UsageError("models find looks for drafts of a target; give its file with -m FILE")
    find(target, n_ctx=n_ctx, most=limit, json_path=json_path, quiet=quiet)


@command.command(name="fetch")
@click.argument("what", metavar="REPO|PRESET", shell_complete=presets)
@click.argument("file", required=False)
@QUIET
def fetch(*, what: str, file: str | None, quiet: bool) -> None:
    """Fetch FILE of REPO, or the target and the first draft of PRESET, and print the paths.

    REPO is OWNER/NAME on Hugging Face's hub, OWNER/NAME:QUANT as llama-server's -hf takes it, or
    the address of a repository or of a file there. Files go to the hub's cache, a preset's to its
    folder; what is there already stays. Needs huggingface_hub, as the extra hub brings it.
    """
    from spectui.cli.hub import fetch

    fetch(what, file, quiet=quiet)


@command.command(name="demo")
@click.option(
    "--seed",
    type=Value(Whole(0)),
    default=0,
    show_default=True,
    metavar="N",
    help="Of the noise in their weights.",
)
@QUIET
def demo(*, seed: int, quiet: bool) -> None:
    """Build the demo models and print their paths.

    A dense and a mixture-of-experts target and two drafts, made from SmolLM2-135M.
    """
    from spectui.cli.output import say
    from spectui.cli.progress import open_progress
    from spectui.demo import DemoModel, ensure_demo_models

    progress = open_progress(quiet=quiet, verbose=False)
    try:
        built = ensure_demo_models(tuple(DemoModel), seed=seed, on_progress=progress.on_demo)
    finally:
        progress.close()
    for model, path in built.items():
        say(f"{model}\t{path}")
