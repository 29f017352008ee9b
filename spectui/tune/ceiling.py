"""The most that accepted tokens can give: a speedup above it is the machine's noise. Pure.

A round of speculation evaluates at least one token on the target, and emits one token of the target
and those of its draft that were accepted; one that a checkpoint makes the target redo emits one
more, for a second evaluation. So a prompt that decodes ``N`` tokens, of which ``A`` were accepted,
makes the target work ``N - A`` times at least, and once at least. If each of these costs no less
than a token of the target alone does on that prompt, which took ``T`` seconds for ``M`` tokens,
speculation takes ``(N - A) * T / M`` seconds at least, whoever drafts and even if for nothing. With
this for the measured seconds of every prompt, the ratio of throughputs is the ceiling; for one
prompt, or prompts that are alike, it is ``N / (N - A)``.

What that assumes: both sides run the same target on the same machine. A batch costs no less than a
token, which more threads for batches (``-tb`` above ``-t``) could undo where compute decides. The
tokens of one answer cost alike. Where a draft takes room from the target, the target alone is never
the slower one, which only lowers what is possible. Costs of prompts need not be alike: each is
compared with its own baseline.
"""


def least_seconds(
    *, n_tokens: int, n_accepted: int, baseline_s: float, baseline_tokens: int
) -> float:
    """Least decoding time with a drafter that costs nothing.

    Args:
        n_tokens: decoded with speculation.
        n_accepted: of them, or more: an answer may end within what was accepted.
        baseline_s: seconds of the target alone on the same prompt.
        baseline_tokens: tokens decoded in these seconds.
    """
    return max(n_tokens - n_accepted, 1) * baseline_s / baseline_tokens
