"""Loading for a trial: the target in its placement, and a draft beside it."""

import time
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace

from spectui.engine.commands import LoadTarget
from spectui.engine.driver import Engine
from spectui.measure.server_backend import ServerBackend
from spectui.options.setup import ModelOptions
from spectui.tune.candidates import Candidate
from spectui.tune.layouts import Layouts


@dataclass(eq=False)
class Loader:
    """Loads drafts, and the target where it has to move for one. Remembers what is loaded."""

    engine: Engine
    """Has loaded the target."""
    candidates: Sequence[Candidate]
    """Drafts by whose names they are asked for."""
    _: KW_ONLY
    loaded: str | None = None
    """The candidate that the engine has loaded already."""
    movable: tuple[LoadTarget, Layouts] | None = None
    """The target as it is loaded, and its layouts beside each of them; None keeps it in place."""
    clock: Callable[[], float] = time.monotonic
    """Seconds."""

    def __post_init__(self) -> None:
        self._candidates = {candidate.name: candidate for candidate in self.candidates}
        self.place = None if self.movable is None else self.movable[0].options
        """The target as it is loaded; None where it stays in place, and where its load failed."""
        self.move_s = 0.0
        """Seconds that the last reload of the target took."""

    @property
    def drafts(self) -> tuple[str, ...]:
        """Candidates that can be used, so ordered that the target moves as seldom as possible.

        It begins where it lies without a draft.
        """
        usable = [one.name for one in self._candidates.values() if one.error is None]
        alike = list(map(self._place_of, (None, *usable)))
        return tuple(sorted(usable, key=lambda name: alike.index(self._place_of(name))))

    def needs_other_placement(self, draft: str | None, other: str | None) -> bool:
        """Whether the target lies otherwise beside ``draft`` than beside ``other``."""
        return self._place_of(draft) != self._place_of(other)

    def is_short(self, draft: str) -> bool:
        """Whether it drafts a few tokens at most, as ``Candidate.is_short``."""
        return self._candidates[draft].is_short

    def is_mtp(self, draft: str) -> bool:
        """Whether MTP layers draft: the target's own, or a file of them."""
        candidate = self._candidates[draft]
        return candidate.is_mtp or candidate.is_mtp_file

    def load(self, draft: str | None) -> None:
        """Place the target for ``draft``, and load that in place of another one.

        Several drafts may not fit, and do not run at once. Without a draft model one that is loaded
        stays, but not MTP layers in place of the target's own.

        Raises:
            SpectuiError: the engine failed.
        """
        self._move(self._place_of(draft))
        candidate = self._candidates.get(draft or "")
        if candidate is None or draft == self.loaded:
            return
        if candidate.is_mtp:
            if self.loaded is not None and self._candidates[self.loaded].is_mtp_file:
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
        self.engine.place_target(replace(command, options=place))
        self.place = place
        self.move_s = self.clock() - began_s


Loading = Loader | ServerBackend
"""A backend that has a draft ready, with the target placed as it is beside that draft."""
