"""What ``bench``, ``tune`` and ``trace`` do before they measure: models, prompts, engine."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from spectui.cli.progress import Progress
from spectui.cli.request import SharedOptions
from spectui.config import ModelOptions
from spectui.demo import DemoModel, ensure_demo_models
from spectui.engine.driver import Engine
from spectui.errors import BadInputError, DoesNotFitError, UsageError
from spectui.llama.files import check_file
from spectui.llama.library import native_log
from spectui.prompts import Prompt, builtin_suite, load_prompts
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


def model_paths(options: SharedOptions, progress: Progress) -> tuple[Path, dict[str, Path]]:
    """Target, and drafts by name: the ones given, or the demo's, built if need be.

    Raises:
        BadInputError: a file is missing or no GGUF; checked before anything is loaded.
        UsageError: no target, or ``--demo`` with models.
    """
    if options.demo:
        if options.model is not None:
            raise UsageError("--demo brings its own target; leave out -m, or leave out --demo")
        target = DemoModel(options.target)
        wanted = (target, DemoModel.DRAFT, DemoModel.DRAFT_THIN)
        built = ensure_demo_models(wanted, on_progress=progress.on_demo)
        if options.model_draft:
            return built[target], named(options.model_draft)
        return built[target], {str(model): built[model] for model in wanted[1:]}
    if options.model is None:
        raise UsageError("give a target with -m and a draft with -md, or --demo")
    if not options.model_draft:
        raise UsageError("give at least one draft with -md")
    for path in (options.model, *options.model_draft):
        check_file(path)
    return options.model, named(options.model_draft)


def read_prompts(options: SharedOptions) -> tuple[Prompt, ...]:
    """The user's prompts, or the built-in suite. A malformed one stops everything."""
    return builtin_suite() if options.prompts is None else load_prompts(options.prompts)


def named(paths: Sequence[Path]) -> dict[str, Path]:
    """Give candidates short, distinct names: file stems, numbered where they collide."""
    # The same file given twice is one candidate.
    paths = list({path.resolve(): path for path in reversed(paths)}.values())[::-1]
    stems = [path.stem for path in paths]
    return {
        stem if stems.count(stem) == 1 else f"{stem}#{index}": path
        for index, (stem, path) in enumerate(zip(stems, paths, strict=True), start=1)
    }


def load_candidates(
    engine: Engine, shared: SharedOptions, drafts: dict[str, Path]
) -> tuple[Candidate, ...]:
    """Load every draft once: which fit the target, and why the others do not.

    Raises:
        SpectuiError: none does; why the first does not.
    """
    found = [_candidate(engine, name, shared.draft_options(path)) for name, path in drafts.items()]
    first = found[0].error
    if first is not None and all(candidate.error is not None for candidate in found):
        raise first
    return tuple(found)


def _candidate(engine: Engine, name: str, options: ModelOptions) -> Candidate:
    try:
        loaded = engine.load_draft(options)
    except (BadInputError, DoesNotFitError) as error:
        return Candidate(name=name, options=options, loaded=None, error=error)
    finally:
        engine.unload_draft()
    return Candidate(name=name, options=options, loaded=loaded)
