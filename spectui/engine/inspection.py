"""Looks at loaded models beside generations: a draft's chains, experts, an existing answer."""

import math
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from itertools import takewhile

import numpy as np

from spectui.engine.commands import ReadAnswer, ReadExperts, RecordChains
from spectui.engine.events import AnswerRead, ChainsRecorded
from spectui.engine.models import LoadedModels
from spectui.errors import BadInputError
from spectui.llama.context import Logits
from spectui.llama.devices import has_gpu
from spectui.llama.pair import TargetContext
from spectui.llama.routing import Experts, RoutingContext
from spectui.llama.sampling import SamplerChain
from spectui.llama.vocabulary import Vocabulary
from spectui.models.gguf import read_gguf
from spectui.models.weights import expert_layers
from spectui.speculative.models import Outputs
from spectui.trace.chains import can_read, read_chains, record_chains, record_own_chains
from spectui.trace.routing import LayerRouting, Routing

_END_PROBABILITY = 0.01
"""Least probability of the token that ends an answer: less probable, it was broken off."""
_OPENED = "<think>"
"""Some chat templates end a prompt with this text, so that the answer must not repeat it."""
_LOWEST_LOGIT = -80.0
"""Logit below the highest one, with which a token has no probability in single precision."""


def read_experts(models: LoadedModels, command: ReadExperts) -> Routing:
    """Read answers, and note the experts that each token was routed to.

    Raises:
        CancelledError: it was stopped.
        DoesNotFitError: there is no memory for another context.
        UsageError: no target is loaded.
    """
    model = models.target.model
    gguf = read_gguf(model.options.path)
    layers = expert_layers(gguf, model.options, gpu_devices=has_gpu())
    lengths = tuple(len(answer) for _prompt, answer in command.texts)
    if not layers:
        return Routing(n_experts=0, lengths=lengths, layers=())
    texts = [(len(prompt), (*prompt, *answer)) for prompt, answer in command.texts]
    answers: defaultdict[int, list[Experts]] = defaultdict(list)
    longest = max(len(tokens) for _n, tokens in texts)
    with RoutingContext(model, models.context_options, n_tokens=longest) as context:
        for n_prompt, tokens in texts:
            models.abort.check("the reading was cancelled")
            for layer, experts in context.read(tokens).items():
                answers[layer].append(experts[n_prompt:])
    found = (
        LayerRouting(
            layer=layer,
            expert_bytes=layers[layer].size_bytes,
            in_ram=layers[layer].in_ram,
            n_used=rows[0].shape[1],
            experts=np.concatenate(rows).tobytes(),
        )
        for layer, rows in sorted(answers.items())
    )
    n_experts = gguf.number("expert_count")
    return Routing(n_experts=n_experts, lengths=lengths, layers=tuple(found))


def record(models: LoadedModels, command: RecordChains) -> ChainsRecorded:
    """Run the draft, or the target's own MTP layers, along ``command.output``.

    Raises:
        BadInputError: prompt and output do not fit in the drafter's context.
        CancelledError: it was stopped.
        UsageError: the drafter is not loaded.
    """
    check = partial(models.abort.check, "the recording was cancelled")
    return (_mtp_chains if command.mtp else _draft_chains)(models, command, check)


def _draft_chains(
    models: LoadedModels, command: RecordChains, check: Callable[[], None]
) -> ChainsRecorded:
    """Chains of the loaded draft; the target does not decode."""
    draft, prompt, output, depth = models.draft, command.prompt, command.output, command.depth
    models.conversation.put_aside((draft,))
    draft.clear()
    read_s = None
    if not command.reuse_prompt:
        draft.decode(prompt, Outputs.LAST)
    elif (read_s := models.prompts.read(draft, prompt)) is not None:
        draft.settle()
    began = time.perf_counter()
    run = read_chains if can_read(draft, len(prompt) + len(output), depth) else record_chains
    with ExitStack() as samplers:
        if command.sampling is not None:
            draft.sampler = samplers.enter_context(SamplerChain(command.sampling, draft.vocabulary))
        try:
            chains = run(draft, output, depth=depth, floor=command.floor, check=check)
        finally:
            draft.sampler = None
    return ChainsRecorded(chains=chains, seconds=time.perf_counter() - began, read_s=read_s)


def _mtp_chains(
    models: LoadedModels, command: RecordChains, check: Callable[[], None]
) -> ChainsRecorded:
    """Chains of MTP layers: the target decodes the output token by token, and they read along."""
    target, mtp = models.target, models.mtp
    models.conversation.put_aside(models.contexts)
    target.show_states_to(mtp)
    try:
        read_s = _read_prompt(models, command)
        began = time.perf_counter()
        chains = record_own_chains(
            target,
            mtp,
            command.output,
            depth=command.depth,
            floor=command.floor,
            n_layers=mtp.n_layers,
            check=check,
        )
    finally:
        target.show_states_to(None)
    return ChainsRecorded(chains=chains, seconds=time.perf_counter() - began, read_s=read_s)


def _read_prompt(models: LoadedModels, command: RecordChains) -> float | None:
    """Seconds in which both evaluated all of the prompt; None where some of it was known."""
    target, mtp, prompts, prompt = models.target, models.mtp, models.prompts, command.prompt
    if command.reuse_prompt:
        for context in (target, mtp):
            context.clear()
        prompts.restore((mtp, target), prompt)
    else:
        # A chat's text is still there, and mostly it is its last answer that is recorded.
        mtp.keep_prefix_of_both(prompt)
    is_new, read_s = target.n_past == mtp.n_past == 0, 0.0
    for context, outputs in ((target, Outputs.LAST), (mtp, Outputs.NONE)):
        if lacking := prompt[context.n_past :]:
            began = time.perf_counter()
            context.decode(lacking, outputs)
            read_s += time.perf_counter() - began
            if command.reuse_prompt:
                prompts.keep(context, prompt)
                context.settle()
    return read_s if is_new else None


def read_answer(models: LoadedModels, command: ReadAnswer) -> AnswerRead:
    """Read an existing answer as a prompt is read, and find how probable each token is.

    The logits of the answer's positions tell how probable its tokens are to the target, and how
    probable tokens are that the target samples itself. The prompt is evaluated alone and kept, as
    before an answer that the target writes.

    Raises:
        BadInputError: the answer is empty, or does not fit in the context.
        CancelledError: it was stopped.
    """
    target, prompt = models.target, command.prompt
    whole = _answer_tokens(target.vocabulary, command)
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


def _answer_tokens(vocabulary: Vocabulary, command: ReadAnswer) -> tuple[int, ...]:
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
