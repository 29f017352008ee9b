"""Reads an existing answer with the target, as a prompt is read, for its tokens' probabilities.

The logits of the answer's positions tell how probable its tokens are to the target, and how
probable tokens are that the target samples itself. The prompt is evaluated alone and kept, as
before an answer that the target writes.
"""

import math
from itertools import takewhile

import numpy as np

from spectui.engine.commands import ReadAnswer
from spectui.engine.events import AnswerRead
from spectui.engine.models import LoadedModels
from spectui.errors import BadInputError
from spectui.llama.context import Logits
from spectui.llama.pair import TargetContext
from spectui.llama.vocabulary import Vocabulary
from spectui.speculative.models import Outputs

_END_PROBABILITY = 0.01
"""Least probability of the token that ends an answer: less probable, it was broken off."""
_OPENED = "<think>"
"""Some chat templates end a prompt with this text, so that the answer must not repeat it."""
_LOWEST_LOGIT = -80.0
"""Logit below the highest one, with which a token has no probability in single precision."""


def read_answer(models: LoadedModels, command: ReadAnswer) -> AnswerRead:
    """Read an answer, and find how probable each token is.

    Raises:
        BadInputError: the answer is empty, or does not fit in the context.
        CancelledError: it was stopped.
    """
    target, prompt = models.target, command.prompt
    whole = _tokens(target.vocabulary, command)
    tokens = whole[: command.n_most]
    if not tokens or not prompt:
        raise BadInputError("an answer to read needs a prompt and a text; give both")
    models.conversation.put_aside(models.contexts)
    target.clear()
    read_s = models.prompts.read(target, prompt)
    kept = target.prompt_logits
    logits = target.logits(0).copy() if kept is None else kept
    surprises: list[tuple[float, float, float]] = []
    for start in range(0, len(tokens), target.max_outputs):
        models.abort.check("the reading was cancelled")
        piece = tokens[start : start + target.max_outputs]
        target.decode(piece, Outputs.ALL)
        for index, token in enumerate(piece):
            surprises.append(_surprise(logits, token, command.temp))
            logits = target.logits(index)
        # The next decode writes where these are.
        logits = logits.copy()
    end = _end(target, logits) if len(tokens) == len(whole) else ()
    log_p, entropy, variance = zip(*surprises, strict=True)
    return AnswerRead(
        tokens=(*tokens, *end),
        is_ended=bool(end),
        log_p=log_p,
        entropy=entropy,
        variance=variance,
        read_s=read_s,
    )


def _tokens(vocabulary: Vocabulary, command: ReadAnswer) -> tuple[int, ...]:
    """Tokens of the text behind the prompt, up to one that ends an answer."""
    text = command.answer
    last = b"".join(
        vocabulary.piece(token, special=True) for token in command.prompt[-len(_OPENED) :]
    )
    if last.decode(errors="replace").rstrip().endswith(_OPENED):
        text = text.removeprefix(_OPENED).lstrip("\n")
    found = vocabulary.tokenize(text, add_special=False)
    return tuple(takewhile(lambda token: token not in vocabulary.end_tokens, found))


def _surprise(logits: Logits, token: int, temp: float) -> tuple[float, float, float]:
    """Log probability of a token, entropy there, and variance of the log probability."""
    # An impossible token gets a finite logit as well: 0 times infinity is not a number.
    scaled = np.maximum((logits - logits.max()) / temp, _LOWEST_LOGIT)
    weights = np.exp(scaled)
    whole = float(weights.sum(dtype=np.float64))
    mean, square = (float(weights @ one) / whole for one in (scaled, scaled**2))
    return float(scaled[token]) - math.log(whole), math.log(whole) - mean, square - mean**2


def _end(target: TargetContext, logits: Logits) -> tuple[int, ...]:
    """The token with which the target would end the answer here; empty where it would go on."""
    ends = list(target.vocabulary.end_tokens)
    if not ends:
        return ()
    best = ends[int(logits[ends].argmax())]
    log_p, _entropy, _variance = _surprise(logits, best, 1.0)
    return (best,) if log_p >= math.log(_END_PROBABILITY) else ()
