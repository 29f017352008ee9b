"""``spectui`` without a command: the interactive screen."""

from spectui.cli.click_options import option, request, request_command
from spectui.cli.given import Given
from spectui.cli.help import FromUserOnly
from spectui.cli.options import ASCII, COCKPIT, DRAFTING, THEME, YES
from spectui.options.option import Whole

DEMO_TOKENS = 128
"""Most tokens per answer of a demo model on the screen, unless the user says otherwise."""


_EXAMPLES = (
    ("Choose among the models of this machine", "spectui"),
    ("Try it on the demo models", "spectui --demo"),
    (
        "Chat with a pair, its experts in RAM",
        "spectui -m target.gguf -md draft.gguf --cpu-moe -c 16384",
    ),
)


@request
class Cockpit:
    """Chat with a pair, and watch and tune what speculation does on this machine.

    This is what spectui does without a command. Without models it lets you choose.
    """

    given: Given
    n_predict: int = option(
        "-n",
        "--n-predict",
        default=-1,
        cls=FromUserOnly,
        type=Whole(-1),
        help="Most tokens per answer (default: as many as the context holds; "
        f"{DEMO_TOKENS} for the demo models).",
    )
    yes: bool = YES
    theme: str | None = THEME
    ascii: bool = ASCII


command = request_command(
    Cockpit,
    "cockpit",
    "run_cockpit:run",
    shared=(*COCKPIT, *DRAFTING),
    examples=_EXAMPLES,
)
