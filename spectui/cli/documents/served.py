"""Parts of documents on measurements through llama-servers."""

from collections.abc import Mapping, Sequence

from spectui.cli.documents.base import Json, or_reason
from spectui.measure.served_models import ServedModel
from spectui.server.binary import ServerBinary
from spectui.server.help_text import Version

_UNTOLD = "the binary does not tell"
UNREAD = "spectui's llama.cpp cannot read the file's header"
NOT_LOADED = "llama-server has loaded it, which does not tell"

ENGINE: Json = {"backend": "engine"}


def served_by(
    binary: ServerBinary, arguments: Mapping[str, Sequence[str]], *, keeps_both: bool, n_starts: int
) -> Json:
    """The llama-server that has measured, and its command line."""
    return {
        "backend": "server",
        "server": {
            "path": binary.path,
            **version_fields(binary.version),
            "dialect": str(binary.dialect),
            "keeps_both": keeps_both,
            "n_starts": n_starts,
            "arguments": {name: list(words) for name, words in arguments.items()},
        },
    }


def version_fields(version: Version | None) -> Json:
    """Version, build and commit of a binary."""
    return {
        **or_reason("version", None if version is None else version.text, _UNTOLD),
        **or_reason("build", None if version is None else version.build, _UNTOLD),
        **or_reason("commit", None if version is None else version.commit, _UNTOLD),
    }


def served_model(model: ServedModel, n_ctx: int) -> Json:
    """A model, as far as it is known without loading it; sizes as in ``base.model_with``."""
    return {
        "path": str(model.path),
        **or_reason("arch", model.arch, UNREAD),
        **or_reason("name", model.name, UNREAD),
        **or_reason("n_params", None, NOT_LOADED),
        **or_reason("size_bytes", model.size_bytes, UNREAD),
        "override_kv": [one.text for one in model.options.override_kv],
        **or_reason("rollback", None, NOT_LOADED),
        "n_ctx": n_ctx,
    }
