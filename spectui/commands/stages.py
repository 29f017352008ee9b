"""Stages of ik_llama.cpp: a kind of drafter behind each ``--spec-type``, with its numbers.

``ngram-mod:n_max=32,n_min=2`` is one. At most two stages make a chain, the second of which drafts
where the first finds nothing.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from spectui.commands.command import ServerCommand
from spectui.commands.renames import IK_KINDS, NEED_DRAFT, NONE
from spectui.options.drafters import NGRAM_KINDS

UNFINISHED = "eagle3"
"""Kind that it takes, and that drafts nothing."""
BY_ITSELF = (*NGRAM_KINDS, "suffix")
"""Kinds that need no model to draft."""
_BEHIND_THEM = (IK_KINDS["draft-simple"], IK_KINDS["draft-mtp"])
"""Kinds that may stand behind those."""
KNOWN_TO_IK = (NONE, *IK_KINDS.values(), UNFINISHED, *BY_ITSELF)
_LEAST = {
    **dict.fromkeys(("n_max", "n_min", "heads", "mtp_heads"), 0),
    **dict.fromkeys(("cross_ctx", "dflash_cross_ctx", "suffix_min_match_len"), 1),
    **dict.fromkeys(("suffix_max_depth", "ngram_size_n", "ngram_size_m", "ngram_min_hits"), 1),
}
"""Whole numbers behind a kind, with the least of each."""
_KEYS = (*_LEAST, "p_min", "suffix_corpus")
_WHOLE = re.compile(r"[+-]?\d+", re.ASCII)
_MOST_STAGES = 2
_QUOTES = ("'", '"')
_ESCAPED = "\\,'\""
"""Characters that a backslash in front leaves as they are."""


@dataclass(slots=True, kw_only=True)
class Stage:
    """A drafter with its numbers."""

    kind: str
    numbers: dict[str, str] = field(default_factory=dict)

    @property
    def words(self) -> tuple[str, ...]:
        """The option that stands for it."""
        settings = ",".join(f"{key}={_escaped(text)}" for key, text in self.numbers.items())
        return ("--spec-type", f"{self.kind}:{settings}" if settings else self.kind)


def read_stage(value: str) -> Stage:
    """The stage that a value of ``--spec-type`` stands for.

    Raises:
        ValueError: ik_llama.cpp stops at the value; the text is its reason.
    """
    name, colon, settings = value.partition(":")
    kind = name.replace("_", "-")
    if kind not in KNOWN_TO_IK:
        raise ValueError(
            f"it takes one of {', '.join(KNOWN_TO_IK)}, and the option again for another"
        )
    stage = Stage(kind=kind)
    for pair in _pairs(settings) if colon else ():
        key, equals, text = pair.partition("=")
        if not equals:
            raise ValueError(f"it takes KEY=NUMBER behind the colon, and stops at {pair!r}")
        known = key.lstrip("-").replace("-", "_")
        if known not in _KEYS:
            raise ValueError(f"it takes {', '.join(_KEYS)} behind the colon, and stops at {key!r}")
        number = _unescaped(text)
        wanted = _wanted(known, number)
        if wanted is not None:
            raise ValueError(f"{known} takes {wanted}, and it stops at {number!r}")
        stage.numbers[known] = number
    return stage


def _wanted(key: str, text: str) -> str | None:
    """What a key takes, where a text is none of it."""
    if key == "suffix_corpus":
        return None if text else "a name"
    if key == "p_min":
        try:
            return "a number from 0 on" if float(text) < 0 else None
        except ValueError:
            return "a number from 0 on"
    found = _WHOLE.match(text.strip())
    least = _LEAST[key]
    return f"a whole number from {least} on" if found is None or int(found[0]) < least else None


def _pairs(settings: str) -> Iterator[str]:
    """Yield what commas divide, outside quotes.

    Raises:
        ValueError: a quote does not end.
    """
    pair, quote, is_escaped = "", "", False
    for character in settings:
        if is_escaped:
            is_escaped = False
        elif character == "\\":
            is_escaped = True
        elif quote:
            quote = "" if character == quote else quote
        elif character in _QUOTES and pair.endswith("="):
            quote = character
        elif character == ",":
            yield pair
            pair = ""
            continue
        pair += character
    if quote:
        raise ValueError("a quote behind the colon does not end")
    yield pair


def _escaped(text: str) -> str:
    return "".join(f"\\{one}" if one in _ESCAPED else one for one in text)


def _unescaped(text: str) -> str:
    if len(text) > 1 and text[0] == text[-1] and text[0] in _QUOTES:
        text = text[1:-1]
    found, at = "", 0
    while at < len(text):
        at += text[at] == "\\" and text[at + 1 : at + 2] in tuple(_ESCAPED)
        found += text[at]
        at += 1
    return found


def loads_draft(command: ServerCommand) -> bool:
    """Whether ik_llama.cpp loads a draft model for the command."""
    kinds = []
    for _at, item in command.all("spec-type"):
        with suppress(ValueError):
            kinds.append(read_stage(item.value).kind)
    return has_draft(command) and any(kind in IK_KINDS.values() for kind in kinds)


def has_draft(command: ServerCommand) -> bool:
    """Whether the command names a draft model, or holds arguments for one."""
    return any(map(command.value, ("model-draft", "draft-params")))


def chain_fault(command: ServerCommand) -> tuple[int, str] | None:
    """The place of a stage at which ik_llama.cpp stops, and its reason; None if it takes all.

    Args:
        command: one of which each ``--spec-type`` is a stage.
    """
    stages = [read_stage(item.value) for _at, item in command.all("spec-type")]
    kinds = [stage.kind for stage in stages]
    places = [at for at, kind in enumerate(kinds) if kind != NONE]
    if len(places) > _MOST_STAGES:
        return places[_MOST_STAGES], "it takes two stages at most"
    for at in places:
        if kinds[at] in NEED_DRAFT and not has_draft(command):
            return at, f"{kinds[at]} needs a draft model, and it stops without -md"
    if len(places) < _MOST_STAGES:
        return None
    first, second = places
    if kinds[first] == kinds[second]:
        place = first if stages[second].numbers and not stages[first].numbers else second
        return place, "it takes a kind once, and stops at a second stage of it"
    if kinds[first] not in BY_ITSELF:
        return first, f"of two stages the first is one of {', '.join(BY_ITSELF)}"
    if kinds[second] not in _BEHIND_THEM:
        return second, f"of two stages the second is {' or '.join(_BEHIND_THEM)}"
    return None


def in_order(stages: Sequence[Stage]) -> list[Stage]:
    """The stages with those that need no model first, as ik_llama.cpp takes them."""
    return sorted(stages, key=lambda stage: stage.kind not in BY_ITSELF)
