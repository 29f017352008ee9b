"""Runs the interactive screen with parsed options."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import click

from spectui.cli.click_options import HELP_NAMES, request_of
from spectui.cli.cockpit import DEMO_TOKENS, Cockpit
from spectui.cli.cockpit import command as cockpit
from spectui.cli.guard import MakeApp, show_screen, writable_log
from spectui.cli.named_models import with_preset_models
from spectui.cli.output import complaints
from spectui.cli.request import RunOptions, check_drafting, check_typed, take_drafting
from spectui.commands.rendering import rendering_of
from spectui.demo import DemoModel
from spectui.errors import UsageError
from spectui.live.setup import Launch, LiveSetup, Pair
from spectui.models.facts import is_mtp_file
from spectui.models.gguf import read_gguf
from spectui.options.drafters import MODEL_KIND, MTP_KIND, DraftMtp, ModelDrafter, with_kind
from spectui.options.speculation import Speculation
from spectui.paths import demo_folder
from spectui.settings import Settings, read_settings


def run(request: Cockpit) -> None:
    """Show the screen until the user quits."""
    check_typed(request.given)
    settings = read_settings()
    launch = make_launch(request, settings)

    def load() -> MakeApp:
        from spectui.tui.app import SpectuiApp
        from spectui.tui.threads import Threads

        def make(log_file: int) -> tuple[SpectuiApp, Callable[[], None]]:
            app = SpectuiApp(launch, lambda mailbox: Threads(mailbox, log_file))
            return app, app.threads.close

        return make

    instead = "run spectui in one, or use spectui tune or spectui bench in scripts"
    show_screen(load, writable_log(), instead=instead)


def make_launch(request: Cockpit, settings: Settings) -> Launch:
    """Convert options, and the command of ``--from``, into the screen's launch parameters.

    Raises:
        BadInputError: a model file is missing or no GGUF, those of a preset included.
        UsageError: options that contradict each other.
    """
    speculation, others = take_drafting(request.given)
    shared = RunOptions.of(others)
    check_drafting(shared.context, speculation)
    shared = with_preset_models(shared, most_drafts=int(speculation.needs_draft))

    def make_setup(pair: Pair) -> LiveSetup:
        return _setup(shared, speculation, pair)

    def with_preset(name: str) -> Launch:
        # What a preset says of the sampling is chosen, which the context knows.
        with _context("--preset", name) as context:
            return make_launch(request_of(Cockpit, context), settings)

    def with_command(text: str) -> Launch:
        with complaints() as said, _context("--from", text) as context:
            launch = make_launch(request_of(Cockpit, context), settings)
            notice = "\n".join(filter(None, (*map(_sentence, said), launch.notice)))
            return replace(launch, notice=notice or None)

    pair, demo = _models(shared)
    return Launch(
        make_setup=make_setup,
        with_preset=with_preset,
        with_command=with_command,
        settings=settings,
        n_ctx=shared.context.ctx_size,
        pair=pair,
        demo=demo,
        theme=request.theme,
        ascii=request.ascii,
        from_disk=request.yes,
    )


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
        speculation = _drafting_with(pair.draft, speculation)
    # It loads llama.cpp.
    from spectui.engine.placing import left_open

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


def _drafting_with(draft: Path, speculation: Speculation) -> Speculation:
    """The setting with the kind of the draft's file, which may be chosen on the screen.

    Where the command line wanted MTP layers, a model that is one of its own is to be used.
    """
    own = speculation.own
    is_layers = is_mtp_file(draft)
    if not isinstance(own, ModelDrafter) or is_layers is isinstance(own, DraftMtp):
        return speculation
    return Speculation(with_kind(own, MTP_KIND if is_layers else MODEL_KIND), speculation.ahead)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


def _context(*words: str) -> click.Context:
    """The command as if only these words had been typed."""
    return cockpit.make_context("cockpit", list(words), help_option_names=HELP_NAMES)
