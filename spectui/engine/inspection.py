"""Inspection of models without loading their weights: metadata, tokens, compatibility."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from spectui.engine.commands import ComparePair
from spectui.errors import BadInputError, DoesNotFitError
from spectui.llama.architectures import check_generates
from spectui.llama.model import Model
from spectui.models.facts import check_is_model, check_is_target, facts_of
from spectui.models.gguf import check_tokens, read_gguf
from spectui.models.pairs import incompatibility
from spectui.models.ranking import ModelInspected
from spectui.options.setup import ModelOptions
from spectui.speculative.rollback import unserved

_UNREADABLE = (BadInputError, DoesNotFitError)
"""A damaged header may ask for more memory than there is."""


class Inspector:
    """Compares drafts with a target, whose vocabulary stays open for the next draft."""

    def __init__(self) -> None:
        """Open nothing yet."""
        self._target: Model | None = None

    def compare(self, command: ComparePair, cancelled: Callable[[], bool]) -> ModelInspected:
        """Apply llama.cpp's own rule to the two vocabularies.

        A target that cannot be read is told as the draft of itself. A model that is compared with
        itself is opened once.

        Raises:
            CancelledError: ``cancelled`` said so.
        """
        try:
            target = self._open_target(command.target, cancelled)
        except _UNREADABLE as error:
            path = command.target
            return ModelInspected(target=path, path=path, facts=None, reason=str(error))
        facts = reason = None
        is_itself = command.draft == command.target
        try:
            gguf = read_gguf(command.draft)
            if not is_itself:
                check_is_model(command.draft, gguf)
            opened: AbstractContextManager[Model] = (
                nullcontext(target) if is_itself else _open(command.draft, cancelled)
            )
            with opened as draft:
                facts = facts_of(command.draft, gguf)
                reason = _misfit(target, draft)
                draft.check_generates()
        except _UNREADABLE as error:
            reason = str(error)
        return ModelInspected(target=command.target, path=command.draft, facts=facts, reason=reason)

    def _open_target(self, path: Path, cancelled: Callable[[], bool]) -> Model:
        if self._target is None or self._target.options.path != path:
            self.close()
            check_is_target(path, read_gguf(path))
            self._target = _open(path, cancelled)
        return self._target

    def close(self) -> None:
        """Close the target."""
        if self._target is not None:
            self._target.close()
            self._target = None


def _open(path: Path, cancelled: Callable[[], bool]) -> Model:
    check_tokens(path)
    return Model(ModelOptions(path=path), cancelled=cancelled, vocab_only=True)


def _misfit(target: Model, draft: Model) -> str | None:
    if draft is target:
        return None
    reason = incompatibility(target.vocabulary, draft.vocabulary)
    return reason or unserved(target.rollback, draft.rollback)


def inspect_header(path: Path) -> ModelInspected:
    """Describe a model by its file's header, and whether it can continue a text."""
    facts = reason = None
    try:
        gguf = read_gguf(path)
        facts = facts_of(path, gguf)
        check_generates(path, gguf)
    except BadInputError as error:
        reason = str(error)
    return ModelInspected(target=path, path=path, facts=facts, reason=reason)
