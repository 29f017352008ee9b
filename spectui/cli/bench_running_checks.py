"""Checks for measurements that ``spectui bench --server-url`` cannot make."""

import click
from click.core import ParameterSource

from spectui.cli.bench_request import BenchOptions
from spectui.cli.options_backend import BackendKind
from spectui.errors import UsageError
from spectui.server.address import parse_address

_TAKEN = frozenset(
    {
        *("backend", "server_url", "baseline_url", "timeout"),
        *("temp", "lengths", "repeats", "prompts", "n_predict"),
        *("top_k", "top_p", "min_p", "seed", "ignore_eos"),
        *("json_path", "quiet", "verbose"),
    }
)
"""Parameters about prompts, the only ones that apply to a running server."""


def check_typed(ctx: click.Context) -> None:
    """Refuse options that a running server cannot be given.

    Raises:
        UsageError: one was typed.
    """
    for param in ctx.command.params:
        name = param.name or ""
        if name in _TAKEN or ctx.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
            continue
        raise UsageError(
            f"{param.opts[0]}: a server that runs is measured as it stands, since llama-server "
            "takes no such option per request; leave it out, or have it started with --backend "
            "server --server-bin PATH"
        )


def check_servers(ctx: click.Context, backend: BenchOptions) -> None:
    """Refuse pairs of servers whose comparison would be meaningless.

    Raises:
        UsageError: they are one, or the engine was asked for.
    """
    is_typed = ctx.get_parameter_source("backend") is ParameterSource.COMMANDLINE
    if is_typed and backend.backend == BackendKind.ENGINE:
        raise UsageError(
            "--backend engine decodes in this process, and --server-url names a "
            "llama-server that does; leave out one of them"
        )
    if backend.baseline_url is None:
        return
    urls = {parse_address(str(one)).url for one in (backend.server_url, backend.baseline_url)}
    if len(urls) == 1:
        raise UsageError(
            f"--server-url and --baseline-url are both {urls.pop()}, which would be compared with "
            "itself; give the address of another one that was started without speculation"
        )
