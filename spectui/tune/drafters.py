"""Loads a target, and once each of those who may draft for it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from spectui.engine.commands import LoadTarget
from spectui.engine.driver import Engine
from spectui.engine.events import ModelLoaded
from spectui.errors import BadInputError, DoesNotFitError, SpectuiError, UsageError
from spectui.models.gguf import read_gguf
from spectui.options.drafters import MTP_KIND
from spectui.options.setup import ModelOptions
from spectui.speculative.models import unserved
from spectui.tune.candidates import Candidate


@dataclass(frozen=True, slots=True, kw_only=True)
class Drafters:
    """Who may draft for a target: draft models, files of MTP layers, and its own MTP layers."""

    models: Mapping[str, ModelOptions]
    """Draft models by name."""
    mtp_files: frozenset[str] = frozenset()
    """Names of those that are files of MTP layers alone."""
    refused: Sequence[Candidate] = ()
    """Models that are known not to draft."""
    needs_model: bool = False
    """Whether it is an error that no model can draft: one was named."""
    takes_mtp: bool = True
    """Whether the target's own MTP layers may draft."""
    needs_mtp: bool = False
    """Whether it is an error that they cannot: they were named."""


def load_drafters(
    engine: Engine, command: LoadTarget, wanted: Drafters, say: Callable[[str], None]
) -> tuple[ModelLoaded, tuple[Candidate, ...]]:
    """Load the target, with its MTP layers where these may draft, and every draft once.

    Args:
        engine: nothing is loaded yet.
        command: loads the target, without its MTP layers.
        wanted: who may draft.
        say: told who is left out.

    Returns:
        The target, and who may draft: the MTP layers, the drafts that fit, and, with an error,
        those that cannot. A folder may hold none: n-gram drafters are left.

    Raises:
        SpectuiError: the target cannot be loaded, or nobody of those who were named can draft.
    """
    target, mtp = _load_target(engine, command, wanted)
    found = [
        _load_draft(engine, name, options, target, mtp=name in wanted.mtp_files)
        for name, options in wanted.models.items()
    ]
    found += wanted.refused
    # The target's own layers come first: nothing has to be loaded for them.
    every = [*([] if mtp is None else [mtp]), *found]
    for candidate in every:
        if candidate.reason is not None:
            say(f"left out {candidate.name}: {candidate.reason}")
    if wanted.needs_model and all(candidate.error is not None for candidate in found):
        raise _none_fits(found)
    return target, tuple(every)


def _load_target(
    engine: Engine, command: LoadTarget, wanted: Drafters
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
    has_mtp = wanted.takes_mtp and read_gguf(options.path).mtp_layers > 0
    if not (wanted.needs_mtp or has_mtp):
        return load(mtp=False), None
    try:
        target = load(mtp=True)
    except (BadInputError, DoesNotFitError, UsageError) as error:
        if wanted.needs_mtp:
            raise
        # If it is not for its MTP layers, this fails as well.
        target = load(mtp=False)
        return target, Candidate(name=MTP_KIND, options=options, loaded=None, error=error)
    return target, Candidate(name=MTP_KIND, options=options, loaded=target)


def _load_draft(
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


def _none_fits(found: Sequence[Candidate]) -> SpectuiError:
    first = found[0].error
    if len(found) == 1 and first is not None:
        return first
    kind = type(first) if isinstance(first, DoesNotFitError) else BadInputError
    why = "; ".join(f"{candidate.name}: {candidate.reason}" for candidate in found)
    return kind(f"none of the {len(found)} drafts can serve ({why}); give another one")
