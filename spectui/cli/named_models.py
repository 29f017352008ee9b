"""The models that a command is given: by path, or the demo's."""

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from spectui.cli.progress import Progress
from spectui.cli.request import RunOptions
from spectui.demo import DemoModel, ensure_demo_models
from spectui.errors import BadInputError, UsageError
from spectui.models.facts import has_mtp_layers, kind_of_draft, kind_of_file, unmeasured_sentences
from spectui.models.gguf import check_is_gguf, read_gguf
from spectui.options.drafters import MODEL_KIND, MTP_KIND, DraftMtp, ModelDrafter, with_kind
from spectui.options.setup import Setup
from spectui.options.speculation import Speculation
from spectui.paths import text_of
from spectui.presets import find_preset

Drafts = Mapping[str, Path]
"""Draft models by name."""


def with_preset_models(options: RunOptions, *, most_drafts: int | None = None) -> RunOptions:
    """Fill in the preset's models for those that were not given.

    Args:
        options: as they were given; ``--demo`` brings models of its own.
        most_drafts: take the first ones that are there; None for all.

    Raises:
        BadInputError: files are missing; says how to get them and where they belong.
    """
    if options.preset is None or options.demo:
        return options
    preset = find_preset(options.preset)
    target, drafts = options.model, options.model_draft
    missing: list[str] = []
    if target is None and preset.target is not None:
        target = preset.find_target()
        if target is None:
            missing.append(f"the target {preset.target}")
    if preset.draft and most_drafts != 0 and not drafts:
        drafts = preset.find_drafts()[:most_drafts]
        if not drafts and preset.needs_draft:
            missing.append(f"the draft {' or '.join(str(draft) for draft in preset.draft)}")
    if missing:
        raise BadInputError(
            f"models of preset {preset.name} are missing: fetch {' and '.join(missing)} into "
            f"{preset.models_folder}, as spectui presets show {shlex.quote(options.preset)} says, "
            "or give your own with -m and -md"
        )
    return replace(options, model=target, model_draft=drafts)


def find_models(
    options: RunOptions,
    *,
    needs_draft: bool = True,
    reads_headers: bool = True,
) -> tuple[Path, Drafts]:
    """Find target and drafts: those given, or the demo's, built if necessary.

    Args:
        options: as they were given.
        needs_draft: False where n-gram drafters do as well.
        reads_headers: False where another process will; then the first bytes have to do.

    Returns:
        The target, and the drafts by name.

    Raises:
        BadInputError: a file is missing or no GGUF; checked before anything is loaded.
        UsageError: no target or no draft, or ``--demo`` with a target.
    """
    target, own = _target_and_drafts(options, needs_draft=needs_draft)
    check: Callable[[Path], object] = read_gguf if reads_headers else check_is_gguf
    if not options.demo:
        for path in (target, *options.model_draft):
            check(path)
    return target, own


def find_setup(options: RunOptions, speculation: Speculation, *, several: str) -> Setup:
    """The setup of a command that takes one draft.

    Args:
        options: as they were given.
        speculation: setting that is to run.
        several: what to say of several drafts.

    Raises:
        BadInputError: a file is missing, or the draft is of another kind than was named.
        UsageError: there are several drafts, or one that nobody asks.
    """
    target, drafts = find_models(options, needs_draft=speculation.needs_draft)
    options.check_drafts(are_asked=speculation.takes_draft)
    if len(drafts) > 1 and not options.demo:
        raise UsageError(several)
    warn_of_sampling(target, options.progress)
    has_draft = speculation.needs_draft or (speculation.takes_draft and options.model_draft)
    draft = next(iter(drafts.values())) if has_draft else None
    is_named = "spec_type" in options.given.typed
    return Setup(
        target=options.target_options(target),
        draft=None if draft is None else options.draft_options(draft),
        context=options.context,
        speculation=with_kind_of_file(speculation, draft, is_named=is_named),
        extra=options.given.served_extra,
    )


def only_named_kinds(drafts: Drafts, options: RunOptions) -> Drafts:
    """The drafts of kinds that ``--spec-type`` names, or all where it names none.

    Raises:
        BadInputError: there are drafts, and none is of a named kind.
    """
    if not options.takes_files:
        return {}
    if not options.spec_type:
        return drafts
    kinds = {name: kind_of_file(path) for name, path in drafts.items()}
    wanted = {name: path for name, path in drafts.items() if kinds[name] in options.spec_type}
    if options.model_draft and not wanted:
        raise BadInputError(
            "no draft of -md is of a kind that --spec-type names; name its kind, or give another "
            "draft"
        )
    for name in drafts.keys() - wanted.keys():
        options.progress.say(
            f"left out {name}: it drafts as {kinds[name]}, which --spec-type does not name"
        )
    return wanted


def mtp_files(drafts: Drafts) -> frozenset[str]:
    """Names of the drafts that are files of MTP layers alone."""
    return frozenset(name for name, path in drafts.items() if kind_of_file(path) == MTP_KIND)


def with_kind_of_file(
    speculation: Speculation, draft: Path | None, *, is_named: bool = False
) -> Speculation:
    """The setting with the kind of the draft's file.

    Args:
        speculation: the setting.
        draft: the file; None for none.
        is_named: whether the user has typed who drafts.

    Raises:
        BadInputError: the file is of another kind than was named.
    """
    own = speculation.own
    if draft is None or not isinstance(own, ModelDrafter):
        return speculation
    try:
        gguf = read_gguf(draft)
    except BadInputError:
        # Whoever loads it says so.
        return speculation
    kind = kind_of_draft(gguf) or MODEL_KIND
    if kind == own.kind or (isinstance(own, DraftMtp) and has_mtp_layers(gguf)):
        return speculation
    if not is_named:
        return Speculation(with_kind(own, kind), speculation.ahead)
    raise BadInputError(
        f"{draft} drafts as {kind}, and --spec-type names {own.kind}; name {kind}, or give "
        "another draft"
    )


def warn_of_sampling(target: Path, progress: Progress) -> None:
    """Say what the target's file asks of the sampling that no measurement applies."""
    for sentence in unmeasured_sentences(target):
        progress.announce(f"note: {sentence}")


def _target_and_drafts(options: RunOptions, *, needs_draft: bool) -> tuple[Path, dict[str, Path]]:
    if options.demo:
        if options.model is not None:
            raise UsageError("--demo brings its own target; leave out -m, or leave out --demo")
        target = DemoModel(options.target)
        wanted = (target, DemoModel.DRAFT, DemoModel.DRAFT_THIN)
        built = ensure_demo_models(wanted, on_progress=options.progress.on_demo)
        if options.model_draft:
            return built[target], named(options.model_draft)
        # By their files, as the screen names them.
        return built[target], named([built[model] for model in wanted[1:]])
    if options.model is None:
        raise UsageError("give a target with -m and a draft with -md, or --demo")
    if needs_draft and not options.model_draft:
        raise UsageError("give at least one draft with -md")
    return options.model, named(options.model_draft)


def named(paths: Sequence[Path]) -> dict[str, Path]:
    """Give candidates short, distinct names: file stems, numbered if they collide."""
    # The same file given twice is one candidate, under the first of its names.
    distinct: dict[str, Path] = {}
    for path in paths:
        # Unlike Path.resolve() it takes a link to itself, which is refused where it is opened.
        distinct.setdefault(os.path.realpath(path), path)
    stems = [text_of(path.stem) for path in distinct.values()]
    return {
        stem if stems.count(stem) == 1 and stem != MTP_KIND else f"{stem}#{index}": path
        for index, (stem, path) in enumerate(zip(stems, distinct.values(), strict=True), start=1)
    }
