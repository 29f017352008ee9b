"""``spectui doctor``: what works here, what fits and what is slow, without loading weights."""

from spectui.cli.click_options import option, request, request_command
from spectui.cli.given import Given
from spectui.cli.options import CANDIDATE_OPTIONS
from spectui.options.option import Whole

_EXAMPLES = (
    ("This machine alone", "spectui doctor"),
    ("Whether a pair fits and can pay", "spectui doctor -m target.gguf -md draft.gguf -c 32768"),
)


@request
class Doctor:
    """Examine the machine, and a target with its drafts: can it work, does it fit, can it pay?

    Reads headers alone. Takes the options of tune, so that a command can be examined before it is
    run.
    """

    given: Given
    draft_max: int = option(
        "--draft-max",
        "--spec-draft-n-max",
        default=16,
        type=Whole(1),
        help="Longest draft to make room for.",
    )


def start(request: Doctor) -> None:
    """Start the planner's process, and import the rest meanwhile."""
    from spectui.engine.planning import Planner
    from spectui.options.reading import endpoints

    with Planner(rpc=endpoints(request.given["rpc"])) as planner:
        from spectui.cli.run_doctor import doctor

        doctor(planner, request)


command = request_command(
    Doctor, "doctor", "doctor:start", shared=CANDIDATE_OPTIONS, examples=_EXAMPLES
)
