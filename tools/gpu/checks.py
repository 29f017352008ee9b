"""The checks of a GPU, each in a process of its own.

    python -m tools.gpu.checks plans --models FOLDER          # on the GPU
    python -m tools.gpu.checks plans --models FOLDER --dry    # on an RPC server, with small models

Each prints its progress, and writes its result as JSON to the file that ``--out`` names. Anything
that is refused or breaks ends it with a traceback: ``run`` keeps that in the result's place.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.common import document_text, use_servers_library
from tools.gpu.card import Card, the_card
from tools.gpu.decoding import counts, experts, speed
from tools.gpu.memory import edge, fits, plans
from tools.gpu.panel import panel
from tools.gpu.program import screen, verdict

Check = Callable[[Card], dict[str, Any]]

CHECKS: dict[str, Check] = {
    check.__name__: check
    for check in (panel, plans, counts, speed, fits, experts, edge, verdict, screen)
}
"""By name, in order of what they are worth."""


def main() -> None:
    """Run one check."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("check", choices=CHECKS)
    parser.add_argument("--models", type=Path, required=True, help="folder for models")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--dry", action="store_true", help="an RPC server in place of the GPU")
    arguments = parser.parse_args()
    arguments.models.mkdir(parents=True, exist_ok=True)
    use_servers_library()
    with the_card(arguments.models, dry=arguments.dry) as card:
        result = CHECKS[arguments.check](card)
    arguments.out.write_text(document_text(result), encoding="utf-8")


if __name__ == "__main__":
    main()
