"""Progress messages of ``spectui verify``."""

from spectui.format import bytes_text, counted, percent_text, rate_text
from spectui.measure.served_models import size_bytes
from spectui.options.setup import Setup
from spectui.verify.order import blocks, n_starts
from spectui.verify.served import ServedPair


def plan_line(n_prompts: int, repeats: int, seed: int, *, keeps_both: bool) -> str:
    """Describe how the servers take turns, and what that costs."""
    times = f"{counted(n_prompts, 'prompt')}{f' × {repeats}' if repeats > 1 else ''}"
    if keeps_both:
        return f"{times}, two llama-servers that take turns"
    n = n_starts(blocks(n_prompts, repeats, seed, keeps_both=False))
    return (
        f"{times}, one llama-server at a time: {counted(n, 'start')}, each of which loads its "
        "models anew"
    )


def start_line(setup: Setup) -> str:
    """Name the server that is started, and the size of its models."""
    size = bytes_text(sum(size_bytes(model.path) for model in setup.models))
    manner = "without speculation" if setup.is_off else "with speculation"
    return f"starting llama-server {manner} ({size} to load)"


def pair_line(pair: ServedPair) -> str:
    """Describe a prompt that both servers have continued."""
    seen = pair.observed
    if seen is None:
        return f"{pair.item.id}: ended at once"
    one = seen.measurement
    rate = seen.n_accepted / seen.n_drafted if seen.n_drafted else None
    return (
        f"{pair.item.id}: off {rate_text(one.baseline_tokens / one.baseline_s)}, on "
        f"{rate_text(one.speculative_tokens / one.speculative_s)} tokens/s, acceptance "
        f"{percent_text(rate)}"
    )
