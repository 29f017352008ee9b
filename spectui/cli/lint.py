"""``spectui lint``: problems of a llama-server command, with replacements."""

from itertools import pairwise
from pathlib import PurePath

import click

from spectui.cli.click_options import argument, option, request, request_command, switch
from spectui.cli.completion import files
from spectui.cli.help import Command
from spectui.cli.options import DIALECTS, QUIET, json_option, server_bin_option


class _Quoted(Command):
    """Accepts a word with blanks as the command to check, even if it starts with a dash."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given = list(args)
        quoted = [word for word in args if word.startswith("-") and " " in word]
        if quoted:
            args = [*(word for word in args if word not in quoted), "--", *quoted]
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            words = [word for before, word in pairwise(["", *given]) if before != "--server-bin"]
            if any(PurePath(word).name == "llama-server" for word in words):
                raise click.UsageError(
                    'quote the whole command as one: spectui lint "llama-server -m FILE"', ctx
                ) from error
            raise


_EXAMPLES = (
    ("A command", 'spectui lint "llama-server -m target.gguf -md draft.gguf --draft 16"'),
    ("The llama-server that runs", "spectui lint pid:"),
    ("A script, for your llama-server", "spectui lint serve.sh --server-bin ./llama-server"),
)


@request
class Lint:
    """Check an existing llama-server command, without running it.

    COMMAND is the command itself, quoted as one argument; a file that holds it (a shell script, a
    Compose or llama-swap file, a models preset, a page of Markdown), with all that are in it, or
    one as FILE:NAME; or pid:NUMBER of a llama-server that runs, pid: for the only one, or a list.
    Without COMMAND it is read from stdin: paste it, then press Ctrl-D. Nothing is taken from the
    environment.

    Says what the server refuses, ignores, or understands differently than builds before spring
    2026, and which build the command was taken to be for. A llama-server of this machine reads the
    options itself, and loads nothing; the one that COMMAND names is never started. Where the models
    are on this machine, it also says whether they fit each other and the memory, as spectui doctor
    does.

    Exits with 3 if there are errors, with 0 otherwise, whatever warnings there are.
    """

    command_line: str | None = argument(metavar="[COMMAND]", required=False, shell_complete=files)
    dialect: str | None = option(
        "--dialect",
        type=DIALECTS,
        help=(
            "Which llama-server will read it (default: that of --server-bin, or the command's own)."
        ),
    )
    server_bin: str | None = server_bin_option(
        "The llama-server that will read it, and judges it (default: one that is found here)."
    )
    no_models: bool = switch(
        "--no-models", help="Look at the arguments alone, though the models are here."
    )
    json_path: str | None = json_option("Write the findings as JSON; - for stdout.")
    quiet: bool = QUIET


command = request_command(Lint, "lint", "run_lint:lint", cls=_Quoted, examples=_EXAMPLES)
