"""What adaptive draft lengths would add to the best fixed setting, on a recorded trace.

The trace is one of ``spectui trace``, or one that ``spectui tune`` keeps. For each of its drafts:
the gain of the best fixed setting, the bound on every rule, and each rule that is replayed.
"""

import argparse
import time
from pathlib import Path
from typing import Any

from benchmarks.common import write_results
from spectui.trace.file import read_trace
from spectui.trace.record import Trace
from spectui.tune.recorded import Recorded
from spectui.tune.space import SearchSpace


def main() -> None:
    """Replay and write ``results/policies.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace", type=Path)
    trace = read_trace(parser.parse_args().trace)
    results = {
        "target": trace.target.file,
        "recorded": trace.recorded,
        "n_prompts": len(trace.recordings),
        "n_tokens": sum(one.n_decoded for one in trace.recordings),
        "drafts": [rules_of(trace, draft) for draft in trace.drafts],
    }
    write_results("policies", results)


def rules_of(trace: Trace, draft: str) -> dict[str, Any]:
    """The rules with one draft."""
    space = SearchSpace(drafts=(draft,), with_ngrams=False)
    recorded = Recorded(recordings=trace.recordings, costs=trace.costs, space=space)
    ordered = recorded.forecasts(recorded.totals())
    began = time.process_time()
    found = recorded.adaptive(ordered).value
    seconds = time.process_time() - began
    if found is None:
        raise ValueError("the trace holds no costs")
    best = ordered[0]
    return {
        "best": best.document(),
        "acceptance_rate": best.acceptance_rate,
        "cpu_s": seconds,
        **found.document(),
    }


if __name__ == "__main__":
    main()
