"""The part of a command that measurements run, and the options that none of them applies."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from spectui.commands.items import Item, divide, words_of
from spectui.commands.server_options import PREFIX, canonical, server_option
from spectui.options.dialect import Dialect

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
_PLACES = ("--split-mode",)
IGNORED = frozenset(
    f"--spec-draft-{one}{which}"
    for one in ("cpu-mask", "cpu-range", "cpu-strict", "prio", "poll")
    for which in ("", "-batch")
)
"""Options of a draft's threads, which llama-server reads and never applies."""
_BESIDE = ("--mmproj", "--mmproj-url", "--embedding", "--rerank")
_MODEL = (
    *("--lora", "--lora-scaled", "--control-vector", "--control-vector-scaled"),
    *("--rope-scaling", "--rope-scale"),
    *("--rope-freq-base", "--rope-freq-scale", "--yarn-orig-ctx", "--yarn-ext-factor"),
    *("--yarn-attn-factor", "--yarn-beta-slow", "--yarn-beta-fast", "--grp-attn-n"),
)
_PROMPTS = (
    *("--chat-template", "--chat-template-file", "--chat-template-kwargs", "--reasoning"),
    *("--reasoning-effort", "--reasoning-budget"),
)
_CHOICE = (
    *("--grammar", "--grammar-file", "--json-schema", "--json-schema-file", "--samplers"),
    *("--sampler-seq", "--logit-bias", "--backend-sampling"),
)
_NAMED = frozenset({*_PLACES, *_BESIDE, *_MODEL, *_PROMPTS, *_CHOICE})
_APPLIED = frozenset({*_PLACES, *_MODEL})
_NEUTRAL: dict[str, float] = {
    "--parallel": 1,
    "--repeat-penalty": 1,
    "--presence-penalty": 0,
    "--frequency-penalty": 0,
    "--dry-multiplier": 0,
    "--xtc-probability": 0,
    "--typical": 1,
    "--top-nsigma": -1,
    "--mirostat": 0,
    "--dynatemp-range": 0,
    "--adaptive-target": -1,
}
"""Options without effect at this value, by their first long spelling."""
_SWITCHED_OFF = frozenset({"--kv-offload", "--op-offload"})
"""Switches that affect the speed when they are off."""


def own_arguments(words: Sequence[str]) -> tuple[str, ...]:
    """The user's arguments that a server of spectui's own gets.

    Raises:
        BadInputError: an option lacks its value.
    """
    return words_of(item for item in divide(words) if canonical(item.flag) not in _FLAGS)


def own_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The user's variables that a server of spectui's own gets."""
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


def unmeasured(words: Sequence[str]) -> tuple[str, ...]:
    """The options among ``words`` that a measurement leaves out, unchanged.

    What no table of options has is among them, without its value.

    Raises:
        BadInputError: an option lacks its value.
    """
    return tuple(dict.fromkeys(_left_out(words)))


def beyond_engine(words: Sequence[str]) -> tuple[str, ...]:
    """Those of ``unmeasured`` that place a model or change it, which a llama-server applies.

    Raises:
        BadInputError: an option lacks its value.
    """
    placed = (item for item in divide(words) if _counts(item) and _long(item) in _APPLIED)
    return tuple(dict.fromkeys(item.text for item in placed))


def _long(item: Item) -> str:
    return "" if item.server is None else item.server.long_flag


def _left_out(words: Sequence[str]) -> Iterator[str]:
    for item in divide(words):
        if item.server is None:
            if item.option is None:
                yield item.flag
        elif (item.is_speculative and _long(item) not in IGNORED) or _counts(item):
            yield item.text


def _counts(item: Item) -> bool:
    option = item.server
    if option is None:
        return False
    name, value = option.long_flag, item.values[0] if item.values else ""
    if name in _NEUTRAL:
        return not _is(value, _NEUTRAL[name])
    is_negated = canonical(item.flag) in option.negations
    if name in _SWITCHED_OFF:
        return is_negated
    return (name in _NAMED and not is_negated) or option.dialects == {Dialect.IK}


def _is(text: str, value: float) -> bool:
    try:
        return float(text) == value
    except ValueError:
        return False
