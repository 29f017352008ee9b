"""Experts of the target that a text is routed to."""

from spectui.engine.commands import ProbeExperts
from spectui.engine.events import ExpertsProbed
from spectui.engine.models import LoadedModels
from spectui.errors import BadInputError
from spectui.llama.context import Context
from spectui.llama.routing import RoutingObserver
from spectui.speculative.models import Outputs

_PIECE = 64
"""Most tokens of a decode: the logits of all of them take memory."""


def probe_experts(models: LoadedModels, command: ProbeExperts) -> ExpertsProbed:
    """Decode a text in a context of its own, so that nothing else is ever watched.

    Raises:
        BadInputError: the target routes nothing, or the text is empty or does not fit.
        DoesNotFitError: there is no memory for another context.
    """
    target = models.target
    if not command.text:
        raise BadInputError("the text has no tokens; give some text")
    observer = RoutingObserver()
    with Context(
        target.model,
        models.context_options,
        max_outputs=_PIECE,
        abort=models.abort,
        routing=observer,
    ) as context:
        observer.take()
        step = context.max_outputs
        for start in range(0, len(command.text), step):
            # The last layer computes those tokens alone whose logits are asked for.
            context.decode(command.text[start : start + step], Outputs.ALL)
    seen = observer.take()
    if not seen:
        info = target.model.info
        raise BadInputError(
            f"{info.path} ({info.arch}) routes no token to experts; give a mixture of experts"
        )
    experts = tuple(
        tuple(tuple(map(int, token)) for token in layer[command.n_skipped :])
        for layer in seen.values()
    )
    return ExpertsProbed(layers=tuple(seen), experts=experts)
