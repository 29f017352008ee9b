"""Withholds options of the user's command from servers that spectui starts for itself."""

from collections.abc import Iterable, Mapping, Sequence

from spectui.export.server_options import PREFIX, canonical, server_option
from spectui.export.words import divide

_REACHED = (
    *("--host", "--port", "--reuse-port", "--api-key", "--api-key-file", "--api-prefix"),
    *("--ssl-key-file", "--ssl-cert-file"),
)
"""Options that determine who may reach the server."""
_WRITTEN = (
    *("--log-file", "--log-prompts-dir", "--slot-save-path", "--lookup-cache-dynamic"),
    *("--sql-save-file", "--prompt-cache", "--logdir", "-ld"),
)
"""Options for files that the server would overwrite beside the user's own server."""
_STARTED = ("--mcp-servers-config", "--mcp-servers-json", "--tools", "--tools-runtime", "--agent")
"""Options for programs that the server would start, and tools that change files."""


def own_arguments(words: Sequence[str]) -> tuple[str, ...]:
    """The arguments that such a server gets.

    Raises:
        BadInputError: an option lacks its value.
    """
    kept = (given for given in divide(words) if canonical(given.flag) not in _FLAGS)
    return tuple(word for given in kept for word in given.words)


def own_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that such a server gets."""
    return {name: value for name, value in environment.items() if name not in _VARIABLES}


def _spellings(flags: Iterable[str]) -> frozenset[str]:
    options = ((flag, server_option(flag)) for flag in flags)
    return frozenset(
        spelling
        for flag, option in options
        for spelling in ((flag,) if option is None else (*option.flags, *option.negations))
    )


def _variables(flags: Iterable[str]) -> frozenset[str]:
    options = (server_option(flag) for flag in flags)
    names = [option.variable for option in options if option is not None and option.variable]
    # Builds before spring 2026 called some of them without the ARG.
    return frozenset((*names, *(name.replace(PREFIX, "LLAMA_", 1) for name in names)))


_FLAGS = _spellings((*_REACHED, *_WRITTEN, *_STARTED))
_VARIABLES = _variables((*_REACHED, *_WRITTEN, *_STARTED))
