"""Candidates for drafting in a study: drafts, and the target's own MTP layers; their loading."""

import time
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace

from spectui.documents import Json
from spectui.engine.commands import LoadTarget
from spectui.engine.driver import Engine
from spectui.engine.events import ModelLoaded, Role
from spectui.errors import BadInputError, DoesNotFitError, SpectuiError, UsageError
from spectui.measure.server_backend import ServerBackend
from spectui.models.gguf import read_gguf
from spectui.options.drafters import MTP_KIND
from spectui.options.setup import ModelOptions
from spectui.speculative.models import unserved
from spectui.tune.layouts import Layouts


def drafter_name(loaded: ModelLoaded) -> str:
    """Name of the drafter: a loaded draft, or a target that was loaded to draft for itself."""
    return MTP_KIND if loaded.role is Role.TARGET else loaded.info.path.stem


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A draft that may be tried. ``MTP_KIND`` is the name of the target's own MTP layers alone."""

    name: str
    options: ModelOptions
    loaded: ModelLoaded | None
    """Facts of the loaded model; None if it could not be loaded."""
    error: SpectuiError | None = None
    """Why it cannot be used."""
    is_mtp_file: bool = False
    """Whether it is a file of MTP layers alone."""

    @property
    def is_mtp(self) -> bool:
        """Whether it is the target's own MTP layers, which are loaded with it.

        Then ``options`` and ``loaded`` are the target's.
        """
        return self.name == MTP_KIND

    @property
    def drafts_by_mtp(self) -> bool:
        """Whether MTP layers draft: the target's own, or a file of them."""
        return self.is_mtp or self.is_mtp_file

    @property
    def mtp_layers(self) -> int:
        """Layers of a file of MTP layers that was loaded; 0 of another draft."""
        return self.loaded.mtp_layers if self.loaded is not None and self.is_mtp_file else 0

    @property
    def is_short(self) -> bool:
        """Whether it drafts a few tokens at most: several MTP layers, which draft one each."""
        return self.loaded is not None and self.loaded.mtp_layers > 1

    @property
    def reason(self) -> str | None:
        """The error as a sentence."""
        return None if self.error is None else str(self.error)

    def document(self) -> Json:
        """A candidate as JSON, with its model where that was loaded."""
        path = {"path": str(self.options.path)}
        return {
            **(path if self.loaded is None else self.loaded.document()),
            # As trials call it, not as its file does.
            "name": self.name,
            "compatible": self.reason is None,
            "reason": self.reason,
        }


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
    options = command.options
    if not (needs_mtp or (takes_mtp and read_gguf(options.path).mtp_layers > 0)):
        return engine.load_target(command), ()
    try:
        target = engine.load_target(replace(command, mtp=True))
    except (BadInputError, DoesNotFitError, UsageError) as error:
        if needs_mtp:
            raise
        # If it is not for its MTP layers, this fails as well.
        target = engine.load_target(command)
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
    candidate = Candidate(name=name, options=options, loaded=None, is_mtp_file=mtp)
    try:
        loaded = engine.load_draft(options, mtp=mtp)
    except (BadInputError, DoesNotFitError) as error:
        return replace(candidate, error=error)
    finally:
        engine.unload_draft()
    reason = unserved(target.rollback, loaded.rollback)
    if reason is None:
        return replace(candidate, loaded=loaded)
    what = f"{options.path} cannot draft for {target.info.path.name}"
    return replace(candidate, error=BadInputError(f"{what}: {reason}; choose another draft"))


def none_fits(drafts: Sequence[Candidate]) -> SpectuiError:
    """The error of drafts that were named and cannot draft, of which there is at least one."""
    first = drafts[0].error
    if len(drafts) == 1 and first is not None:
        return first
    kind = type(first) if isinstance(first, DoesNotFitError) else BadInputError
    why = "; ".join(f"{draft.name}: {draft.reason}" for draft in drafts)
    return kind(f"none of the {len(drafts)} drafts can serve ({why}); give another one")


@dataclass(eq=False)
class Loader:
    """Loads drafts, and the target in its layout beside each. Remembers the loaded models."""

    engine: Engine
    """Has loaded the target."""
    candidates: Sequence[Candidate]
    """Drafts that ``load`` takes by their names."""
    _: KW_ONLY
    loaded: str | None = None
    """The candidate that the engine has loaded already."""
    movable: tuple[LoadTarget, Layouts] | None = None
    """The target as it is loaded, and its layouts beside each of them; None keeps it in place."""
    clock: Callable[[], float] = time.monotonic
    """Seconds."""

    def __post_init__(self) -> None:
        self.by_name = {candidate.name: candidate for candidate in self.candidates}
        self.place = None if self.movable is None else self.movable[0].options
        """The target as it is loaded; None where it stays in place, and where its load failed."""
        self.move_s = 0.0
        """Seconds that the last reload of the target took."""

    @property
    def drafts(self) -> tuple[str, ...]:
        """Candidates that can be used, so ordered that the target moves as seldom as possible.

        It begins where it lies without a draft.
        """
        usable = [one.name for one in self.by_name.values() if one.error is None]
        alike = list(map(self._place_of, (None, *usable)))
        return tuple(sorted(usable, key=lambda name: alike.index(self._place_of(name))))

    def needs_other_placement(self, draft: str | None, other: str | None) -> bool:
        """Whether the layout of the target beside ``draft`` differs from that beside ``other``."""
        return self._place_of(draft) != self._place_of(other)

    def load(self, draft: str | None) -> None:
        """Place the target for ``draft``, and load that in place of another one.

        Several drafts may not fit, and do not run at once. Without a draft model one that is loaded
        stays, but not MTP layers in place of the target's own.

        Raises:
            SpectuiError: the engine failed.
        """
        self._move(self._place_of(draft))
        candidate = self.by_name.get(draft or "")
        if candidate is None or draft == self.loaded:
            return
        if candidate.is_mtp:
            if self.loaded is not None and self.by_name[self.loaded].is_mtp_file:
                self.loaded = None
                self.engine.unload_draft()
            return
        self.loaded = None
        self.engine.load_draft(candidate.options, mtp=candidate.is_mtp_file)
        self.loaded = draft

    def _place_of(self, draft: str | None) -> ModelOptions | None:
        if self.movable is None:
            return None
        command, layouts = self.movable
        return layouts.of(draft).on(command.options)

    def _move(self, place: ModelOptions | None) -> None:
        if self.movable is None or place is None or place == self.place:
            return
        command, _layouts = self.movable
        began_s = self.clock()
        # A load begins by freeing both models, whatever comes of it.
        self.loaded = self.place = None
        self.engine.load_target(replace(command, options=place))
        self.place = place
        self.move_s = self.clock() - began_s


Loading = Loader | ServerBackend
"""A backend that has a draft ready, with the target placed as it is beside that draft."""
