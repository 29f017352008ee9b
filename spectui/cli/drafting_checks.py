"""Refuses impossible drafting options before anything is loaded."""

from collections.abc import Iterable

from spectui.cli.given import Given
from spectui.cli.request import RunOptions
from spectui.errors import UsageError
from spectui.options.drafters import (
    HIDDEN_STATE_KINDS,
    MODEL_KIND,
    ONLY_BY_SERVER,
    DrafterSetting,
    numbers_of,
    owners,
)
from spectui.options.speculation import Speculation


def check_drafting(options: RunOptions, speculation: Speculation) -> None:
    """Refuse options that the selected drafters do not have.

    Raises:
        UsageError: a draft is longer than a decode.
    """
    sizes = {"-c": options.context.ctx_size, "-b": options.context.batch_size}
    for one in speculation.chain:
        needed = one.longest + 1
        short = {flag: size for flag, size in sizes.items() if size < needed}
        if short:
            given = " with ".join(f"{flag} {size}" for flag, size in short.items())
            length, lower = _longest_draft(one)
            raise UsageError(
                f"{length} is verified in decodes of {needed} tokens, which {given} does not "
                f"hold; raise {' and '.join(short)} to {needed} or more{lower}"
            )


def _longest_draft(one: DrafterSetting) -> tuple[str, str]:
    """The length of a drafter's longest draft as it is given, and how to shorten it."""
    bound = next((number for number in numbers_of(type(one)) if number.bounds_drafts), None)
    if bound is None:
        return f"{one.kind} with its drafts of up to {one.longest}", ""
    default = ", the default," if one.longest == bound.default else ""
    return f"{bound.flags[0]} {one.longest}{default}", ", or lower it"


def check_engine(kinds: Iterable[str]) -> None:
    """Refuse drafters that only llama-server runs.

    Raises:
        UsageError: one of ``kinds`` is such.
    """
    for kind in kinds:
        if kind in HIDDEN_STATE_KINDS:
            raise UsageError(
                f"--spec-type {kind}: {ONLY_BY_SERVER}; add --backend server --server-bin PATH"
            )


def check_typed(given: Given) -> None:
    """Refuse options that were typed for a drafter that is not selected.

    A preset or a command that was taken over may hold more than is used.

    Raises:
        UsageError: there is such an option.
    """
    wanted = given["spec_type"] or (MODEL_KIND,)
    for name, kinds in owners().items():
        if name in given.typed and kinds.isdisjoint(wanted):
            own = sorted(kinds.difference(HIDDEN_STATE_KINDS), reverse=True)
            raise UsageError(
                f"{given.flags[name]} is an option of {' and '.join(own)}, and who drafts here is "
                f"{', '.join(wanted)}; leave it out, or name in --spec-type who takes it"
            )
