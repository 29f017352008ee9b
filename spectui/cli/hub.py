"""Hugging Face's hub for commands: ``models find`` and ``models fetch``."""

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

from spectui.cli.models import Fetch, Find
from spectui.cli.output import check_writable, complain, say, write_result
from spectui.cli.page import page_text
from spectui.cli.progress import open_progress
from spectui.cli.run_scan import Findings, models_document, scan_page, shown
from spectui.doctor.drafts import DraftSearch, or_why_not
from spectui.errors import BadInputError, SpectuiError, UsageError
from spectui.models.beside import Header, inspected, target_header
from spectui.models.candidates import (
    HubModel,
    Origin,
    Repository,
    candidates,
    choose_file,
    of_quantisation,
)
from spectui.models.facts import ModelFacts, has_mtp_layers
from spectui.models.files import FoundModel
from spectui.models.gguf import check_file
from spectui.models.ranking import DraftOption, ModelInspected, rank
from spectui.monitor.machine import this_machine
from spectui.page import Paragraph
from spectui.paths import text_of
from spectui.presets import ModelFiles, Preset, find_preset, takes

if TYPE_CHECKING:
    from spectui.models.hub import Hub

_ON_HUB = re.compile(
    r"(?:(?:https?://)?(?:www\.)?(?:huggingface\.co|hf\.co)/)?(?P<repository>[\w.-]+/[\w.-]+)"
    r"(?::(?P<quant>[\w.-]+))?"
    r"(?:/(?:(?:tree|blob|resolve)/(?P<revision>[^/?#]+)/?)?(?P<file>[^?#]*))?(?:[?#].*)?",
    re.ASCII,
)
"""A repository, a quantisation of it as llama-server's ``-hf`` has it, or an address of the hub."""


def open_hub(*, shows_progress: bool, instead: str) -> "Hub":
    """Return the hub, as ``huggingface_hub`` reaches it.

    Args:
        shows_progress: whether it draws its bars.
        instead: what to do where it is not installed.

    Raises:
        UsageError: it is not installed.
    """
    try:
        from spectui.models.hub import Hub
    except ModuleNotFoundError as error:
        raise UsageError(
            "huggingface_hub, which asks the hub, is not installed; install spectui with its extra "
            f"hub, or huggingface_hub beside it{instead}"
        ) from error
    return Hub(shows_progress=shows_progress)


class _HubDrafts:
    """Models of the hub, seen as drafts of one target."""

    def __init__(self, hub: "Hub", target: Header, n_ctx: int) -> None:
        self._hub, self._target = hub, target
        self.models: dict[Path, HubModel] = {}
        """Models that were looked up, by their places on the hub."""
        self.search = DraftSearch(self._compare, target.facts.path, n_ctx=n_ctx)

    def look_at(self, repository: Repository) -> DraftOption:
        """Choose a file of a repository and look at its header beside the target's."""
        name = repository.name
        try:
            models = self._hub.models(name)
            model = choose_file(repository, models, _read_bytes(self._target.facts))
        except SpectuiError as error:
            return _without_file(name, str(error))
        if model is None:
            return _without_file(name, "has no model that could draft")
        self.models[model.path] = model
        return or_why_not(self.search.look_at, model)

    def _compare(self, target: Path, draft: Path) -> ModelInspected:
        if draft == target:
            return inspected(self._target, target)
        return inspected(self._target, draft, self._header, here=False)

    def _header(self, draft: Path) -> Header:
        return self._hub.header(self.models[draft])


def _read_bytes(facts: ModelFacts) -> int:
    return facts.read_bytes_per_token or facts.size_bytes


def _without_file(repository: str, reason: str) -> DraftOption:
    path = Path(repository)
    model = FoundModel(path=path, name=path.name, size_bytes=0)
    reason = reason.removeprefix(f"repository {repository}: ")
    return DraftOption(model=model, facts=None, reason=reason, memory_bytes=None)


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
    check_file(target)
    hub = open_hub(shows_progress=False, instead="")
    own = target_header(target)
    origin = Origin.of(own.gguf, target.name)
    with open_progress(quiet=request.quiet) as progress:
        progress.say(f"asking the hub for drafts of {shown(origin.names[-1])}")
        drafts = _HubDrafts(hub, own, request.n_ctx)
        # Of a mixture of experts a token reads a small part.
        share = _read_bytes(own.facts) / max(own.facts.size_bytes, 1)
        listed = candidates(origin, share * own.facts.n_params, hub.search, request.limit)
        options = []
        for number, repository in enumerate(listed, start=1):
            progress.say(f"reading {shown(repository.name)} ({number} of {len(listed)})")
            options.append(drafts.look_at(repository))
    found = Findings(
        folders=(),
        n_ctx=request.n_ctx,
        target=own.facts,
        models=rank(own.facts, options),
        doubt=drafts.search.doubt,
        passed_over=(),
        searched=", ".join(dict.fromkeys((*origin.names, *origin.families))),
        fetch={path: shlex.join(model.fetch_words) for path, model in drafts.models.items()},
    )
    page = scan_page(found)
    if has_mtp_layers(own.gguf):
        page = [*page, "", Paragraph(_HAS_MTP)]
    write_result(models_document(found, this_machine()), page_text(page), request.json_path)


_HAS_MTP = (
    "The target has MTP layers of its own, which draft without another file: --spec-type draft-mtp."
)


def fetch(request: Fetch) -> None:
    """Download a model, or a preset's target and its first draft, and print the paths.

    Raises:
        BadInputError: there is no such file or preset, or no room for it.
        HubError: the hub cannot be reached, or fails.
        UsageError: no file was named, or two, or ``huggingface_hub`` is not installed.
    """
    what, file, quiet = request.what, request.file, request.quiet
    if what.endswith(".toml") or "/" not in what:
        _fetch_preset(find_preset(what), file, quiet=quiet)
        return
    wanted = _wanted(what, file)
    if wanted.words:
        line = shlex.join(["hf", "download", wanted.repository, *wanted.words])
        hub = open_hub(shows_progress=not quiet, instead=f"; {line} does the same")
    else:
        hub = open_hub(shows_progress=False, instead="")
    models = hub.models(wanted.repository)
    names = ", ".join(text_of(model.files[0]) for model in models)
    if not wanted.words:
        raise UsageError(f"models fetch {what}: name one of its files: {names or 'it has no GGUF'}")
    model = wanted.of(models)
    if model is None:
        name = text_of(wanted.file or wanted.quant)
        raise BadInputError(f"{wanted.repository} has no {name}; it has {names or 'no GGUF model'}")
    say(str(hub.fetch(model, None, complain)))


class _Wanted(NamedTuple):
    """A repository, and its file by name or by quantisation; both empty where none was named."""

    repository: str
    file: str
    quant: str

    @property
    def words(self) -> tuple[str, ...]:
        """The file for ``hf download``."""
        if self.quant:
            return ("--include", f"*{self.quant}*")
        return (self.file,) if self.file else ()

    def of(self, models: Sequence[HubModel]) -> HubModel | None:
        """The model that is meant; None for none."""
        if self.quant:
            return of_quantisation(models, self.quant)
        for model in models:
            if self.file in model.files or self.file in {
                PurePosixPath(one).name for one in model.files
            }:
                return model
        return None


def _wanted(what: str, file: str | None) -> _Wanted:
    found = _ON_HUB.fullmatch(what)
    if found is None:
        raise UsageError(
            f"models fetch {what}: give OWNER/NAME of huggingface.co, OWNER/NAME:QUANT, or the "
            "address of a repository or of a file there"
        )
    if found["revision"] not in {None, "main"}:
        raise UsageError(
            f"models fetch {what}: only files of main are fetched; hf download "
            f"{found['repository']} --revision {found['revision']} FILE fetches others"
        )
    quant, own = found["quant"] or "", unquote(found["file"] or "").strip("/")
    if (quant or own) and (file or (quant and own)):
        raise UsageError(f"models fetch {what}: it names a file already; leave {file or own} out")
    return _Wanted(found["repository"], file or own, quant)


def _fetch_preset(preset: Preset, file: str | None, *, quiet: bool) -> None:
    if file is not None:
        raise UsageError(
            f"models fetch {preset.name}: a preset's files are fetched; leave {file} out, or give "
            f"OWNER/NAME in place of {preset.name}"
        )
    hub = open_hub(shows_progress=not quiet, instead=f"; {preset.downloads[0]} does the same")
    sources = (*((preset.target,) if preset.target else ()), *preset.draft[:1])
    for model in [model for source in sources for model in _models_of(hub, source)]:
        say(str(hub.fetch(model, preset.models_folder, complain)))


def _models_of(hub: "Hub", source: ModelFiles) -> Iterator[HubModel]:
    """The models that a preset names; of a glob that fits several the first."""
    models = hub.models(source.repo)
    for glob in source.files:
        found = next((one for one in models if takes(glob, one.files[0])), None)
        if found is None:
            raise BadInputError(f"{source.repo} has no {glob}; look at the repository's files")
        yield found
