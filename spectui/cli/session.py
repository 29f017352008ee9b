"""Preparation of commands that run models: prompts, engine, llama-servers, candidates."""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from spectui.cli.given import Given
from spectui.cli.named_models import (
    Drafts,
    find_models,
    mtp_files,
    only_named_kinds,
    warn_of_sampling,
    with_preset_models,
)
from spectui.cli.output import complain
from spectui.cli.request import RunOptions
from spectui.commands.items import divide, words_of
from spectui.commands.measured import beyond_engine
from spectui.commands.takeover import rendering_of
from spectui.engine.commands import LoadTarget
from spectui.engine.driver import Engine
from spectui.engine.events import ModelLoaded
from spectui.engine.isolation import ProcessWorker
from spectui.engine.planning import placed
from spectui.errors import UsageError
from spectui.llama.library import has_library, library
from spectui.llama.log import native_log
from spectui.llama.search import LIBRARY_VARIABLE, find_server
from spectui.measure.chats import tokenize_with_chats
from spectui.measure.servers import Fleet, keeps_off, turns
from spectui.measure.workload import Workload, tokenize
from spectui.models.gguf import read_gguf
from spectui.options import placement
from spectui.options.drafters import FILE_KINDS, MTP_KIND, DraftMtp, DraftSimple
from spectui.options.setup import MOST_SLOTS, ModelOptions, Setup
from spectui.options.speculation import Speculation
from spectui.prompts import Prompt, PromptFile, builtin_suite, load_prompts
from spectui.prompts.chats import Chats, load_chats
from spectui.server.binary import ServerBinary, examine
from spectui.server.client import LlamaClient
from spectui.tune.candidates import Candidate, load_draft, load_target, none_fits

SUITE_PROMPTS = 8
"""Number of prompts from the built-in suite for commands that take few: one per category. The
user's own prompts are all taken."""


@contextmanager
def open_engine(options: RunOptions) -> Iterator[Engine]:
    """Yield an engine whose events the run shows; close it whatever happens."""
    if options.verbose:
        native_log.listen(complain)
    worker = ProcessWorker()
    with Engine(options.progress.on_engine, worker=worker, from_disk=options.yes) as engine:
        engine.rendering = rendering_of(options.given.extra)
        try:
            yield engine
        finally:
            native_log.listen(None)


def open_servers(
    options: RunOptions,
    binary: ServerBinary,
    setup: Setup,
    drafts: Iterable[ModelOptions] = (),
) -> Fleet:
    """Open llama-servers, of which none is started yet, and say how they take turns.

    Args:
        options: of the run.
        binary: the llama-server.
        setup: of the servers, with the most slots.
        drafts: drafts of servers that speculate, one at a time; of none, that of ``setup``.
    """
    stays, say = keeps_off(setup, drafts), options.progress.say
    say(turns(keeps_off=stays))
    return Fleet(
        binary,
        keeps_off=stays,
        timeout_s=options.given["timeout"],
        say=say,
        from_disk=options.yes,
    )


def served_workload(
    server: LlamaClient, prompts: Sequence[Prompt], options: RunOptions, setup: Setup
) -> Workload:
    """The prompts as tokens of a server of ``setup``; see ``tokenize``."""
    return tokenize(
        server,
        prompts,
        n_predict=options.n_predict,
        sampling=options.sampling_for(setup.target.path),
        n_ctx=setup.context.ctx_size,
        say=options.progress.say,
    )


def read_prompts(options: RunOptions, *, n_suite: int | None = None) -> PromptFile:
    """The user's prompts, or the first of the built-in suite; all of it if ``n_suite`` is None.

    With chats there are none of the suite.

    Raises:
        BadInputError: one is malformed, or the file cannot be read.
    """
    if options.prompts is None:
        return PromptFile(prompts=() if options.chats else builtin_suite()[:n_suite])
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
    options.check_drafts(are_asked=options.takes_files)
    is_open = options.takes(*FILE_KINDS)
    return with_preset_models(options, most_drafts=None if is_open else 0)


def place_target(
    options: RunOptions, target: Path, drafts: Drafts, *, max_draft: int
) -> tuple[RunOptions, ModelOptions]:
    """Place the target as ``--fit`` does beside the largest draft.

    Args:
        options: as they were given.
        target: as it was found.
        drafts: as they were found.
        max_draft: longest draft.

    Returns:
        Options of whatever drafts beside it, and the target.
    """
    setup = options.alone(options.target_options(target))
    if options.fit is None:
        return options, setup.target
    beside = setup
    if drafts:
        largest = max(drafts.values(), key=lambda path: path.stat().st_size)
        speculation = Speculation(DraftSimple(draft_max=max_draft))
        draft = options.draft_options(largest)
        beside = replace(setup, draft=draft, speculation=speculation)
    elif options.takes(MTP_KIND) and read_gguf(target).mtp_layers:
        beside = replace(setup, speculation=Speculation(DraftMtp(draft_max=max_draft)))
    found = placed(beside, options.fit, options.progress.announce)
    shares = ",".join(f"{share:g}" for share in found.target.devices.split)
    split = {placement.TENSOR_SPLIT.parameter: shares} if shares else {}
    return replace(options, placement={**options.placement, **split}), found.target


def find_candidates(options: RunOptions) -> tuple[Path, Drafts]:
    """Like ``find_models``, with the drafts that ``--spec-type`` requires."""
    target, drafts = find_models(options, needs_draft=options.names(*FILE_KINDS))
    warn_of_sampling(target, options.progress)
    return target, only_named_kinds(drafts, options)


def load_models(
    engine: Engine,
    shared: RunOptions,
    drafts: Drafts,
    command: LoadTarget,
    *,
    refused: tuple[Candidate, ...] = (),
    takes_mtp: bool = True,
) -> tuple[ModelLoaded, tuple[Candidate, ...]]:
    """Load the target, with its MTP layers where these may draft, and every draft once.

    Args:
        engine: nothing is loaded yet.
        shared: as they were given.
        drafts: as they were found.
        command: loads the target, without its MTP layers.
        refused: drafts that cannot draft, with the reason.
        takes_mtp: False where the target's MTP layers may not draft.

    Returns:
        The target, and who may draft: the MTP layers, the drafts that fit, and, with an error,
        those that cannot; n-gram drafters are left where there is none.

    Raises:
        SpectuiError: the target cannot be loaded, or nobody of those who were named can draft.
    """
    refused_names = {one.name for one in refused}
    left = {name: path for name, path in drafts.items() if name not in refused_names}
    target, own = load_target(
        engine,
        command,
        takes_mtp=takes_mtp and shared.takes(MTP_KIND),
        # Files that were given may be those that were named.
        needs_mtp=takes_mtp and shared.names(MTP_KIND) and not left,
    )
    heads = mtp_files(left)
    others = [
        load_draft(engine, name, shared.draft_options(path), target, mtp=name in heads)
        for name, path in left.items()
    ]
    others += refused
    # The target's own layers come first: nothing has to be loaded for them.
    candidates = (*own, *others)
    for candidate in candidates:
        if candidate.reason is not None:
            shared.progress.say(f"left out {candidate.name}: {candidate.reason}")
    if shared.model_draft and all(one.error is not None for one in others):
        raise none_fits(others)
    return target, candidates


_SLOTS = "parallel"
"""llama-server's name of ``-np``."""
_CONTEXT = "ctx-size"


def with_backend(given: Given) -> Given:
    """The options, with a llama-server as backend where one is named or only that can measure.

    That is so where the command of --from has options that spectui's engine does not apply, and
    where there is no llama.cpp library. Then it is one that is found: a command is data, so the
    program that it names is never started. What was typed stays.
    """
    if "backend" in given.typed:
        return given
    if given["server_bin"] is not None:
        return given.changed(backend="server")
    beyond = beyond_engine(given.extra)
    if beyond:
        why = f"spectui's own engine does not apply {', '.join(beyond)}"
        why += " (--backend engine measures without)"
    elif not has_library():
        if LIBRARY_VARIABLE in os.environ:
            # The user wants that one: nothing takes its place unasked.
            library()
        why = "no llama.cpp library can be used here (spectui doctor says why)"
    else:
        return given
    binary = find_server()
    if binary is None:
        return given
    complain(f"measured through {binary}, since {why}")
    return given.changed(backend="server", server_bin=str(binary))


def wanted_binary(server_bin: str | None) -> ServerBinary:
    """The llama-server that is to measure: the given one, else one that is found.

    Raises:
        ServerError: it is none, or cannot be asked.
        UsageError: none was given, and none is found.
    """
    if server_bin is not None:
        return examine(server_bin)
    found = find_server()
    if found is None:
        raise UsageError(
            "no llama-server was found (on the PATH, among the programs that run, in the usual "
            "folders); give --server-bin PATH"
        )
    complain(f"measured through {found}")
    return examine(str(found))


def wanted_slots(given: Given) -> int:
    """Number of slots to measure with: that of ``-np``, else that of ``--from``, else one."""
    typed: int | None = given["parallel"]
    return typed or slots_of_command(given) or 1


def with_slot_context(setup: Setup, n_slots: int, given: Given) -> Setup:
    """The setup with so many slots, each with the context of ``-c``.

    That of the command of ``--from`` is divided, as its llama-server does.
    """
    n_command, context = slots_of_command(given), setup.context
    if n_command is not None and given.is_of_command(_CONTEXT):
        context = replace(context, ctx_size=max(1, context.ctx_size // n_command))
    return replace(setup, context=context, n_slots=n_slots)


def with_slots(extra: tuple[str, ...], given: int | None) -> tuple[str, ...]:
    """Arguments of a command, with the number of ``-np`` where that was typed."""
    if given is None:
        return extra
    others = words_of(one for one in divide(extra) if one.name != _SLOTS)
    return (*others, "-np", str(given))


def slots_of_command(given: Given) -> int | None:
    """Value of ``-np`` in the command of ``--from``; None where llama-server chooses it."""
    values = [one.value for one in divide(given.served_extra) if one.name == _SLOTS]
    is_number = bool(values) and values[-1].isdecimal()
    return int(values[-1]) if is_number and 1 <= int(values[-1]) <= MOST_SLOTS else None
