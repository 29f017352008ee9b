"""What ``bench``, ``tune`` and ``trace`` do before they measure: prompts, engine, candidates."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import click

from spectui.cli.given import Models
from spectui.cli.progress import Progress
from spectui.cli.request import SharedOptions
from spectui.config import ModelOptions
from spectui.engine.driver import Engine
from spectui.errors import BadInputError, DoesNotFitError, SpectuiError
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


def read_prompts(options: SharedOptions) -> tuple[Prompt, ...]:
    """The user's prompts, or the built-in suite. A malformed one stops everything."""
    return builtin_suite() if options.prompts is None else load_prompts(options.prompts)


def load_candidates(
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
