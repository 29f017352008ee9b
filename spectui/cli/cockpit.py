"""``spectui`` without a command: the interactive screen."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import click

from spectui.cli.click_options import HELP_NAMES, option, request, request_command, request_of
from spectui.cli.given import Given
from spectui.cli.guard import MakeApp, show_screen, writable_log
from spectui.cli.help import FromUserOnly
from spectui.cli.named_models import with_kind_of_file, with_preset_models
from spectui.cli.options import COCKPIT, DRAFTING, YES
from spectui.cli.output import complaints
from spectui.cli.request import RunOptions, take_drafting
from spectui.commands.takeover import rendering_of
from spectui.demo import DemoModel
from spectui.errors import UsageError
from spectui.live.setup import LiveSetup
from spectui.models.gguf import read_gguf
from spectui.options.option import Whole
from spectui.options.speculation import Speculation
from spectui.paths import demo_folder
from spectui.settings import Settings, read_settings
from spectui.tui.launch import Launch, Pair

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


command = request_command(
    Cockpit,
    "cockpit",
    "cockpit:run",
    shared=(*COCKPIT, *DRAFTING),
    examples=_EXAMPLES,
)


def run(request: Cockpit) -> None:
    """Show the screen until the user quits."""
    instead = "run spectui in one, or use spectui tune or spectui bench in scripts"
    show(make_launch(request, read_settings()), instead=instead)


def show(launch: Launch, *, instead: str) -> None:
    """Show the screen until the user quits.

    Args:
        launch: its parameters.
        instead: what to do without a terminal.

    Raises:
        UsageError: there is no terminal.
    """

    def load() -> MakeApp:
        from spectui.tui.app import SpectuiApp
        from spectui.tui.threads import Threads

        def make(log_file: int) -> tuple[SpectuiApp, Callable[[], None]]:
            app = SpectuiApp(launch, lambda mailbox: Threads(mailbox, log_file))
            return app, app.threads.close

        return make

    show_screen(load, writable_log(), instead=instead)


def make_launch(request: Cockpit, settings: Settings) -> Launch:
    """Convert options, and the command of ``--from``, into the screen's launch parameters.

    Raises:
        BadInputError: a model file is missing or no GGUF, those of a preset included.
        UsageError: options that contradict each other.
    """
    speculation, shared = take_drafting(request.given)
    shared = with_preset_models(shared, most_drafts=int(speculation.needs_draft))

    def with_preset(name: str) -> Launch:
        # What a preset says of the sampling is chosen, which the context knows.
        with _context("--preset", name) as context:
            return make_launch(request_of(Cockpit, context), settings)

    def with_command(text: str) -> Launch:
        with complaints() as said, _context("--from", text) as context:
            launch = make_launch(request_of(Cockpit, context), settings)
            notice = "\n".join(filter(None, (*map(_as_sentence, said), launch.notice)))
            return replace(launch, notice=notice or None)

    pair, demo = _models(shared)
    return Launch(
        make_setup=partial(_setup, shared, speculation),
        with_preset=with_preset,
        with_command=with_command,
        settings=settings,
        n_ctx=shared.context.ctx_size,
        pair=pair,
        demo=demo,
        from_disk=request.yes,
    )


def default_launch() -> Launch:
    """Return the launch parameters of the screen where nothing was asked for."""
    with _context() as context:
        return make_launch(request_of(Cockpit, context), read_settings())


def _models(shared: RunOptions) -> tuple[Pair | None, DemoModel | None]:
    if shared.demo:
        if shared.model is not None:
            raise UsageError("--demo brings its own target; leave out -m, or leave out --demo")
        if shared.model_draft:
            raise UsageError(
                "the screen's --demo brings its own draft; leave out -md, or try yours with "
                "spectui tune --demo -md"
            )
        return None, DemoModel(shared.target)
    if shared.model is None:
        if shared.model_draft:
            raise UsageError("-md names a draft, but there is no target; give one with -m")
        return None, None
    if len(shared.model_draft) > 1:
        raise UsageError(
            "the screen runs one draft at a time; give one -md, or compare them with spectui tune"
        )
    for path in (shared.model, *shared.model_draft):
        read_gguf(path)
    return Pair(target=shared.model, draft=next(iter(shared.model_draft), None)), None


def _setup(shared: RunOptions, speculation: Speculation, pair: Pair) -> LiveSetup:
    if pair.draft is not None:
        speculation = with_kind_of_file(speculation, pair.draft)
    # It loads llama.cpp.
    from spectui.engine.planning import left_open

    return LiveSetup(
        target=left_open(shared.target_options(pair.target), shared.fit),
        draft=None if pair.draft is None else shared.draft_options(pair.draft),
        context=shared.context,
        speculation=None if pair.draft is None and speculation.needs_draft else speculation,
        sampling=shared.sampling_for(pair.target),
        n_predict=_most_tokens(shared.n_predict, pair.target),
        extra=shared.given.extra,
        rendering=rendering_of(shared.given.extra),
        taken=shared.given.takeover,
    )


def _most_tokens(wanted: int, target: Path) -> int:
    """Most tokens per answer; a demo target, which soon repeats itself, has a limit of its own."""
    is_demo = target.parent == demo_folder()
    return DEMO_TOKENS if is_demo and wanted < 0 else wanted


def _as_sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


def _context(*words: str) -> click.Context:
    """The command as if only these words had been typed."""
    return command.make_context("cockpit", list(words), help_option_names=HELP_NAMES)
