"""Preparation of ``bench``, ``tune`` and ``trace``: prompts, engine, candidates."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path

from spectui.cli.named_models import Models, find_models, of_named_kinds, warn_of_sampling
from spectui.cli.output import complain
from spectui.cli.presets import with_preset_models
from spectui.cli.request import RunOptions
from spectui.cli.served_session import open_context
from spectui.commands.rendering import rendering_of
from spectui.engine.commands import LoadTarget
from spectui.engine.driver import Engine
from spectui.engine.events import ModelLoaded
from spectui.engine.isolation import ProcessWorker
from spectui.engine.placing import placed
from spectui.engine.pressure import MemoryGate
from spectui.errors import BadInputError, DoesNotFitError, SpectuiError, UsageError
from spectui.llama.log import native_log
from spectui.measure.chats import tokenize_with_chats
from spectui.measure.device_locks import devices_held
from spectui.measure.workload import Workload
from spectui.models.gguf import read_gguf
from spectui.options import placement
from spectui.options.drafters import MTP_KIND, DraftMtp, DraftSimple
from spectui.options.setup import ModelOptions, Setup
from spectui.options.speculation import Speculation
from spectui.prompts import Prompt, PromptFile, builtin_suite, load_prompts
from spectui.prompts.chats import Chats, load_chats
from spectui.speculative.models import unserved
from spectui.tune.candidates import Candidate

SUITE_PROMPTS = 8
"""Number of prompts from the built-in suite for commands that take few: one per category. The
user's own prompts are all taken."""


@contextmanager
def open_engine(options: RunOptions) -> Iterator[Engine]:
    """Yield an engine whose events the run shows; close it whatever happens.

    Raises:
        UsageError: another spectui measures on the same cores or GPUs.
    """
    if options.verbose:
        native_log.listen(complain)
    worker = ProcessWorker(margins=options.margins)
    gate = MemoryGate()
    with (
        held_devices(options),
        Engine(
            options.progress.on_engine, worker=worker, from_disk=options.yes, gate=gate
        ) as engine,
    ):
        engine.rendering = rendering_of(options.given.extra)
        try:
            yield engine
        finally:
            native_log.listen(None)


def held_devices(options: RunOptions) -> AbstractContextManager[None]:
    """Keep the devices of a run for it alone."""
    layers = options.placement[placement.GPU_LAYERS.parameter]
    return devices_held(options.context.cpu, uses_gpus=layers != 0)


def read_prompts(options: RunOptions, *, of_suite: int | None = None) -> PromptFile:
    """The user's prompts, or the first of the built-in suite; all of it if ``of_suite`` is None.

    With chats there are none of the suite.

    Raises:
        BadInputError: one is malformed, or the file cannot be read.
    """
    if options.prompts is None:
        return PromptFile(prompts=() if options.chats else builtin_suite()[:of_suite])
    return own_prompts(options.prompts)


def own_prompts(path: Path) -> PromptFile:
    """The prompts of the user's file; what was passed over is reported.

    Raises:
        BadInputError: one is malformed, or the file cannot be read.
    """
    found = load_prompts(path)
    for note in found.notes:
        complain(note)
    return found


def read_chats(options: RunOptions) -> Chats | None:
    """The user's chats; None without ``--chats``.

    Raises:
        BadInputError: a file cannot be read, or is no export of chats.
    """
    return load_chats(options.chats) if options.chats else None


def tokenized(
    engine: Engine,
    prompts: Sequence[Prompt],
    options: RunOptions,
    target: ModelLoaded,
    chats: Chats | None = None,
) -> Workload:
    """The prompts as tokens for this run; see ``tokenize_with_chats``."""
    return tokenize_with_chats(
        engine,
        prompts,
        chats,
        n_predict=options.n_predict,
        sampling=options.sampling_for(target.info.path),
        target=target,
        say=options.progress.say,
    )


def with_candidates(options: RunOptions) -> RunOptions:
    """Fill in the preset's models, for a command that takes several drafts, or none.

    Raises:
        BadInputError: files of the preset are missing.
        UsageError: drafts were given that ``--spec-type`` leaves out.
    """
    options.check_drafts()
    is_open = not options.spec_type or options.needs_models
    return with_preset_models(options, most_drafts=None if is_open else 0)


def place_target(
    options: RunOptions, models: Models, *, max_draft: int
) -> tuple[RunOptions, ModelOptions]:
    """Place the target as ``--fit`` does beside the largest draft.

    Args:
        options: as they were given.
        models: as they were found.
        max_draft: longest draft.

    Returns:
        Options of whatever drafts beside it, and the target.
    """
    setup = Setup(
        target=options.target_options(models.target),
        draft=None,
        context=options.context,
        speculation=None,
    )
    if options.fit is None:
        return options, setup.target
    beside = setup
    if models.drafts:
        largest = max(models.drafts.values(), key=lambda path: path.stat().st_size)
        drafts = Speculation(DraftSimple(draft_max=max_draft))
        draft = options.draft_options(largest)
        beside = replace(setup, draft=draft, speculation=drafts)
    elif options.takes_mtp and read_gguf(models.target).mtp_layers:
        beside = replace(setup, speculation=Speculation(DraftMtp(draft_max=max_draft)))
    found = placed(beside, options.fit, options.progress.announce, open_context(options.given))
    shares = ",".join(f"{share:g}" for share in found.target.devices.split)
    split = {placement.TENSOR_SPLIT.parameter: shares} if shares else {}
    return replace(options, placement={**options.placement, **split}), found.target


def find_candidates(options: RunOptions) -> Models:
    """Like ``find_models``, with the drafts that ``--spec-type`` requires."""
    found = find_models(options, needs_draft=options.needs_models)
    warn_of_sampling(found.target, options.progress)
    return of_named_kinds(found, options)


def load_models(
    engine: Engine,
    shared: RunOptions,
    models: Models,
    command: LoadTarget,
    *,
    takes_mtp: bool = True,
) -> tuple[ModelLoaded, tuple[Candidate, ...]]:
    """Load the target, with its MTP layers where these may draft, and every draft once.

    Args:
        engine: nothing is loaded yet.
        shared: as they were given.
        models: as they were found.
        command: loads the target, without its MTP layers.
        takes_mtp: False where the target's MTP layers may not draft.

    Returns:
        The target, and who may draft: the drafts that fit, the MTP layers, and, with an error,
        those that cannot.

    Raises:
        SpectuiError: the target cannot be loaded, or no draft of -md can serve, or the MTP layers
            were named and cannot.
    """
    target, mtp = _load_target(engine, shared, command, takes_mtp=takes_mtp, drafts=models.drafts)
    if mtp is not None and mtp.reason is not None:
        shared.progress.say(f"left out {mtp.name}: {mtp.reason}")
    candidates = _load_drafts(engine, shared, models, target)
    # The target's own layers come first: nothing has to be loaded for them.
    return target, candidates if mtp is None else (mtp, *candidates)


def _load_target(
    engine: Engine,
    shared: RunOptions,
    command: LoadTarget,
    *,
    takes_mtp: bool,
    drafts: Mapping[str, Path],
) -> tuple[ModelLoaded, Candidate | None]:
    """The target, and its MTP layers as a candidate if it has any."""

    def load(*, mtp: bool) -> ModelLoaded:
        return engine.load_target(
            command.options,
            command.context,
            max_draft=command.max_draft,
            mtp=mtp,
            mtp_file=command.mtp_file,
        )

    options = command.options
    # Files that were given may be those that were named.
    is_named = shared.names_mtp and not drafts
    has_mtp = is_named or (shared.takes_mtp and read_gguf(options.path).mtp_layers > 0)
    if not (takes_mtp and has_mtp):
        return load(mtp=False), None
    try:
        target = load(mtp=True)
    except (BadInputError, DoesNotFitError, UsageError) as error:
        if is_named:
            raise
        # If it is not for its MTP layers, this fails as well.
        target = load(mtp=False)
        return target, Candidate(name=MTP_KIND, options=options, loaded=None, error=error)
    return target, Candidate(name=MTP_KIND, options=options, loaded=target)


def _load_drafts(
    engine: Engine, shared: RunOptions, models: Models, target: ModelLoaded
) -> tuple[Candidate, ...]:
    """Load every draft once; return those that fit the target, and the reasons against the others.

    Raises:
        SpectuiError: one was named with -md, and none does. A folder may hold none: n-gram
            drafters are left.
    """
    layers = models.mtp_files
    found = [
        _candidate(engine, name, shared.draft_options(path), target, mtp=name in layers)
        for name, path in models.drafts.items()
    ]
    found += models.refused
    for candidate in found:
        if candidate.reason is not None:
            shared.progress.say(f"left out {candidate.name}: {candidate.reason}")
    if shared.model_draft and all(candidate.error is not None for candidate in found):
        raise _none_fits(found)
    return tuple(found)


def _none_fits(found: Sequence[Candidate]) -> SpectuiError:
    first = found[0].error
    if len(found) == 1 and first is not None:
        return first
    kind = type(first) if isinstance(first, DoesNotFitError) else BadInputError
    why = "; ".join(f"{candidate.name}: {candidate.reason}" for candidate in found)
    return kind(f"none of the {len(found)} drafts can serve ({why}); give another one")


def _candidate(
    engine: Engine, name: str, options: ModelOptions, target: ModelLoaded, *, mtp: bool
) -> Candidate:
    try:
        loaded = engine.load_draft(options, mtp=mtp)
    except (BadInputError, DoesNotFitError) as error:
        return Candidate(name=name, options=options, loaded=None, error=error, is_mtp_file=mtp)
    finally:
        engine.unload_draft()
    reason = unserved(target.rollback, loaded.rollback)
    if reason is None:
        return Candidate(name=name, options=options, loaded=loaded, is_mtp_file=mtp)
    text = (
        f"{options.path} cannot draft for {target.info.path.name}: {reason}; choose another draft"
    )
    return Candidate(name=name, options=options, loaded=None, error=BadInputError(text))
