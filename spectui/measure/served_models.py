"""Facts about the files of served models, and whether two servers fit in memory."""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from spectui.documents import Json, or_reason
from spectui.engine.guard import Guard
from spectui.errors import BadInputError, DoesNotFitError
from spectui.gguf_names import shard_names
from spectui.llama.architectures import architecture
from spectui.llama.planned import PlanRequest
from spectui.models.facts import ModelFacts, facts_of
from spectui.models.gguf import read_gguf
from spectui.options.setup import ModelOptions, Setup


class ServedModel(NamedTuple):
    """A model that was not loaded in this process."""

    options: ModelOptions
    file_bytes: int
    """Size of its files, including headers."""
    facts: ModelFacts | None = None
    """As its header has them; None where spectui's llama.cpp cannot read it."""

    @property
    def path(self) -> Path:
        """Path of its file."""
        return self.options.path

    @property
    def reader(self) -> str | None:
        """Kind of a draft that reads the target's hidden states; None for a model of its own."""
        return None if self.facts is None else self.facts.draft_kind

    @property
    def mtp_layers(self) -> int:
        """Number of MTP layers, as the header has it; 0 where it cannot be read."""
        return 0 if self.facts is None else self.facts.mtp_layers

    @property
    def redoes_rounds(self) -> bool:
        """Whether llama-server has to redo rounds that reject something; True if unknown."""
        known = None if self.facts is None else architecture(self.facts.arch)
        return known is None or known.has_state or not known.is_known

    @property
    def alteration(self) -> str | None:
        """The effect of ``--override-kv`` on its output, in a sentence; None without overrides."""
        return None if self.facts is None else self.facts.alteration

    def document(self, n_ctx: int) -> Json:
        """The model in documents, as those of loaded models, as far as that is known."""
        if self.facts is None:
            return {"path": str(self.path), **or_reason("arch", None, UNREAD), "n_ctx": n_ctx}
        return self.facts.document(rollback=None, n_ctx=n_ctx)


UNREAD = "spectui's llama.cpp cannot read the file's header"


def look_at(options: ModelOptions) -> ServedModel:
    """Read as much of the header as possible: the engine may not understand the file."""
    try:
        facts = facts_of(options.path, read_gguf(options.path))
    except BadInputError:
        return ServedModel(options=options, file_bytes=size_bytes(options.path))
    facts = replace(facts, overridden=tuple(one.text for one in options.override_kv))
    return ServedModel(options=options, file_bytes=facts.file_bytes, facts=facts)


def keeps_off(setup: Setup, drafts: Iterable[ModelOptions] = ()) -> bool:
    """Whether the server of the target alone stays alive beside one that speculates.

    That is so where both fit, by llama.cpp's plans; an RPC server serves one client at a time.

    Args:
        setup: of the servers, with the most slots.
        drafts: drafts of servers that speculate, one at a time; of none, that of ``setup``.
    """
    if setup.target.devices.rpc:
        return False
    alone, own = PlanRequest.of(setup.off), PlanRequest.of(setup)
    with Guard(is_here=False) as guard, suppress(DoesNotFitError):
        each = [own.beside(draft) for draft in drafts] or [own]
        # Models that cannot be planned may not fit.
        return all(guard.fit_together(alone, one) or False for one in each)
    return False


def size_bytes(path: Path) -> int:
    """Return the size of a model, with all of its shards."""
    shards = (path.with_name(name) for name in shard_names(path.name))
    return sum(shard.stat().st_size for shard in shards if shard.exists())
