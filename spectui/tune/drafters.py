"""Loads a target, and once each of those who may draft for it."""

from collections.abc import Sequence

from spectui.engine.commands import LoadTarget
from spectui.engine.driver import Engine
from spectui.engine.events import ModelLoaded
from spectui.errors import BadInputError, DoesNotFitError, SpectuiError, UsageError
from spectui.models.gguf import read_gguf
from spectui.options.drafters import MTP_KIND
from spectui.options.setup import ModelOptions
from spectui.speculative.models import unserved
from spectui.tune.candidates import Candidate


def load_target(
    engine: Engine, command: LoadTarget, *, takes_mtp: bool, needs_mtp: bool
) -> tuple[ModelLoaded, tuple[Candidate, ...]]:
    """Load the target, with its MTP layers where these may draft.

    Args:
        engine: nothing is loaded yet.
        command: loads the target, without its MTP layers.
        takes_mtp: whether the layers may draft.
        needs_mtp: whether it is an error that they cannot: they were named.

    Returns:
        The target, and its MTP layers as a candidate if it has any.

    Raises:
        SpectuiError: it cannot be loaded.
    """

    def load(*, mtp: bool) -> ModelLoaded:
        return engine.load_target(
            command.options,
            command.context,
            max_draft=command.max_draft,
            mtp=mtp,
            mtp_file=command.mtp_file,
        )

    options = command.options
    if not (needs_mtp or (takes_mtp and read_gguf(options.path).mtp_layers > 0)):
        return load(mtp=False), ()
    try:
        target = load(mtp=True)
    except (BadInputError, DoesNotFitError, UsageError) as error:
        if needs_mtp:
            raise
        # If it is not for its MTP layers, this fails as well.
        target = load(mtp=False)
        return target, (Candidate(name=MTP_KIND, options=options, loaded=None, error=error),)
    return target, (Candidate(name=MTP_KIND, options=options, loaded=target),)


def load_draft(
    engine: Engine, name: str, options: ModelOptions, target: ModelLoaded, *, mtp: bool
) -> Candidate:
    """Load a draft once; one that cannot draft for the target has an error.

    Args:
        engine: has loaded the target.
        name: of the draft.
        options: of the draft.
        target: as it was loaded.
        mtp: whether the draft is a file of MTP layers alone.
    """
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


def none_fits(drafts: Sequence[Candidate]) -> SpectuiError:
    """The error of drafts that were named and cannot draft, of which there is at least one."""
    first = drafts[0].error
    if len(drafts) == 1 and first is not None:
        return first
    kind = type(first) if isinstance(first, DoesNotFitError) else BadInputError
    why = "; ".join(f"{draft.name}: {draft.reason}" for draft in drafts)
    return kind(f"none of the {len(drafts)} drafts can serve ({why}); give another one")
