"""``spectui export``: the flags that tuning advised, or a command in another dialect."""

from pathlib import Path

import click

_DIALECTS = ("auto", "llama.cpp", "llama.cpp-legacy", "ik")
_FORMATS = ("llama-server", "args", "env", "ini", "llama-swap", "compose", "json")


@click.command(name="export")
@click.argument("study", required=False)
@click.option(
    "--from",
    "command_line",
    metavar="COMMAND",
    help='Rewrite an existing command instead: "llama-server -m ...".',
)
@click.option(
    "--dialect",
    type=click.Choice(_DIALECTS),
    default="auto",
    show_default=True,
    help="Whose option names are written; auto asks --server-bin, else follows the study.",
)
@click.option(
    "--server-bin",
    metavar="PATH",
    help="The llama-server that will read it: only what its --help lists is written.",
)
@click.option(
    "--format",
    "format_",
    type=click.Choice(_FORMATS),
    default="llama-server",
    show_default=True,
    help="A command, its arguments, variables, or a file for what starts llama-server.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write it to FILE instead of stdout.",
)
@click.option("--force", is_flag=True, help="Let --out take the place of a file that exists.")
@click.option(
    "--storage",
    metavar="URL",
    help="Optuna storage of the study (default: a SQLite file of spectui's own).",
)
def command(
    *,
    study: str | None,
    command_line: str | None,
    dialect: str,
    server_bin: str | None,
    format_: str,
    out: Path | None,
    force: bool,
    storage: str | None,
) -> None:
    """Write the flags that spectui tune printed in the end of STUDY, for a llama-server.

    STUDY is a name, or a part of one; the latest study without it. Where the verdict was to turn
    speculation off, no speculative flag is written.
    """
    from spectui.cli.run_export import Reader, export, from_command, from_study
    from spectui.errors import UsageError
    from spectui.options.dialect import Dialect

    if command_line is not None and (study is not None or storage is not None):
        raise UsageError("--from rewrites a command, so there is no study to take; leave one out")
    if force and out is None:
        raise UsageError("--force is for --out FILE; add it, or leave out --force")
    reader = Reader(dialect=dialect, server_bin=server_bin, format=format_)
    if command_line is None:
        setup, usual = from_study(study, storage)
        export(setup, usual, reader, out, force=force)
    else:
        export(from_command(command_line, format_), Dialect.LLAMA_CPP, reader, out, force=force)
