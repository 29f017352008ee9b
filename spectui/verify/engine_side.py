"""The engine's results on prompts that servers were sent, for comparing counts."""

from collections.abc import Sequence

from spectui.engine.commands import Generate
from spectui.engine.driver import Engine
from spectui.engine.events import GenerationResult, ModelLoaded
from spectui.errors import CancelledError
from spectui.measure.promise import Case
from spectui.measure.workload import WorkItem
from spectui.options.setup import Schedule
from spectui.speculative.decoder import Stop

Results = dict[tuple[int, ...], GenerationResult]


def load(engine: Engine, case: Case) -> ModelLoaded:
    """Load the models as the server with speculation has them; return the target.

    Raises what the engine does.
    """
    speculation = case.speculation
    target = engine.load_target(
        case.target, case.context, max_draft=speculation.longest, mtp=speculation.is_mtp
    )
    if speculation.needs_draft and case.draft is not None:
        engine.load_draft(case.draft)
    return target


def run(engine: Engine, case: Case, items: Sequence[WorkItem]) -> Results:
    """Continue every prompt as llama-server does.

    Raises:
        CancelledError: the engine was stopped meanwhile.
    """
    found: Results = {}
    for item in items:
        result = engine.generate(
            Generate(
                prompt=item.tokens,
                n_predict=case.n_predict,
                sampling=case.sampling,
                speculation=case.speculation,
                schedule=Schedule.SERVER,
            )
        )
        if result.stop is Stop.CANCELLED:
            raise CancelledError("the measurement was cancelled")
        found[item.tokens] = result
    return found
