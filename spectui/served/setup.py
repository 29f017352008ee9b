"""The setup of one llama-server, and its command line."""

from dataclasses import dataclass, replace

from spectui.config import ContextOptions, ModelOptions
from spectui.export.held_back import own_arguments
from spectui.export.setup import ExportSetup
from spectui.options.speculation import Speculation
from spectui.server.binary import ServerBinary

_CACHE = "--cache-ram"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """Models, context and who drafts. Equal setups are one server."""

    target: ModelOptions
    draft: ModelOptions | None
    """None where no draft model is needed."""
    context: ContextOptions
    speculation: Speculation | None
    """None for the target alone."""
    extra: tuple[str, ...] = ()
    """The user's own arguments that spectui does not know."""

    @property
    def is_off(self) -> bool:
        """Whether nothing drafts."""
        return self.speculation is None

    @property
    def label(self) -> str:
        """Name: the drafters, and the last one's setting."""
        if self.speculation is None:
            return "off"
        draft = "model" if self.draft is None else self.draft.path.stem
        names = [draft if one.needs_draft else one.kind for one in self.speculation.chain]
        return f"{', '.join(names)}: {self.speculation.own.summary}"

    @property
    def off(self) -> "Setup":
        """The same without a draft."""
        return replace(self, draft=None, speculation=None)

    @property
    def models(self) -> tuple[ModelOptions, ...]:
        """All that it loads."""
        if self.is_off or self.draft is None:
            return (self.target,)
        return (self.target, self.draft)

    def arguments(self, binary: ServerBinary) -> tuple[str, ...]:
        """For that binary, in its dialect.

        One slot, as one user has, and no prompt cache. The user's own arguments stay, but for those
        that say who may reach the server, or that would write the user's files.

        Raises:
            BadInputError: the binary has no words for what is asked for.
        """
        accepted = binary.accepted
        written = ExportSetup(
            target=self.target,
            draft=self.draft,
            context=self.context,
            speculation=self.speculation,
            extra=own_arguments(self.extra),
            name="spectui",
            accepted=accepted,
        ).arguments(binary.dialect)
        cache = (_CACHE, "0") if _CACHE in accepted.flags else ()
        return (*written, "-np", "1", *cache)
