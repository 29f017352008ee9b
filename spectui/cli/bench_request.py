"""Request of ``spectui bench``: what to measure, and with which backend."""

from collections.abc import Sequence
from dataclasses import dataclass

from spectui.cli.bench_run import Kinds
from spectui.cli.given import Models
from spectui.cli.options_backend import BackendKind
from spectui.cli.request import SharedOptions
from spectui.errors import UsageError
from spectui.options.speculation import Speculation
from spectui.prompts import Prompt


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A measurement to perform."""

    shared: SharedOptions
    models: Models
    speculation: Speculation
    names_kind: bool
    """Whether the user has typed who drafts."""
    prompts: Sequence[Prompt]
    kinds: Kinds
    extra: tuple[str, ...]
    """The user's own arguments for llama-server that spectui does not know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchOptions:
    """Options that select the backend, by click's parameter names."""

    backend: str
    server_bin: str | None
    server_url: str | None
    baseline_url: str | None
    keeps_both: bool | None
    timeout: float

    @property
    def is_server(self) -> bool:
        """Whether a llama-server decodes."""
        return self.backend == BackendKind.SERVER or self.server_url is not None

    def check(self) -> None:
        """Refuse options that contradict each other.

        Raises:
            UsageError: they do.
        """
        if self.server_bin is not None and self.server_url is not None:
            raise UsageError(
                "--server-bin starts a llama-server and --server-url names one that runs; leave "
                "out one of them"
            )
        if self.baseline_url is not None and self.server_url is None:
            raise UsageError(
                "--baseline-url is what --server-url is compared with; give --server-url as well"
            )
        if self.server_bin is not None and not self.is_server:
            raise UsageError("--server-bin is for --backend server; add that, or leave it out")
        if self.keeps_both is not None and (not self.is_server or self.server_url is not None):
            raise UsageError(
                "--keep-both and --one-at-a-time are for servers that spectui starts; add "
                "--backend server --server-bin PATH, or leave them out"
            )
