"""Runs ``spectui models find``: drafts of a target on Hugging Face's hub."""

import shlex
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from spectui.cli.models import Find
from spectui.cli.output import check_writable, write_result
from spectui.cli.page import page_text
from spectui.cli.progress import open_progress
from spectui.cli.run_scan import Findings, models_document, scan_page, shown
from spectui.errors import HubError, UsageError
from spectui.models.beside import Header, compare_headers, header_of
from spectui.models.candidates import HubModel, Origin, Repository, candidates, choose_file
from spectui.models.facts import check_is_target, has_mtp_layers
from spectui.models.files import FoundModel
from spectui.models.ranking import DraftOption, look_at, rank
from spectui.page import Paragraph

if TYPE_CHECKING:
    from spectui.models.hub import Hub


def open_hub() -> "Hub":
    """Return the hub, as ``huggingface_hub`` reaches it.

    Raises:
        UsageError: it is not installed.
    """
    try:
        from spectui.models.hub import Hub
    except ModuleNotFoundError as error:
        raise UsageError(
            "huggingface_hub, which asks the hub, is not installed; install spectui with its extra "
            "hub, or huggingface_hub beside it"
        ) from error
    return Hub()


class _HubDrafts:
    """Models of the hub, seen as drafts of one target."""

    def __init__(self, hub: "Hub", target: Header, n_ctx: int) -> None:
        self._hub, self._target, self._n_ctx = hub, target, n_ctx
        self.models: dict[Path, HubModel] = {}
        """Models that were looked up, by their places on the hub."""

    def look_at(self, repository: Repository) -> DraftOption:
        """Choose a file of a repository and look at its header beside the target's."""
        model, reason, facts = None, "has no model that could draft", self._target.facts
        try:
            models = self._hub.models(repository.name)
            own_bytes = facts.read_bytes_per_token or facts.size_bytes
            model = choose_file(repository, models, own_bytes)
        except HubError as error:
            reason = str(error).removeprefix(f"repository {repository.name}: ")
        if model is None:
            path = Path(repository.name)
            unknown = FoundModel(path=path, name=path.name, size_bytes=0)
            return DraftOption(model=unknown, facts=None, reason=reason, memory_bytes=None)
        self.models[model.path] = model
        compare = partial(compare_headers, self._target, read=self._header, here=False)
        return look_at(facts, model, compare, self._n_ctx)

    def _header(self, path: Path) -> Header:
        return self._hub.header(self.models[path])


def find(request: Find) -> None:
    """Ask the hub for drafts of a target, look at their headers, and print them, ranked.

    Raises:
        BadInputError: the target cannot be used.
        HubError: the hub cannot be reached, or fails.
        UsageError: there is no target, or ``huggingface_hub`` is not installed.
    """
    target = request.target
    if target is None:
        raise UsageError("models find looks for drafts of a target; give its file with -m FILE")
    check_writable(request.json_path, (target,))
    own = header_of(target)
    check_is_target(target, own.gguf)
    hub = open_hub()
    origin, facts = Origin.of(own.gguf, target.name), own.facts
    with open_progress(quiet=request.quiet) as progress:
        progress.say(f"asking the hub for drafts of {shown(origin.names[-1])}")
        drafts = _HubDrafts(hub, own, request.n_ctx)
        # Of a mixture of experts a token reads a small part.
        share = (facts.read_bytes_per_token or facts.size_bytes) / max(facts.size_bytes, 1)
        listed = candidates(origin, share * facts.n_params, hub.search, request.limit)
        options = []
        for number, repository in enumerate(listed, start=1):
            progress.say(f"reading {shown(repository.name)} ({number} of {len(listed)})")
            options.append(drafts.look_at(repository))
    searched = ", ".join(dict.fromkeys((*origin.names, *origin.families)))
    found = Findings(
        n_ctx=request.n_ctx,
        target=facts,
        models=rank(facts, options),
        nothing=f"The hub was searched for {shown(searched)}, and nothing that is smaller was "
        "found; n-gram drafters need no file: spectui tune tries them by itself.",
        fetch={path: shlex.join(model.fetch_words) for path, model in drafts.models.items()},
    )
    page = scan_page(found)
    if has_mtp_layers(own.gguf):
        page = [*page, "", Paragraph(_HAS_MTP)]
    write_result(models_document(found), page_text(page), request.json_path)


_HAS_MTP = (
    "The target has MTP layers of its own, which draft without another file: --spec-type draft-mtp."
)
