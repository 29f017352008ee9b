"""Ranking of drafts for a target: compatibility, chance of a speedup, reasons against others."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from spectui.models.facts import ModelFacts
from spectui.models.files import FoundModel
from spectui.paths import demo_folder

GOOD_SHARE = (0.01, 0.15)
"""Range of the weights that a promising draft reads per token, as a share of its target's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelInspected:
    """Result of inspecting a draft beside its target, or the target itself."""

    target: Path
    path: Path
    facts: ModelFacts | None
    """None where the file cannot be read."""
    reason: str | None
    """Why the model cannot serve, None if it can."""
    slowness: str | None = None
    """Why the pair would read its weights from disk; None where that is not so, or not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftOption:
    """A model seen as a draft of one target."""

    model: FoundModel
    facts: ModelFacts | None
    """None until its file was read, and where that failed."""
    reason: str | None
    """Why it does not fit; None if it does, or as long as no reason is known."""
    memory_bytes: int | None
    """Weights and cache at the context size; None while the cache's part is not known."""
    slowness: str | None = None
    """As ``ModelInspected.slowness``."""

    @property
    def is_checked(self) -> bool:
        """Whether it is known to fit or not to fit."""
        return self.facts is not None or self.reason is not None


def look_at(
    target: ModelFacts, model: FoundModel, compare: Callable[[Path], ModelInspected], n_ctx: int
) -> DraftOption:
    """Inspect ``model`` as a draft of ``target``, unless its size alone excludes it.

    Args:
        target: the target.
        model: the model.
        compare: reads the model's header beside the target.
        n_ctx: tokens that the context holds.
    """
    option = assess(target.file_bytes, model, None, n_ctx)
    if option.reason is not None:
        return option
    return assess(target.file_bytes, model, compare(model.path), n_ctx)


def assess(
    target_bytes: int, model: FoundModel, inspected: ModelInspected | None, n_ctx: int
) -> DraftOption:
    """Describe ``model`` as a draft, with the result of its inspection so far.

    Args:
        target_bytes: bytes of the target's files.
        model: the model.
        inspected: what is known of it beside the target.
        n_ctx: tokens that the context holds.
    """
    facts = inspected.facts if inspected else None
    reason = model.damage or _too_large(target_bytes, model.size_bytes)
    if reason is None and inspected is not None:
        reason = inspected.reason
    return DraftOption(
        model=model,
        facts=facts,
        reason=reason,
        memory_bytes=needed_memory(model, facts, n_ctx),
        slowness=inspected.slowness if inspected else None,
    )


def needed_memory(model: FoundModel, facts: ModelFacts | None, n_ctx: int) -> int | None:
    """Bytes of weights and cache at a context size; None while the cache's part is not known."""
    if facts is None or facts.kv_bytes_per_token is None:
        return None
    return model.size_bytes + n_ctx * facts.kv_bytes_per_token


def _too_large(target_bytes: int, draft_bytes: int) -> str | None:
    if draft_bytes > target_bytes:
        return "is larger than the target"
    return "is as large as the target" if draft_bytes == target_bytes else None


def read_share(target: ModelFacts, draft: ModelFacts | None) -> float | None:
    """Return the weights that a draft's token reads, as a share of what the target's reads.

    Not the files' share: of a mixture of experts a token reads a small part. None where the draft
    was not read, and where one of them has no weights.
    """
    if draft is None or not (target.read_bytes_per_token and draft.read_bytes_per_token):
        return None
    return draft.read_bytes_per_token / target.read_bytes_per_token


def rank(
    target: FoundModel | ModelFacts, options: Sequence[DraftOption]
) -> tuple[DraftOption, ...]:
    """Order drafts: those that fit, those not inspected yet, slow ones, those that do not fit.

    Within each group, by the bytes that generating a token reads: a draft that reads 10 % of its
    target's bytes costs about 10 % of a target step per drafted token. Above some 15 % a draft must
    be accepted nearly always to pay; below 1 % it seldom agrees with so much larger a model. Drafts
    between these come first, then the others by their distance from that range, and of two at the
    same distance the one that takes less memory. Only a measurement shows which draft is the best:
    the order is one to begin with. Demo models draft for demo targets alone.

    Args:
        target: its file alone while its header was not read: then sizes of files stand in for the
            bytes of a token, as they do for drafts whose headers were not read.
        options: every other model.
    """
    folder = demo_folder()
    is_demo = target.path.parent == folder
    own = (one for one in options if is_demo or one.model.path.parent != folder)
    return tuple(sorted(own, key=lambda option: _rank_key(target, option)))


def _rank_key(target: FoundModel | ModelFacts, option: DraftOption) -> tuple[int, float, int, str]:
    group = 3 if option.reason is not None else 2 if option.slowness else 1 - option.is_checked
    memory_bytes = option.memory_bytes or option.model.size_bytes
    return group, distance(_share(target, option)), memory_bytes, str(option.model.path)


def _share(target: FoundModel | ModelFacts, option: DraftOption) -> float:
    known = read_share(target, option.facts) if isinstance(target, ModelFacts) else None
    own = target.file_bytes if isinstance(target, ModelFacts) else target.size_bytes
    return known or max(option.model.size_bytes, 1) / max(own, 1)


def distance(share: float) -> float:
    """Factor by which a draft is too small or too large, 1 for a good size."""
    low, high = GOOD_SHARE
    return max(1.0, low / share, share / high)
