"""Refuses ways to draft that cannot be, before anything is loaded."""

from collections.abc import Iterator, Mapping
from typing import Any

import click
from click.core import ParameterSource

from spectui.cli.drafting import MODEL_PARAMETERS, defaults_of, parameter_of
from spectui.cli.request import SharedOptions
from spectui.config import MODEL_KIND, MTP_KIND, SERVER_KINDS, NgramKind, SpeculationConfig
from spectui.errors import UsageError


def check_drafting(options: SharedOptions, speculation: SpeculationConfig) -> None:
    """Refuse options that the drafters cannot have.

    Raises:
        UsageError: a draft is longer than a decode, or a draft model's options were given where the
            target's own MTP layers draft.
    """
    for one in speculation.chain:
        _check_room(options, one)
    if not speculation.mtp:
        return
    if options.model_draft:
        raise UsageError(
            f"--spec-type {MTP_KIND} drafts with the target's own MTP layers; leave out -md"
        )
    if {options.cache_type_k_draft, options.cache_type_v_draft} != {"f16"}:
        raise UsageError(
            f"-ctkd and -ctvd: with --spec-type {MTP_KIND} the engine keeps the cache of the MTP "
            "layers in f16; leave them out"
        )


def _check_room(options: SharedOptions, one: SpeculationConfig) -> None:
    sizes = {"-c": options.ctx_size, "-b": options.batch_size}
    needed = one.draft_max + 1
    short = {flag: size for flag, size in sizes.items() if size < needed}
    if not short:
        return
    given = " with ".join(f"{flag} {size}" for flag, size in short.items())
    lower = "" if one.kind == NgramKind.CACHE else ", or lower it"
    raise UsageError(
        f"{_length_of(one)} is verified in decodes of {needed} tokens, "
        f"which {given} does not hold; raise {' and '.join(short)} to {needed} or more{lower}"
    )


def _length_of(one: SpeculationConfig) -> str:
    """The option that bounds the drafts of ``one``, with its value."""
    if one.ngram is None:
        return f"--draft-max {one.draft_max}"
    names = {"size_m", "n_max"} & set(one.ngram.options(one.draft_max))
    if not names:
        return f"{one.kind} with its drafts of up to {one.draft_max}"
    return f"--spec-{one.kind}-{names.pop().replace('_', '-')} {one.draft_max}"


def check_typed(parsed: Mapping[str, Any]) -> None:
    """Refuse what was typed for a drafter that is not asked.

    A preset or a command that was taken over may hold more than is used.

    Raises:
        UsageError: there is such an option.
    """
    context = click.get_current_context()
    wanted = parsed["spec_type"] or (MODEL_KIND,)
    for name, kinds in _owners():
        if context.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
            continue
        if not kinds.intersection(MODEL_KIND if one in SERVER_KINDS else one for one in wanted):
            flag = next(p.opts[0] for p in context.command.params if p.name == name)
            raise UsageError(
                f"{flag} is an option of {' and '.join(sorted(kinds, reverse=True))}, and who "
                f"drafts here is {', '.join(wanted)}; leave it out, or name in --spec-type who "
                "takes it"
            )


def _owners() -> Iterator[tuple[str, frozenset[str]]]:
    """Every option by click's name, and whose it is."""
    for name in MODEL_PARAMETERS:
        yield name, frozenset({MODEL_KIND, MTP_KIND})
    for kind in NgramKind:
        for name in defaults_of(kind):
            yield parameter_of(kind, name), frozenset({str(kind)})
