"""What is run beside the real llama-server: a fast target whose draft is often wrong."""

import json
from dataclasses import dataclass
from typing import Any
from urllib.request import Request, urlopen

from spectui.engine.commands import Generate, GeneratePair, Tokenize
from spectui.engine.driver import Engine
from spectui.engine.events import GenerationResult
from spectui.options.setup import ContextOptions
from spectui.prompts import builtin_suite
from spectui.server.process import LlamaServer

# One thread: where cores are shared, two spend their time waiting for each other.
CONTEXT = ContextOptions(ctx_size=2048, threads=1)
N_PREDICT = 24
PROMPTS = builtin_suite()[:3]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What must be the same here and there."""

    tokens: tuple[int, ...]
    n_drafted: int
    n_accepted: int


def tokens_of(engine: Engine) -> list[tuple[int, ...]]:
    conversations = [[(m.role, m.content) for m in prompt.messages] for prompt in PROMPTS]
    return [engine.tokenize(Tokenize(messages=tuple(c))) for c in conversations]


def run_both(engine: Engine, server: LlamaServer, command: Generate) -> tuple[Outcome, Outcome]:
    """The engine's and the server's, which was started with the command's speculation.

    The server is told temperature and seed, and draws as it does by default.
    """
    theirs = server.complete(
        command.prompt,
        n_predict=command.n_predict,
        temperature=command.sampling.temp,
        seed=command.sampling.seed,
        ignore_eos=command.sampling.ignore_eos,
        cache_prompt=command.conversation,
    )
    return (
        _outcome(engine.generate(command)),
        Outcome(tokens=theirs.tokens, n_drafted=theirs.n_drafted, n_accepted=theirs.n_accepted),
    )


def in_turns(engine: Engine, command: Generate) -> Outcome:
    """The engine's, where the target alone takes turns with it as often as it can."""
    pair = GeneratePair(speculative=command, baseline_first=False, segment_s=0.0)
    return _outcome(engine.generate_pair(pair).speculative)


def _outcome(result: GenerationResult) -> Outcome:
    counters = result.counters
    return Outcome(
        tokens=result.tokens, n_drafted=counters.n_drafted, n_accepted=counters.n_accepted
    )


def told(server: LlamaServer, path: str) -> dict[str, Any]:
    """What a server tells at a path."""
    key = {"Authorization": f"Bearer {server.api_key}"}
    request = Request(f"{server.base_url}{path}", headers=key)  # noqa: S310 - of this machine
    with urlopen(request) as page:  # noqa: S310 - as above
        found: dict[str, Any] = json.load(page)
    return found
