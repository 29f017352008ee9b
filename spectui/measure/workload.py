"""Workload of a measurement: prompts as tokens, how far to continue them, how to sample."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from spectui.documents import Json, encoded
from spectui.engine.commands import Tokenize
from spectui.engine.driver import Engine
from spectui.engine.events import AnswerWritten
from spectui.errors import BadInputError, UsageError
from spectui.format import counted
from spectui.options.setup import SamplingConfig
from spectui.prompts import AnsweredPrompt, Prompt

if TYPE_CHECKING:
    # Reports, and searches with spectui's own engine, need no HTTP.
    from spectui.server.client import ChatMessage, LlamaClient

WARM_UP_TOKENS = 8
"""Enough to touch weights and caches: the first tokens after a load are slower than the rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkItem:
    """One prompt, ready for the target."""

    id: str
    category: str
    tokens: tuple[int, ...]
    sample: int = 0
    """Number of the prompt's sample, from 0: each is drawn with its own seed."""
    given: AnswerWritten | None = None
    """Existing answer of a chat, which a recording takes as it is; None if it must be written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """The prompts of a measurement and what happens with each."""

    items: tuple[WorkItem, ...]
    n_predict: int
    sampling: SamplingConfig
    prompt_length: int | None = None
    """Tokens that every prompt was given; None where each has its own."""
    repeated: tuple[str, ...] = ()
    """Prompts that were left out, the same text as another one."""
    chats: str | None = None
    """Clause on the text of chats that was taken; None without chats."""

    @property
    def note(self) -> str | None:
        """Text of chats that was taken, and prompts that were left out, as a clause."""
        found = [one for one in (self.chats, left_out_note(self.repeated)) if one is not None]
        return "; ".join(found) or None

    def first(self, n: int) -> "Workload":
        """This workload with the first ``n`` prompts only."""
        return replace(self, items=self.items[:n])

    def sampling_of(self, item: WorkItem) -> SamplingConfig:
        """Sampling of an item, with the seed of its sample."""
        return self.sampling.sample(item.sample)

    def passes(self, items: Iterable[WorkItem], numbers: range) -> Iterator[WorkItem]:
        """The items once for each of ``numbers``: further samples, unless they would be the same.

        Greedy output does not change, so that an item that comes again is a repeat of the first.
        """
        for number in numbers:
            for item in items:
                yield item if self.sampling.is_greedy else replace(item, sample=number)

    def document(self) -> Json:
        """Sampling, and the number of tokens to predict, in documents."""
        return {**encoded(self.sampling), "n_predict": self.n_predict}


def tokenize(
    source: "Engine | LlamaClient",
    prompts: Sequence[Prompt],
    *,
    n_predict: int,
    sampling: SamplingConfig,
    n_ctx: int,
    remedy: str = "raise -c",
    say: Callable[[str], None] = lambda _text: None,
) -> Workload:
    """The prompts as tokens, before anything is measured; each text once.

    Args:
        source: tokenizes: the engine with its target, or a server with its own chat template.
        prompts: prompts of the user.
        n_predict: tokens that are to follow each.
        sampling: how they are chosen.
        n_ctx: tokens that the target has room for.
        remedy: what to do where there is too little.
        say: called with a clause on the prompts that are left out.

    Raises:
        BadInputError: a prompt does not fit in the context with ``n_predict`` tokens after it,
            the chat template refuses it, or there is none.
        ServerError: the server refused one.
    """
    items = list[WorkItem]()
    for prompt in prompts:
        try:
            items.append(_item(prompt, tokens_of(source, prompt), n_predict, n_ctx, remedy))
        except BadInputError:
            # The user did not choose single answers of chats: one that does not fit is left out.
            if not isinstance(prompt, AnsweredPrompt):
                raise
    if not items:
        raise BadInputError("there are no prompts to measure; give --prompts")
    # Prompts count as independent of each other.
    kept = {item.tokens: item for item in reversed(items)}
    found = Workload(
        items=tuple(item for item in items if kept[item.tokens] is item),
        n_predict=n_predict,
        sampling=sampling,
        repeated=tuple(item.id for item in items if kept[item.tokens] is not item),
    )
    if found.note is not None:
        say(found.note)
    return found


def tokens_of(source: "Engine | LlamaClient", prompt: Prompt) -> tuple[int, ...]:
    """Tokens of a prompt, by the chat template of the engine's target or of a server."""
    messages = tuple((message.role, message.content) for message in prompt.messages)
    if not hasattr(source, "apply_template"):
        return source.tokenize(Tokenize(text=prompt.text, messages=messages))
    server = cast("LlamaClient", source)
    turns: list[ChatMessage] = [{"role": role, "content": content} for role, content in messages]
    return server.tokenize(server.apply_template(turns) if prompt.text is None else prompt.text)


def _item(
    prompt: Prompt, tokens: tuple[int, ...], n_predict: int, n_ctx: int, remedy: str
) -> WorkItem:
    """A prompt, if there is room for it and for what follows."""
    needed = len(tokens) + max(n_predict, 1) + 1
    if needed > n_ctx:
        raise BadInputError(
            f"prompt {prompt.id} has {len(tokens)} tokens, which with {n_predict} to predict "
            f"needs a context of {needed}, but it has {n_ctx}; {remedy}"
        )
    return WorkItem(id=prompt.id, category=prompt.category, tokens=tokens)


def left_out_note(repeated: Sequence[str]) -> str | None:
    """Clause on the number of duplicates; None without any."""
    if not repeated:
        return None
    return f"left out, the same text as another: {counted(len(repeated), 'prompt')}"


def lengthened(workload: Workload, n_tokens: int | None, *, n_ctx: int) -> Workload:
    """The workload with prompts of ``n_tokens`` tokens; None for their own length.

    Raises:
        UsageError: they do not fit in a context of ``n_ctx``.
    """
    if n_tokens is None:
        return workload
    if n_tokens + workload.n_predict + 1 > n_ctx:
        raise UsageError(
            f"prompts of {n_tokens} and {workload.n_predict} tokens to predict do not fit in a "
            f"context of {n_ctx}; raise -c"
        )
    return with_length(workload, n_tokens)


def with_length(workload: Workload, n_tokens: int) -> Workload:
    """A workload with prompts of ``n_tokens`` tokens: to measure what decoding costs at that depth.

    Before each stand the others, over and over where they are too few, cut off in front; its own
    end stays, so that what is generated is still an answer to it. The first token stays too, which
    may be one that has to begin a text.
    """
    items = workload.items

    def longer(index: int) -> WorkItem:
        first, *own = items[index].tokens
        before: list[int] = []
        others = (*items[index + 1 :], *items[:index]) or items
        while len(before) + len(own) < n_tokens - 1:
            for other in others:
                before += other.tokens
        kept = (*before, *own)
        text = (first, *kept[len(kept) - n_tokens + 1 :])
        return replace(items[index], tokens=text)

    return replace(workload, items=tuple(map(longer, range(len(items)))), prompt_length=n_tokens)
