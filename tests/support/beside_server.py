"""What is run beside the real llama-server: a fast target whose draft is often wrong."""

from spectui.config import ContextOptions
from spectui.engine.commands import Tokenize
from spectui.engine.driver import Engine
from spectui.prompts import builtin_suite

# One thread: where cores are shared, two spend their time waiting for each other.
CONTEXT = ContextOptions(ctx_size=2048, threads=1)
N_PREDICT = 32
PROMPTS = builtin_suite()[:4]


def tokens_of(engine: Engine) -> list[tuple[int, ...]]:
    conversations = [[(m.role, m.content) for m in prompt.messages] for prompt in PROMPTS]
    return [engine.tokenize(Tokenize(messages=tuple(c))) for c in conversations]
