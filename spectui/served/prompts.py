"""Prompts as tokens of a llama-server, and sending one."""

from collections.abc import Sequence
from typing import Any

from spectui.errors import BadInputError
from spectui.options.setup import SamplingConfig
from spectui.prompts import Prompt
from spectui.server import ChatMessage, Completion, LlamaClient
from spectui.tune.workload import WorkItem

WARM_UP_TOKENS = 8
"""Enough to touch weights and caches: the first tokens after a load are slower than the rest."""


def as_tokens(
    server: LlamaClient,
    prompts: Sequence[Prompt],
    *,
    n_predict: int,
    n_ctx: int,
    remedy: str = "raise -c",
) -> tuple[WorkItem, ...]:
    """Render conversations with the server's own template, and tokenize everything.

    Args:
        server: does it.
        prompts: prompts of the user.
        n_predict: tokens that are to follow each.
        n_ctx: tokens that the server has room for.
        remedy: what to do where there is too little.

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
                f"needs a context of {needed}, but it has {n_ctx}; {remedy} or leave it out"
            )
        items.append(WorkItem(id=prompt.id, category=prompt.category, tokens=tokens))
    return tuple(items)


def distinct(items: Sequence[WorkItem]) -> tuple[tuple[WorkItem, ...], tuple[str, ...]]:
    """The first prompt of each text, and the names of its duplicates."""
    first: dict[tuple[int, ...], WorkItem] = {}
    for item in items:
        first.setdefault(item.tokens, item)
    kept = tuple(first.values())
    return kept, tuple(item.id for item in items if item not in kept)


def complete(
    server: LlamaClient, tokens: Sequence[int], sampling: SamplingConfig, n_predict: int
) -> Completion:
    """Have a server continue a prompt, evaluated anew, with spectui's sampling.

    Raises:
        ServerError: the server refused, failed or answered nonsense.
    """
    drawn: dict[str, Any] = {}
    if sampling.temp > 0:
        drawn = {"top_k": sampling.top_k, "top_p": sampling.top_p, "min_p": sampling.min_p}
    return server.complete(
        tokens,
        n_predict=n_predict,
        temperature=sampling.temp,
        seed=sampling.seed,
        ignore_eos=sampling.ignore_eos,
        **drawn,
    )
