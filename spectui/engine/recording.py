"""Recording the draft's chains along an output of the target."""

import time
from collections.abc import Callable

from spectui.engine.commands import RecordChains
from spectui.engine.events import ChainsRecorded
from spectui.engine.models import LoadedModels
from spectui.errors import BadInputError, CancelledError, UsageError
from spectui.replay.grid import MAX_DEPTH
from spectui.replay.recorder import record_chains
from spectui.speculative.models import Outputs


def record(
    models: LoadedModels, command: RecordChains, cancelled: Callable[[], bool]
) -> ChainsRecorded:
    """Run the draft along ``command.output``; the target does nothing.

    Raises:
        BadInputError: prompt and output are empty, or do not fit in the draft's context.
        CancelledError: it was stopped.
        UsageError: no draft is loaded, or the depth is out of range.
    """
    draft = models.draft
    _check(command, draft.n_ctx)
    models.conversation.put_aside((draft,))
    draft.clear()
    if not command.reuse_prompt:
        draft.decode(command.prompt, Outputs.LAST)
    elif not models.prompts.restore_draft(draft, command.prompt):
        draft.decode(command.prompt, Outputs.LAST)
        models.prompts.keep_draft(draft, command.prompt)
    began = time.perf_counter()
    chains = record_chains(
        draft, command.prompt, command.output, depth=command.depth, cancelled=cancelled
    )
    if chains is None:
        raise CancelledError("the recording was cancelled")
    return ChainsRecorded(chains=chains, seconds=time.perf_counter() - began)


def _check(command: RecordChains, n_ctx: int) -> None:
    if not command.prompt or not command.output:
        raise BadInputError("a recording needs a prompt and an output; generate one first")
    if not 1 <= command.depth <= MAX_DEPTH:
        raise UsageError(f"--draft-max {command.depth}: a trace takes 1 to {MAX_DEPTH}")
    n_tokens = len(command.prompt) + len(command.output)
    if n_tokens > n_ctx:
        raise BadInputError(
            f"prompt and output have {n_tokens} tokens, but the draft's context holds {n_ctx}; "
            "raise -c"
        )
