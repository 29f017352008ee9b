"""``spectui models``: models on this machine."""

import click


@click.group(name="models")
def command() -> None:
    """Build the demo models."""


@command.command(name="demo")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--quiet", is_flag=True, help="Show no progress.")
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
