"""What ``bench``, ``tune`` and ``trace`` do before they measure: models, prompts, engine."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import click

from spectui.cli.drafts import look_into
from spectui.cli.preset_models import with_preset_models
from spectui.cli.progress import Progress
from spectui.cli.request import SharedOptions
from spectui.config import MODEL_KIND, MTP_KIND, ModelOptions
from spectui.demo import DemoModel, ensure_demo_models
from spectui.engine.driver import Engine
from spectui.engine.events import ModelLoaded
from spectui.errors import BadInputError, DoesNotFitError, SpectuiError, UsageError
from spectui.llama.draft_files import n_mtp_layers
from spectui.llama.files import check_file
from spectui.llama.gguf_file import read_gguf
from spectui.llama.library import native_log
from spectui.models.sizes import bytes_text
from spectui.paths import text_of
from spectui.prompts import Prompt, builtin_suite, load_prompts
from spectui.speculative.mtp import ONLY_SERVER, effective_schedule
from spectui.tune.candidates import Candidate


@contextmanager
def open_engine(options: SharedOptions, progress: Progress) -> Iterator[Engine]:
    """Yield an engine whose events go to ``progress``; close it whatever happens."""
    if options.verbose:
        native_log.listen(lambda line: click.echo(line, err=True))
    with Engine(progress.on_engine) as engine:
        try:
            yield engine
        finally:
            native_log.listen(None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Models:
    """The models of a run, by path; nothing is loaded."""

    target: Path
    drafts: dict[str, Path]
    """By name."""
    refused: tuple[Candidate, ...] = ()
    """Of ``--draft-dir``, with the reason."""
    memory_bytes: dict[str, int] = field(default_factory=dict)
    """Estimates for those of ``--draft-dir``, by name: weights and cache."""


def find_models(options: SharedOptions, progress: Progress, *, needs_draft: bool = True) -> Models:
    """Target and drafts: the ones given, those of folders, or the demo's, built if need be.

    Args:
        options: as they were given.
        progress: told what is built and found.
        needs_draft: False where n-gram drafters do as well.

    Raises:
        BadInputError: a file or folder is missing or holds no GGUF; checked before anything is
            loaded.
        UsageError: no target or no draft, or ``--demo`` with a target.
    """
    target, own = _given(options, progress, needs_draft=needs_draft)
    if not options.draft_dirs:
        return Models(target=target, drafts=own)
    return _with_folders(options, target, tuple(own.values()), progress)


def _given(
    options: SharedOptions, progress: Progress, *, needs_draft: bool
) -> tuple[Path, dict[str, Path]]:
    brings_drafts = bool(options.model_draft or options.draft_dirs)
    if options.demo:
        if options.model is not None:
            raise UsageError("--demo brings its own target; leave out -m, or leave out --demo")
        target = DemoModel(options.target)
        wanted = (target, DemoModel.DRAFT, DemoModel.DRAFT_THIN)
        built = ensure_demo_models(wanted, on_progress=progress.on_demo)
        if brings_drafts:
            return built[target], named(options.model_draft)
        return built[target], {str(model): built[model] for model in wanted[1:]}
    if options.model is None:
        raise UsageError("give a target with -m and a draft with -md, or --demo")
    if needs_draft and not brings_drafts:
        raise UsageError("give at least one draft with -md")
    for path in (options.model, *options.model_draft):
        check_file(path)
    return options.model, named(options.model_draft)


def _with_folders(
    options: SharedOptions, target: Path, given: Sequence[Path], progress: Progress
) -> Models:
    found = look_into(options.draft_dirs, target, n_ctx=options.ctx_size)
    if found.doubt is not None:
        progress.say(f"mind that {found.doubt}")
    for reason in found.reasons:
        progress.say(f"passed over: {reason}")
    names = named((*given, *(one.model.path for one in found.options)))
    by_path = {path.resolve(): name for name, path in names.items()}
    refused, memory_bytes = [], {}
    for one in found.options:
        name = by_path[one.model.path.resolve()]
        size_bytes = memory_bytes[name] = one.memory_bytes or one.model.size_bytes
        if one.reason is None:
            progress.say(f"candidate {name}: {bytes_text(size_bytes)} of memory")
        elif one.model.path.resolve() not in {path.resolve() for path in given}:
            refused.append(_refused(name, options.draft_options(one.model.path), one.reason))
    left_out = {candidate.name for candidate in refused}
    return Models(
        target=target,
        drafts={name: path for name, path in names.items() if name not in left_out},
        refused=tuple(refused),
        memory_bytes=memory_bytes,
    )


def _refused(name: str, options: ModelOptions, reason: str) -> Candidate:
    return Candidate(name=name, options=options, loaded=None, error=BadInputError(reason))


def read_prompts(options: SharedOptions) -> tuple[Prompt, ...]:
    """The user's prompts, or the built-in suite. A malformed one stops everything."""
    return builtin_suite() if options.prompts is None else load_prompts(options.prompts)


def named(paths: Sequence[Path]) -> dict[str, Path]:
    """Give candidates short, distinct names: file stems, numbered where they collide."""
    # The same file given twice is one candidate, under the first of its names.
    distinct: dict[Path, Path] = {}
    for path in paths:
        distinct.setdefault(path.resolve(), path)
    stems = [text_of(path.stem) for path in distinct.values()]
    return {
        stem if stems.count(stem) == 1 and stem != MTP_KIND else f"{stem}#{index}": path
        for index, (stem, path) in enumerate(zip(stems, distinct.values(), strict=True), start=1)
    }


def with_candidates(options: SharedOptions) -> SharedOptions:
    """Fill in the preset's models, for a command that takes several drafts, or none.

    Raises:
        BadInputError: files of the preset are missing.
        UsageError: drafts were given that ``--spec-type`` leaves out.
    """
    if _takes_models(options):
        return with_preset_models(options)
    if options.model_draft or options.draft_dirs:
        raise UsageError(
            f"-md names a draft, and --spec-type does not: add {MODEL_KIND} to it, or leave out -md"
        )
    return with_preset_models(options, most_drafts=0)


def find_candidates(options: SharedOptions, progress: Progress) -> Models:
    """As ``find_models``, with the drafts that ``--spec-type`` wants."""
    found = find_models(options, progress, needs_draft=MODEL_KIND in options.spec_type)
    return found if _takes_models(options) else replace(found, drafts={})


def _takes_models(options: SharedOptions) -> bool:
    return not options.spec_type or MODEL_KIND in options.spec_type


def load_models(
    engine: Engine,
    shared: SharedOptions,
    models: Models,
    progress: Progress,
    *,
    max_draft: int,
    takes_mtp: bool = True,
) -> tuple[ModelLoaded, tuple[Candidate, ...]]:
    """Load the target, with its MTP layers where these may draft, and every draft once.

    Args:
        engine: nothing is loaded yet.
        shared: as they were given.
        models: as they were found.
        progress: told who is left out, and why.
        max_draft: longest draft that will be asked for.
        takes_mtp: False where MTP layers may not draft.

    Returns:
        The target, and who may draft: the drafts that fit, the MTP layers, and, with an error,
        those that cannot.

    Raises:
        SpectuiError: the target cannot be loaded, or no draft of -md can serve, or the MTP layers
            were named and cannot.
    """
    target, mtp = _load_target(
        engine, shared, models.target, max_draft=max_draft, takes_mtp=takes_mtp
    )
    if mtp is not None and mtp.reason is not None:
        progress.say(f"left out {mtp.name}: {mtp.reason}")
    wanted = shared.schedule_kind()
    if effective_schedule(wanted, target.mtp_layers) is not wanted:
        progress.say(f"mind that --schedule {wanted} is not for {MTP_KIND}: {ONLY_SERVER}")
    candidates = _load_drafts(engine, shared, models, progress)
    return target, candidates if mtp is None else (*candidates, mtp)


def _load_target(
    engine: Engine, shared: SharedOptions, path: Path, *, max_draft: int, takes_mtp: bool
) -> tuple[ModelLoaded, Candidate | None]:
    """The target, and its MTP layers as a candidate if it has any."""
    options, context = shared.target_options(path), shared.context_options()
    is_named = MTP_KIND in shared.spec_type
    has_mtp = is_named or (not shared.spec_type and n_mtp_layers(read_gguf(path)) > 0)
    if not (takes_mtp and has_mtp):
        return engine.load_target(options, context, max_draft=max_draft), None
    try:
        target = engine.load_target(options, context, max_draft=max_draft, mtp=True)
    except (BadInputError, DoesNotFitError, UsageError) as error:
        if is_named:
            raise
        # If it is not for its MTP layers, this fails as well.
        target = engine.load_target(options, context, max_draft=max_draft)
        return target, Candidate(name=MTP_KIND, options=options, loaded=None, error=error)
    return target, Candidate(name=MTP_KIND, options=options, loaded=target)


def _load_drafts(
    engine: Engine, shared: SharedOptions, models: Models, progress: Progress
) -> tuple[Candidate, ...]:
    """Load every draft once: which fit the target, and why the others do not.

    Raises:
        SpectuiError: one was named with -md, and none does. A folder may hold none: n-gram
            drafters are left.
    """
    drafts = models.drafts.items()
    found = [_candidate(engine, name, shared.draft_options(path)) for name, path in drafts]
    found += models.refused
    for candidate in found:
        if candidate.reason is not None:
            progress.say(f"left out {candidate.name}: {candidate.reason}")
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


def _candidate(engine: Engine, name: str, options: ModelOptions) -> Candidate:
    try:
        loaded = engine.load_draft(options)
    except (BadInputError, DoesNotFitError) as error:
        return Candidate(name=name, options=options, loaded=None, error=error)
    finally:
        engine.unload_draft()
    return Candidate(name=name, options=options, loaded=loaded)
