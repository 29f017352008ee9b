"""``tune -np``: the best setting with as many streams as were asked for, as a part of the run."""

import math
import time

from spectui.cli.progress import Progress
from spectui.cli.tune import Tune
from spectui.cli.tune_request import slots_of
from spectui.interrupts import interrupts
from spectui.measure.server_backend import ServerBackend
from spectui.tune.result import TuneResult
from spectui.tune.setup import TuningSetup
from spectui.tune.slots import SlotsMeasured, measure_slots


def slots_measured(
    options: Tune,
    setup: TuningSetup,
    result: TuneResult,
    backend: ServerBackend,
    progress: Progress,
) -> SlotsMeasured:
    """Measure the best with the other numbers of slots, unless the search was ended."""
    if result.interrupted or result.error is not None:
        return SlotsMeasured()
    began_s = time.monotonic()
    budget_s = math.inf if options.time_budget is None else options.time_budget
    # What was found is kept by now: this may be interrupted as well.
    interrupts.install()
    found = measure_slots(
        result,
        setup.workload,
        slots_of(options),
        backend.with_slots,
        min_gain=setup.min_gain,
        on_run=progress.on_run,
        left_s=lambda: budget_s - result.spent.took_s - (time.monotonic() - began_s),
    )
    interrupts.hold()
    return found
