"""Options of a command that affect speed or output and that no measurement here applies.

Who may reach a server, what it logs and how it waits are none of them.
"""

from collections.abc import Iterator, Sequence

from spectui.export.words import Given, canonical, divide
from spectui.options.dialect import Dialect

_PLACES = (
    *("--device", "--main-gpu", "--tensor-split", "--split-mode", "--rpc", "--numa", "--no-host"),
    *("--n-cpu-ffn", "--fit", "--fit-target", "--fit-ctx", "--cpu-mask", "--cpu-range"),
    *("--cpu-strict", "--prio", "--poll", "--cpu-mask-batch", "--cpu-range-batch"),
    *("--cpu-strict-batch", "--prio-batch", "--poll-batch"),
)
_MODEL = (
    *("--lora", "--lora-scaled", "--control-vector", "--control-vector-scaled", "--mmproj"),
    *("--mmproj-url", "--embedding", "--rerank", "--rope-scaling", "--rope-scale"),
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
_NAMED = frozenset({*_PLACES, *_MODEL, *_PROMPTS, *_CHOICE})
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
_SWITCHED_OFF = frozenset({"--kv-offload", "--repack", "--op-offload"})
"""Switches that affect the speed when they are off."""


def unmeasured(words: Sequence[str]) -> tuple[str, ...]:
    """The options among ``words`` that a measurement leaves out, unchanged.

    What no table of options has is among them, without its value.

    Raises:
        BadInputError: an option lacks its value.
    """
    return tuple(dict.fromkeys(_left_out(words)))


def _left_out(words: Sequence[str]) -> Iterator[str]:
    for given in divide(words):
        if given.server is None:
            if given.option is None:
                yield given.flag
        elif given.is_speculative or _counts(given):
            yield " ".join(given.words)


def _counts(given: Given) -> bool:
    option = given.server
    if option is None:
        return False
    name, value = option.long_flag, given.values[0] if given.values else ""
    if name in _NEUTRAL:
        return not _is(value, _NEUTRAL[name])
    if name in _SWITCHED_OFF:
        return canonical(given.flag) in option.negations
    if name == "--fit":
        return value not in {"off", "0", "false", "disabled"}
    return name in _NAMED or option.dialects == {Dialect.IK}


def _is(text: str, value: float) -> bool:
    try:
        return float(text) == value
    except ValueError:
        return False
