"""Commands and options of earlier versions, each with a sentence on the way that is left."""

_COUNTS = (
    "verify compares speedups alone and loads no models a second time, so that --counts and "
    "--no-counts are gone; leave them out, and compare counts with benchmarks/draft_counts.py of a "
    "clone"
)
REMOVED = {
    "counts": _COUNTS,
    "no-counts": _COUNTS,
    "costs": "replay draws no costs any more, so that its --costs is gone; --json has them",
    "once": "attach has no page of text any more, so that --once is gone; --json - alone writes "
    "what the server tells now",
    "monitor-replay": "the screen shows this machine's readings alone, so that --monitor-replay "
    "is gone; leave it out",
}
"""Options, by their long names without dashes, as in presets."""
REMOVED_COMMANDS = {
    "probe": "probe experts is gone; spectui doctor says what batches cost if tokens were routed "
    "at random, and spectui tune measures what they cost on your prompts",
}
