"""What a llama-server did with prompts."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from spectui.errors import BadInputError
from spectui.prompts import Prompt
from spectui.server import ChatMessage, Completion, LlamaClient
from spectui.tune.promise import Observed, digest_of
from spectui.tune.statistics import PairedMeasurement
from spectui.tune.workload import WorkItem


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedPair:
    """One prompt that a server without and one with speculation have continued."""

    item: WorkItem
    off: Completion
    on: Completion

    @property
    def observed(self) -> Observed | None:
        """Seconds, tokens and counts; None where the text ended before anything was decoded."""
        decoded = [done.n_predicted - 1 for done in (self.off, self.on)]
        if min(decoded) < 1 or not (self.off.predicted_s > 0 and self.on.predicted_s > 0):
            return None
        return Observed(
            measurement=PairedMeasurement(
                prompt_id=self.item.id,
                category=self.item.category,
                # The first token comes with the prompt.
                baseline_s=self.off.predicted_s,
                baseline_tokens=decoded[0],
                speculative_s=self.on.predicted_s,
                speculative_tokens=decoded[1],
            ),
            n_drafted=self.on.n_drafted,
            n_accepted=self.on.n_accepted,
            digest=digest_of(self.item.tokens),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """What was measured of two servers."""

    pairs: tuple[ServedPair, ...] = ()
    n_starts: int = 0
    repeated: tuple[str, ...] = ()
    """Prompts that were left out, since others have the same tokens."""
    ended: BaseException | None = field(default=None, compare=False)
    """What ended it early."""

    @property
    def observed(self) -> tuple[Observed, ...]:
        """Of the pairs that decoded something."""
        return tuple(one for pair in self.pairs if (one := pair.observed) is not None)

    @property
    def n_drafted_off(self) -> int:
        """By the server that should not draft."""
        return sum(pair.off.n_drafted for pair in self.pairs)


def as_tokens(
    server: LlamaClient, prompts: Sequence[Prompt], *, n_predict: int, n_ctx: int
) -> tuple[WorkItem, ...]:
    """Render conversations with the server's own template, and tokenize everything.

    Raises:
        BadInputError: a prompt does not fit in the context with ``n_predict`` tokens after it.
        ServerError: the server refused one.
    """
    items = []
    for prompt in prompts:
        messages = [ChatMessage(role=m.role, content=m.content) for m in prompt.messages]
        text = server.apply_template(messages) if prompt.text is None else prompt.text
        tokens = server.tokenize(text)
        needed = len(tokens) + n_predict + 1
        if needed > n_ctx:
            raise BadInputError(
                f"prompt {prompt.id} has {len(tokens)} tokens, which with {n_predict} to predict "
                f"needs a context of {needed}, but it has {n_ctx}; raise -c or leave it out"
            )
        items.append(WorkItem(id=prompt.id, category=prompt.category, tokens=tokens))
    return tuple(items)


def distinct(items: Sequence[WorkItem]) -> tuple[tuple[WorkItem, ...], tuple[str, ...]]:
    """The first of each text, and the names of the others."""
    first: dict[tuple[int, ...], WorkItem] = {}
    for item in items:
        first.setdefault(item.tokens, item)
    kept = tuple(first.values())
    return kept, tuple(item.id for item in items if item not in kept)
