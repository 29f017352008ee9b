"""What earlier versions had is refused with the way that is left."""

import pytest

from tests.support.cli import Spectui

pytest_plugins = ["tests.support.cli_fixtures"]


@pytest.mark.parametrize(
    ("arguments", "left"),
    [
        (["verify", "--counts"], "compare counts with benchmarks/draft_counts.py of a clone"),
        (["verify", "--no-counts"], "compare counts with benchmarks/draft_counts.py of a clone"),
        (["replay", "a.gz", "--costs"], "--json has them"),
        (["attach", "localhost:1", "--once"], "--json - alone writes what the server tells now"),
        (["tune", "--group", "a"], "run the same spectui tune with --study NAME"),
        (["probe", "experts"], "spectui tune measures what they cost on your prompts"),
        (["--monitor-replay", "a.jsonl"], "the screen shows this machine's readings alone"),
    ],
)
def test_what_is_gone_names_what_is_left(spectui: Spectui, arguments: list[str], left: str) -> None:
    assert spectui(*arguments) == 2
    assert left in " ".join(spectui.err.split())
