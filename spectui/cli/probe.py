"""``spectui probe``: examines a model while it decodes."""

from typing import Any

import click

from spectui.cli.help import Group
from spectui.cli.options import shared_options


@click.group(name="probe", cls=Group)
def command() -> None:
    """Look into a model while it decodes."""


_EXAMPLES = (("Experts of the demo's mixture", "spectui probe experts --demo --target moe"),)


@command.command(name="experts", examples=_EXAMPLES)
@shared_options
def experts(**shared: Any) -> None:
    """Count the experts that batches of the target touch, on your prompts and its answers.

    A mixture of experts reads for a verified batch what all of its tokens are routed to. The more
    alike neighbouring tokens are routed, the cheaper long drafts are.
    """
    from spectui.cli.run_probe import probe_experts

    probe_experts(shared)
