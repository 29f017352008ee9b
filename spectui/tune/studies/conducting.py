"""Who conducts a study, and what that offers to the workers that join it.

One process conducts: it says which arms come first, and when the study has ended.
"""

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum

import msgspec
import optuna
from optuna.storages import BaseStorage

from spectui.closing import Closing
from spectui.errors import SpectuiError, UsageError
from spectui.secret import without_passwords
from spectui.tune.studies import records
from spectui.tune.studies.lease import Owner, Watch, beaten, is_here
from spectui.tune.studies.storage import close_storage, open_storage, storage_errors

_CONDUCTOR = "conductor"
_OFFER = "offer"
_SHOWN = 12
"""Names that one message lists."""
_PAUSE = threading.Event()
"""Never set."""


class Phase(StrEnum):
    """State of a study, as workers see it."""

    PREPARING = "preparing"
    TRIALS = "trials"
    ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """Trials that workers may ask for."""

    phase: Phase
    n_trials: int = 0
    """Limit of all trials of the study."""
    chains: bool = True
    """As in ``TuningStudy.follow``."""


class Conducting(Closing):
    """Conducts a study, or tells a worker what its conductor offers. Close it."""

    def __init__(
        self,
        study: optuna.Study,
        url: str,
        owner: Owner,
        watch: Watch,
        say: Callable[[str], None],
        *,
        for_group: bool,
    ) -> None:
        """Prepare.

        Args:
            study: the study that is conducted.
            url: its storage.
            owner: this process.
            watch: tells whether a conductor is gone.
            say: told what a user has to wait for, and who conducts by now.
            for_group: whether a group of other machines looks on, which has an end of its own.
        """
        self._study = study
        self._url = url
        self._owner = owner
        self._watch = watch
        self._say = say
        self._for_group = for_group
        self._conducts = False

    def begin(self, *, is_alone: bool) -> None:
        """Become the one that conducts the study.

        Args:
            is_alone: whether a lock says already that no other process does.

        Raises:
            UsageError: another process does.
        """
        if not is_alone:
            seen = None
            while (owner := self._conductor()) and not self._watch.is_gone(_CONDUCTOR, owner):
                by = f"process {owner.get('pid')} on {owner.get('host')}"
                if is_here(owner) or (seen is not None and seen != owner):
                    raise UsageError(
                        f"{by} is working on the study {self._study.study_name}; wait for it, or "
                        "choose another --study"
                    )
                if seen is None:
                    self._say(
                        f"{by} has worked on the study {self._study.study_name}; a minute shows "
                        "whether it still does"
                    )
                seen = owner
                _PAUSE.wait(1)
        self._conducts = True
        self._study.set_user_attr(_CONDUCTOR, self._owner)

    def _conductor(self) -> Owner | None:
        owner: Owner | None = self._study.user_attrs.get(_CONDUCTOR)
        return owner

    def _still_conducts(self) -> bool:
        """Whether no other process has taken the study over, as while this machine slept."""
        owner = self._conductor()
        self._conducts &= owner is None or owner.get("id") == self._owner.get("id")
        return self._conducts

    def renew(self) -> None:
        """Raise the counter of the lease, on a thread of its own; the next beat tries again."""
        self._owner = beaten(self._owner)
        study_id, storage = self._study._study_id, self._study._storage  # noqa: SLF001 - nothing public gives them
        with suppress(Exception):
            if self._conducts and self._still_conducts():
                storage.set_study_user_attr(study_id, _CONDUCTOR, self._owner)

    def offer(self, offer: Offer) -> None:
        """Say what there is for workers, unless another process says so by now."""
        with storage_errors(self._url):
            if self._still_conducts():
                self._study.set_user_attr(_OFFER, msgspec.to_builtins(offer))
            else:
                self._say(
                    f"another process conducts the study {self._study.study_name} by now, as this "
                    "one did not answer; what was measured here is kept, and the verdict is this "
                    "process's own"
                )

    def offered(self) -> Offer:
        """Work for workers: nothing more once the study's conductor is gone."""
        with storage_errors(self._url):
            attrs = self._study.user_attrs
            offer = records.from_plain(attrs.get(_OFFER), Offer) or Offer(phase=Phase.PREPARING)
            owner = attrs.get(_CONDUCTOR)
            if self._for_group:
                return replace(offer, phase=Phase.TRIALS if offer.n_trials else Phase.PREPARING)
            if owner and self._watch.is_gone(_CONDUCTOR, owner):
                return replace(offer, phase=Phase.ENDED)
            return offer

    def close(self) -> None:
        """Let others conduct."""
        with suppress(SpectuiError), storage_errors(self._url):
            if self._conducts and self._still_conducts():
                self._study.set_user_attr(_CONDUCTOR, None)


def study_arguments(storage: str, wanted: str, wait: Callable[[str], None]) -> tuple[str, object]:
    """Full name of a study that workers can join, and the options that it was begun with.

    The options are as whoever wrote to the storage left them.

    Args:
        storage: URL of its storage.
        wanted: its name, or a part of the only one that contains it and is worked on.
        wait: lets time pass while there is none, or raises; told what is waited for.

    Raises:
        BadInputError: the storage cannot be used.
        UsageError: several may be meant, or it was not begun by ``tune``.
    """
    opened = open_storage(storage)
    try:
        with storage_errors(storage):
            while True:
                names = optuna.get_all_study_names(opened)
                study = _joinable(opened, names, wanted)
                if study is not None and records.SPEC in study.user_attrs:
                    break
                there = ", ".join(names[:_SHOWN]) or "no studies"
                wait(
                    f"for the study {wanted}, which spectui tune --study {wanted} begins; "
                    f"{without_passwords(storage)} has {there}"
                )
            arguments = study.user_attrs.get(records.ARGUMENTS)
    finally:
        close_storage(opened)
    if arguments is None:
        raise UsageError(
            f"the study {study.study_name} does not keep what it was begun with; go on with it by "
            "spectui tune, and then let workers join"
        )
    return study.study_name, arguments


def _joinable(storage: BaseStorage, names: Sequence[str], wanted: str) -> optuna.Study | None:
    """The study of that name, or the only one with such a name that somebody conducts."""
    if wanted in names:
        return optuna.load_study(study_name=wanted, storage=storage)
    alike = [name for name in names if wanted in name and records.GROUP not in name]
    found = [optuna.load_study(study_name=name, storage=storage) for name in alike]
    found = [study for study in found if study.user_attrs.get(_CONDUCTOR)]
    if len(found) > 1:
        shown = ", ".join(study.study_name for study in found[:_SHOWN])
        raise UsageError(f"{wanted} may mean {shown}; give one of these names")
    return found[0] if found else None
